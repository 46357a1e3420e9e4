"""Tests of accounts and of the audit."""
