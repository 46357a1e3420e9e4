"""The tables of people and of what was done; databases of earlier versions have them under these names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BINARY,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)
from xwheel.plugin import Migration
from xwheel.storage.schema.tables import WHERE, AutoId, MediumText

metadata: Final = MetaData()

account = Table(
    "account",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("name", String(64), nullable=False),
    # the name as names are compared: two must not differ by case or width alone
    Column("name_key", String(128), nullable=False),
    Column("display_name", String(128), nullable=False),
    # whose word counts for who this is: "local", or another identity provider, and what that calls it
    Column("provider", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    # group id, or * for all, to role and whether scripts too: {"*": ["viewer", false], "7": ["editor", true]}
    Column("grants", Text, nullable=False),
    # may do everything everywhere; stands in grants, too
    Column("is_admin", Boolean, nullable=False),
    Column("password", String(255)),
    Column("password_ms", BigInteger),
    # the next sign-in sets another password before anything else
    Column("must_change", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
    # since when too many wrong passwords keep it locked, until an admin lifts that
    Column("locked_ms", BigInteger),
    Column("revision", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("signed_in_ms", BigInteger),
    UniqueConstraint("name_key", name="uq_account_name_key"),
    UniqueConstraint("provider", "subject", name="uq_account_provider_subject"),
    Index("ix_account_is_admin", "is_admin"),
    sqlite_autoincrement=True,
)

account_session = Table(
    "account_session",
    metadata,
    Column("id", AutoId, primary_key=True),
    # of the cookie
    Column("digest", LargeBinary(32).with_variant(BINARY(32), "mysql", "mariadb"), nullable=False),
    Column("account_id", BigInteger, nullable=False),
    Column("provider", String(64), nullable=False),
    # what the provider needs to ask again or to sign out, sealed like executor secrets; null for nothing
    Column("provider_data", Text),
    Column("refresh_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    # written once a minute at most
    Column("seen_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("address", String(64), nullable=False),
    # that the cookie is good from
    Column("network", String(64), nullable=False),
    Column("agent", String(255), nullable=False),
    # when its owner typed the password once more; null for never
    Column("confirmed_ms", BigInteger),
    UniqueConstraint("digest", name="uq_account_session_digest"),
    Index("ix_account_session_account", "account_id"),
    Index("ix_account_session_expires", "expires_ms"),
    sqlite_autoincrement=True,
)

# what signs somebody in once, in place of a password
sign_in_link = Table(
    "sign_in_link",
    metadata,
    Column("digest", LargeBinary(32).with_variant(BINARY(32), "mysql", "mariadb"), primary_key=True),
    Column("account_id", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Index("ix_sign_in_link_account", "account_id"),
    Index("ix_sign_in_link_expires", "expires_ms"),
)

# what pages keep for an account, such as its preferences
account_setting = Table(
    "account_setting",
    metadata,
    Column("account_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(64), primary_key=True),
    # any JSON; TEXT of MySQL and MariaDB ends a byte below 64 KiB
    Column("value", Text().with_variant(MediumText(), "mysql", "mariadb"), nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)

# wrong passwords in a row, of an account's name or from an address
sign_in_failure = Table(
    "sign_in_failure",
    metadata,
    # "name" or "address", and a digest of it
    Column("id", String(80), primary_key=True),
    Column("failures", Integer, nullable=False),
    # before this, no attempt counts
    Column("until_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Index("ix_sign_in_failure_last", "last_ms"),
)

# how what somebody wanted seldom ends
NOT_DONE = text("outcome <> 'done'")

# who did what; see the folder audit
audit = Table(
    "audit",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor_kind", String(16), nullable=False),
    Column("actor", String(255), nullable=False),
    Column("account_id", BigInteger),
    Column("credential", String(255), nullable=False),
    Column("address", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("object_kind", String(32), nullable=False),
    Column("object_id", String(255), nullable=False),
    # null for what belongs to no group, or to all
    Column("group_id", BigInteger),
    Column("outcome", String(16), nullable=False),
    # the actor's words
    Column("reason", Text, nullable=False),
    # a JSON object: what changed, before and after
    Column("detail", Text, nullable=False),
    # a random number: two rows alike in all else are not copies of each other
    Column("nonce", BigInteger, nullable=False),
    # the signature of all of that, in hexadecimal digits as the link is, and the name of its key
    Column("key_id", String(64), nullable=False),
    Column("mac", String(64), nullable=False),
    # place in the chain, and the signature of all up to here; null until it is sealed
    Column("position", BigInteger),
    Column("link", String(64)),
    UniqueConstraint("position", name="uq_audit_position"),
    Index("ix_audit_at", "at_ms"),
    Index("ix_audit_actor", "actor", "at_ms"),
    Index("ix_audit_action", "action", "at_ms"),
    Index("ix_audit_object", "object_kind", "object_id", "at_ms"),
    Index("ix_audit_group", "group_id", "at_ms"),
    # what was done is found without it, as nearly all was
    Index("ix_audit_outcome", "outcome", "at_ms", info={WHERE: NOT_DONE}),
    sqlite_autoincrement=True,
)

# one row, once something is sealed: up to where, and after what the rows begin that retention left
audit_head = Table(
    "audit_head",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("link", String(64), nullable=False),
    Column("sealed_ms", BigInteger, nullable=False),
    Column("base_position", BigInteger, nullable=False),
    Column("base_link", String(64), nullable=False),
    # the signature of all of that, and the name of its key
    Column("key_id", String(64), nullable=False),
    Column("mac", String(64), nullable=False),
)


class AccountsTables:
    """The tables, and the migrations that make what a database lacks."""

    name = "accounts"

    def migrations(self) -> Sequence[Migration]:
        """Return how the tables are made; rows that an earlier version wrote stay as they are."""
        return [Migration("0001_adopt", _adopt), Migration("0002_confirmed", _add_confirmed)]

    def tables(self) -> Sequence[str]:
        """Return their names."""
        return list(metadata.tables)


def _adopt(conn: Any) -> None:
    metadata.create_all(conn, checkfirst=True)


def _add_confirmed(conn: Any) -> None:
    """Add the column to tables of before; new ones have it, and so have those whose migration is begun again."""
    if "confirmed_ms" not in {column["name"] for column in inspect(conn).get_columns(account_session.name)}:
        conn.execute(text("ALTER TABLE account_session ADD COLUMN confirmed_ms BIGINT"))
