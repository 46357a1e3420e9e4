"""Resources of the management API: sign-in, one's own account, all accounts, the audit; and their messages."""
