"""Pins by tenant: of weights that several have, each pins for itself."""

import sqlalchemy as sa
from alembic import op

revision = "m0007"
down_revision = "m0006"

MOVED = ("pin_tier", "pin_until_unix", "pin_reason", "pin_by", "pin_unix")


def upgrade() -> None:
    """A table of their own; pins that there are stay, as those of operators of all tenants."""
    op.create_table(
        "pin",
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("until_unix", sa.Float(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at_unix", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("content", "tenant", name=op.f("pk_pin")),
    )
    op.execute(
        'INSERT INTO pin (content, tenant, tier, until_unix, reason, "by", at_unix) '
        "SELECT content, '', pin_tier, pin_until_unix, pin_reason, pin_by, COALESCE(pin_unix, 0) FROM placement WHERE pin_tier IS NOT NULL"
    )
    op.execute("DELETE FROM placement WHERE warm_tier IS NULL")
    with op.batch_alter_table("placement") as placement:
        for column in MOVED:
            placement.drop_column(column)
