"""Who may do what, and who did what: accounts, sessions, tokens, and the audit."""
