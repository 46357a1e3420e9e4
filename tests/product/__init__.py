"""Tests of what ``xwheel[server]`` brings besides the core, in its environment."""
