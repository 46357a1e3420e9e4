"""Tests of the console's part in the node; those of its pages are with it."""
