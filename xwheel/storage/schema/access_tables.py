"""The tables of what programs and executors show, with the metadata of :mod:`xwheel.storage.schema.tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table, Text, UniqueConstraint
from sqlalchemy.dialects.mysql import BINARY

from xwheel.storage.schema.tables import AutoId, metadata

api_token = Table(
    "api_token",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("digest", LargeBinary(32).with_variant(BINARY(32), "mysql", "mariadb"), nullable=False),
    # a token for XXL-JOB's calls and for what code declares, of the jobs of this group alone; null for all others
    Column("group_id", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    # what it may do, a JSON object as in account; null for everything, or for the jobs of group_id
    Column("grants", Text),
    # whose it is; null for a service
    Column("account_id", BigInteger),
    # null: for ever
    Column("expires_ms", BigInteger),
    # a JSON list of networks that it is good from; null for all
    Column("networks", Text),
    # null: not yet; written once a minute at most
    Column("used_ms", BigInteger),
    UniqueConstraint("name", name="uq_api_token_name"),
    UniqueConstraint("digest", name="uq_api_token_digest"),
    Index("ix_api_token_account", "account_id"),
    sqlite_autoincrement=True,
)

# what the executors of a group hold, and are called with; sent, so a digest would not do
executor_secret = Table(
    "executor_secret",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("digest", LargeBinary(32).with_variant(BINARY(32), "mysql", "mariadb"), nullable=False),
    # the secret, encrypted if the cluster has a key; see runtime/sealing.py
    Column("sealed", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    # null: for ever
    Column("expires_ms", BigInteger),
    UniqueConstraint("name", name="uq_executor_secret_name"),
    UniqueConstraint("digest", name="uq_executor_secret_digest"),
    sqlite_autoincrement=True,
)
