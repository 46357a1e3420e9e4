"""Rows: tables, one module of functions per table, and the only place that knows SQL."""
