"""Requests, loads and usage."""

import sqlalchemy as sa
from alembic import op

revision = "m0004"
down_revision = "m0003"


def upgrade() -> None:
    """Create them."""
    _create_request_record()
    _create_load_record()
    _create_usage_day()


def _create_request_record() -> None:
    op.create_table(
        "request_record",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("request", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("api_key", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("content", sa.String(), nullable=True),
        sa.Column("ended_unix", sa.Float(), nullable=False),
        sa.Column("finish_reason", sa.String(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("cached_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("tier", sa.String(), nullable=True),
        sa.Column("queue_s", sa.Float(), nullable=True),
        sa.Column("load_s", sa.Float(), nullable=True),
        sa.Column("ttft_s", sa.Float(), nullable=True),
        sa.Column("total_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_request_record")),
    )
    op.create_index(op.f("ix_request_record_content"), "request_record", ["content"], unique=False)
    op.create_index(op.f("ix_request_record_ended_unix"), "request_record", ["ended_unix"], unique=False)
    op.create_index(op.f("ix_request_record_request"), "request_record", ["request"], unique=False)
    op.create_index(op.f("ix_request_record_tenant_ended_unix"), "request_record", ["tenant", "ended_unix"], unique=False)


def _create_load_record() -> None:
    op.create_table(
        "load_record",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("at_unix", sa.Float(), nullable=False),
        sa.Column("from_tier", sa.String(), nullable=False),
        sa.Column("to_tier", sa.String(), nullable=False),
        sa.Column("total_s", sa.Float(), nullable=False),
        sa.Column("phases", sa.JSON(), nullable=False),
        sa.Column("evicted", sa.JSON(), nullable=False),
        sa.Column("num_waiters", sa.Integer(), nullable=False),
        sa.Column("others_delay_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_load_record")),
    )
    op.create_index(op.f("ix_load_record_at_unix"), "load_record", ["at_unix"], unique=False)
    op.create_index(op.f("ix_load_record_content_at_unix"), "load_record", ["content", "at_unix"], unique=False)


def _create_usage_day() -> None:
    op.create_table(
        "usage_day",
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("api_key", sa.String(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("requests", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("output_tokens", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_s", sa.Float(), nullable=False),
        sa.Column("cold_starts", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("errors", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("day", "tenant", "api_key", "content", name=op.f("pk_usage_day")),
    )
