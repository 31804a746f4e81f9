"""An undo may take several changes, and each of its lines names what it takes back."""

from alembic import op

from engine.registry.migrations.versions.m0005_audit import SQLITE

revision = "m0006"
down_revision = "m0005"


def upgrade() -> None:
    """An index in place of the constraint; SQLite makes the table anew for that, and its triggers with it."""
    with op.batch_alter_table("audit") as audit:
        audit.drop_constraint(op.f("uq_audit_undo_of"), type_="unique")
        audit.create_index(op.f("ix_audit_undo_of"), ["undo_of"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        for statement in SQLITE:
            op.execute(statement)
