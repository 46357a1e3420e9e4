"""What pages keep for accounts, and links that sign in once.

Nodes of the version before go on working: they neither read nor write them. An account that they delete leaves rows
behind which no one can ask for, since no account gets its id again.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import BINARY, MEDIUMTEXT

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INDEXES = {"ix_sign_in_link_account": ["account_id"], "ix_sign_in_link_expires": ["expires_ms"]}


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    there = sa.inspect(op.get_bind()).get_table_names()
    if "account_setting" not in there:
        op.create_table(
            "account_setting",
            sa.Column("account_id", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("name", sa.String(length=64), nullable=False),
            sa.Column("value", sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
            sa.Column("updated_ms", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("account_id", "name"),
        )
    if "sign_in_link" not in there:
        op.create_table(
            "sign_in_link",
            sa.Column(
                "digest",
                sa.LargeBinary(length=32).with_variant(BINARY(32), "mysql", "mariadb"),
                nullable=False,
            ),
            sa.Column("account_id", sa.BigInteger(), nullable=False),
            sa.Column("expires_ms", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("digest"),
        )
    found = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("sign_in_link")}
    for name, keys in INDEXES.items():
        if name not in found:
            op.create_index(name, "sign_in_link", keys)


def downgrade() -> None:
    """Drop them."""
    there = sa.inspect(op.get_bind()).get_table_names()
    for name in ("sign_in_link", "account_setting"):
        if name in there:
            op.drop_table(name)
