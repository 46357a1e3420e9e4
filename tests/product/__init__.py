"""Tests of what ``xwheel[server]`` brings next to the core, in the environment that has all of it."""
