"""Placement, schedules and operations."""

import sqlalchemy as sa
from alembic import op

revision = "m0003"
down_revision = "m0002"


def upgrade() -> None:
    """Create them."""
    _create_placement()
    _create_schedule()
    _create_operation()
    _create_operation_item()


def _create_placement() -> None:
    op.create_table(
        "placement",
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("pin_tier", sa.String(), nullable=True),
        sa.Column("pin_until_unix", sa.Float(), nullable=True),
        sa.Column("pin_reason", sa.String(), nullable=False),
        sa.Column("pin_by", sa.String(), nullable=False),
        sa.Column("pin_unix", sa.Float(), nullable=True),
        sa.Column("warm_tier", sa.String(), nullable=True),
        sa.Column("warm_priority", sa.Integer(), nullable=False),
        sa.Column("warm_by", sa.String(), nullable=False),
        sa.Column("warm_unix", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("content", name=op.f("pk_placement")),
    )


def _create_schedule() -> None:
    op.create_table(
        "schedule",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("alias", sa.String(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column("days", sa.JSON(), nullable=False),
        sa.Column("minute", sa.Integer(), nullable=True),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("ran_unix", sa.Float(), nullable=True),
        sa.Column("created_unix", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"], name=op.f("fk_schedule_tenant")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_schedule")),
    )
    op.create_index(op.f("ix_schedule_tenant"), "schedule", ["tenant"], unique=False)


def _create_operation() -> None:
    op.create_table(
        "operation",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=True),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("created_unix", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("started_unix", sa.Float(), nullable=True),
        sa.Column("ended_unix", sa.Float(), nullable=True),
        sa.Column("message", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation")),
    )
    op.create_index(op.f("ix_operation_created_unix"), "operation", ["created_unix"], unique=False)
    op.create_index(op.f("ix_operation_state_created_unix"), "operation", ["state", "created_unix"], unique=False)


def _create_operation_item() -> None:
    op.create_table(
        "operation_item",
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("code", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("ended_unix", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["operation"], ["operation.id"], name=op.f("fk_operation_item_operation")),
        sa.PrimaryKeyConstraint("operation", "number", name=op.f("pk_operation_item")),
    )
    op.create_index(op.f("ix_operation_item_operation_state_number"), "operation_item", ["operation", "state", "number"], unique=False)
