"""Tests of the commands that talk to a node, and of logins, tokens and secrets."""
