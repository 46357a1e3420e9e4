"""Alarms: what is told, when, to whom, and what became of it."""
