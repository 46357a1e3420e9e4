"""Who may call: tokens, and secrets of executors."""
