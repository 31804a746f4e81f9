"""The audit log, which only grows."""

import sqlalchemy as sa
from alembic import op

revision = "m0005"
down_revision = "m0004"

REFUSED = "the audit log only grows"
SQLITE = tuple(
    f"CREATE TRIGGER audit_no_{verb} BEFORE {verb.upper()} ON audit BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
    for verb in ("update", "delete")
)
POSTGRESQL = (
    f"CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$",
    "CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION refuse_audit_change()",
)


def upgrade() -> None:
    """Create it, and have the database itself refuse every change to what stands."""
    _create_audit()
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("at_unix", sa.Float(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("by_kind", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=True),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("object_kind", sa.String(), nullable=False),
        sa.Column("object", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=True),
        sa.Column("after", sa.String(), nullable=True),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("request", sa.String(), nullable=True),
        sa.Column("undo_of", sa.Integer(), nullable=True),
        sa.Column("previous", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_audit")),
        sa.UniqueConstraint("undo_of", name=op.f("uq_audit_undo_of")),
    )
    op.create_index(op.f("ix_audit_at_unix"), "audit", ["at_unix"], unique=False)
    op.create_index(op.f("ix_audit_by_key"), "audit", ["by", "key"], unique=False)
    op.create_index(op.f("ix_audit_object_kind_object_key"), "audit", ["object_kind", "object", "key"], unique=False)
    op.create_index(op.f("ix_audit_tenant_key"), "audit", ["tenant", "key"], unique=False)
