"""The tables of people and of the audit, and the statements on them."""
