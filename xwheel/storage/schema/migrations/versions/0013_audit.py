"""The audit: who did what, signed row by row and chained.

Nodes of the version before go on working: they neither read nor write it, and what is done under them leaves no row.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table("audit"):
        op.create_table(
            "audit",
            sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("actor_kind", sa.String(length=16), nullable=False),
            sa.Column("actor", sa.String(length=255), nullable=False),
            sa.Column("account_id", sa.BigInteger(), nullable=True),
            sa.Column("credential", sa.String(length=255), nullable=False),
            sa.Column("address", sa.String(length=255), nullable=False),
            sa.Column("action", sa.String(length=64), nullable=False),
            sa.Column("object_kind", sa.String(length=32), nullable=False),
            sa.Column("object_id", sa.String(length=255), nullable=False),
            sa.Column("group_id", sa.BigInteger(), nullable=True),
            sa.Column("outcome", sa.String(length=16), nullable=False),
            sa.Column("reason", sa.Text(), nullable=False),
            sa.Column("detail", sa.Text(), nullable=False),
            sa.Column("nonce", sa.BigInteger(), nullable=False),
            sa.Column("key_id", sa.String(length=64), nullable=False),
            sa.Column("mac", sa.String(length=64), nullable=False),
            sa.Column("position", sa.BigInteger(), nullable=True),
            sa.Column("link", sa.String(length=64), nullable=True),
            sa.PrimaryKeyConstraint("id"),
            sa.UniqueConstraint("position", name="uq_audit_position"),
            sqlite_autoincrement=True,
        )
    known = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("audit")}
    for name, columns in INDEXES.items():
        if name not in known:
            where = NOT_DONE if "outcome" in columns else None
            op.create_index(name, "audit", columns, sqlite_where=where, postgresql_where=where)
    if not inspector.has_table("audit_head"):
        op.create_table(
            "audit_head",
            sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
            sa.Column("position", sa.BigInteger(), nullable=False),
            sa.Column("link", sa.String(length=64), nullable=False),
            sa.Column("sealed_ms", sa.BigInteger(), nullable=False),
            sa.Column("base_position", sa.BigInteger(), nullable=False),
            sa.Column("base_link", sa.String(length=64), nullable=False),
            sa.Column("key_id", sa.String(length=64), nullable=False),
            sa.Column("mac", sa.String(length=64), nullable=False),
            sa.PrimaryKeyConstraint("id"),
        )


def downgrade() -> None:
    """Drop it; export it before."""
    inspector = sa.inspect(op.get_bind())
    for name in ("audit_head", "audit"):
        if inspector.has_table(name):
            op.drop_table(name)


NOT_DONE = sa.text("outcome <> 'done'")
INDEXES = {
    "ix_audit_at": ["at_ms"],
    "ix_audit_actor": ["actor", "at_ms"],
    "ix_audit_action": ["action", "at_ms"],
    "ix_audit_object": ["object_kind", "object_id", "at_ms"],
    "ix_audit_group": ["group_id", "at_ms"],
    "ix_audit_outcome": ["outcome", "at_ms"],
}
