"""Alembic's environment and one module for each revision of the schema."""
