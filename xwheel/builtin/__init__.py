"""Plugins that ship with the core. Nobody imports them: they are found through entry points like all others."""
