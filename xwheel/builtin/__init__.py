"""Plugins that ship with the core. They are never imported, but found through entry points like all others."""
