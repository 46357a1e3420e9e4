"""What tokens may do, and whose they are; accounts are the rows of a plugin.

Nodes of the version before go on working: they take a token for everything as they always did, and open nothing with
one of an account, or with a role, an end or networks, which they take for that of a group that is not there.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.tables import collated

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

INDEX = "ix_api_token_account"


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("api_token")}
    for name, kind in COLUMNS.items():
        if name not in known:
            op.add_column("api_token", _column(name, kind))
    if INDEX not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("api_token")}:
        op.create_index(INDEX, "api_token", ["account_id"])


def downgrade() -> None:
    """Drop them; what tokens of accounts or with a role may do is lost, so they go, too."""
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("api_token")}
    if "grants" in known:
        op.execute("DELETE FROM api_token WHERE grants IS NOT NULL OR account_id IS NOT NULL")
    found = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("api_token")}
    if INDEX in found:
        op.drop_index(INDEX, "api_token")
    for name in COLUMNS:
        if name in known:
            op.drop_column("api_token", name)


def _column(name: str, kind: sa.Text | sa.BigInteger) -> sa.Column[Any]:
    if isinstance(kind, sa.Text):
        return sa.Column(name, collated(op.get_bind(), kind), nullable=True)
    return sa.Column(name, kind, nullable=True)


COLUMNS: dict[str, sa.Text | sa.BigInteger] = {
    "grants": sa.Text(),
    "account_id": sa.BigInteger(),
    "expires_ms": sa.BigInteger(),
    "networks": sa.Text(),
    "used_ms": sa.BigInteger(),
}
