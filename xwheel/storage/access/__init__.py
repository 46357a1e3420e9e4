"""Secrets that are shown to nodes: tokens of the management API, and executor secrets."""
