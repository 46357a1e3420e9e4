"""Who may call: sessions, accounts, tokens, and secrets of executors."""
