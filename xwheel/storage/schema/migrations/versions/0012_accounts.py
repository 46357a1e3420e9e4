"""Accounts, their sessions, wrong passwords, and what tokens may do.

Nodes of the version before go on working: they take a token for everything as they always did, and open nothing with
one of an account, or with a role, an end or networks, which they take for that of a group that is not there.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import BINARY
from sqlalchemy.schema import SchemaItem

from xwheel.storage.schema.tables import AutoId, collated

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

DIGEST = sa.LargeBinary(length=32).with_variant(BINARY(32), "mysql", "mariadb")


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    there = sa.inspect(op.get_bind()).get_table_names()
    for name, columns in TABLES.items():
        if name not in there:
            numbered = {} if name == "sign_in_failure" else {"sqlite_autoincrement": True}
            op.create_table(name, *columns(), **numbered)
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("api_token")}
    for name, kind in COLUMNS.items():
        if name not in known:
            op.add_column("api_token", _column(name, kind))
    for table, indexes in INDEXES.items():
        found = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
        for name, keys in indexes.items():
            if name not in found:
                op.create_index(name, table, keys)


def downgrade() -> None:
    """Drop them, and with them all accounts; what tokens of accounts or with a role may do is lost, so they go, too."""
    there = sa.inspect(op.get_bind()).get_table_names()
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("api_token")}
    if "grants" in known:
        op.execute("DELETE FROM api_token WHERE grants IS NOT NULL OR account_id IS NOT NULL")
    found = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("api_token")}
    if "ix_api_token_account" in found:
        op.drop_index("ix_api_token_account", "api_token")
    for name in COLUMNS:
        if name in known:
            op.drop_column("api_token", name)
    for name in reversed(TABLES):
        if name in there:
            op.drop_table(name)


def _column(name: str, kind: sa.Text | sa.BigInteger) -> sa.Column[Any]:
    if isinstance(kind, sa.Text):
        return sa.Column(name, collated(op.get_bind(), kind), nullable=True)
    return sa.Column(name, kind, nullable=True)


def _account() -> list[SchemaItem]:
    return [
        sa.Column("id", AutoId, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("name_key", sa.String(length=128), nullable=False),
        sa.Column("display_name", sa.String(length=128), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("grants", sa.Text(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("password", sa.String(length=255), nullable=True),
        sa.Column("password_ms", sa.BigInteger(), nullable=True),
        sa.Column("must_change", sa.Boolean(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("locked_ms", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("signed_in_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name_key", name="uq_account_name_key"),
        sa.UniqueConstraint("provider", "subject", name="uq_account_provider_subject"),
    ]


def _session() -> list[SchemaItem]:
    return [
        sa.Column("id", AutoId, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("provider_data", sa.Text(), nullable=True),
        sa.Column("refresh_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("network", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest", name="uq_account_session_digest"),
    ]


def _failure() -> list[SchemaItem]:
    return [
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    ]


TABLES = {"account": _account, "account_session": _session, "sign_in_failure": _failure}
COLUMNS: dict[str, sa.Text | sa.BigInteger] = {
    "grants": sa.Text(),
    "account_id": sa.BigInteger(),
    "expires_ms": sa.BigInteger(),
    "networks": sa.Text(),
    "used_ms": sa.BigInteger(),
}
INDEXES = {
    "api_token": {"ix_api_token_account": ["account_id"]},
    "account": {"ix_account_is_admin": ["is_admin"]},
    "account_session": {
        "ix_account_session_account": ["account_id"],
        "ix_account_session_expires": ["expires_ms"],
    },
    "sign_in_failure": {"ix_sign_in_failure_last": ["last_ms"]},
}
