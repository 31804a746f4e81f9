"""Tenants, users, keys and their limits."""

import time

import sqlalchemy as sa
from alembic import op

revision = "m0001"
down_revision = None


def upgrade() -> None:
    """Create them, with the tenant of local mode and the one that all share."""
    _create_tenant()
    _create_user()
    _create_api_key()
    _create_allowance()
    _add_tenants()


def _create_tenant() -> None:
    op.create_table(
        "tenant",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_unix", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("disabled_unix", sa.Float(), nullable=True),
        sa.Column("gate", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenant")),
    )


def _create_user() -> None:
    op.create_table(
        "user",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=True),
        sa.Column("password_hash", sa.String(), nullable=False),
        sa.Column("created_unix", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("disabled_unix", sa.Float(), nullable=True),
        sa.Column("signed_in_unix", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"], name=op.f("fk_user_tenant")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_user")),
        sa.UniqueConstraint("name", name=op.f("uq_user_name")),
    )


def _create_api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=True),
        sa.Column("models", sa.JSON(), nullable=True),
        sa.Column("created_unix", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("expires_unix", sa.Float(), nullable=True),
        sa.Column("revoked_unix", sa.Float(), nullable=True),
        sa.Column("replaces", sa.String(), nullable=True),
        sa.Column("used_unix", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"], name=op.f("fk_api_key_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_api_key_secret_hash")),
    )
    op.create_index(op.f("ix_api_key_tenant_created_unix"), "api_key", ["tenant", "created_unix"], unique=False)


def _create_allowance() -> None:
    op.create_table(
        "allowance",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("tokens_per_minute", sa.Integer(), nullable=True),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("max_waiting", sa.Integer(), nullable=True),
        sa.Column("max_kv_pages", sa.Integer(), nullable=True),
        sa.Column("max_adapter_pages", sa.Integer(), nullable=True),
        sa.Column("max_tokens", sa.Integer(), nullable=True),
        sa.Column("monthly_tokens", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("kind", "subject", name=op.f("pk_allowance")),
    )


def _add_tenants() -> None:
    columns: list[sa.ColumnClause[object]] = [sa.column(name) for name in ("id", "name", "created_unix", "created_by")]
    table = sa.table("tenant", *columns, sa.column("gate", sa.JSON()), sa.column("options", sa.JSON()))
    made = {"created_unix": time.time(), "created_by": "loradeck", "gate": {}, "options": {}}
    op.bulk_insert(table, [{"id": name, "name": name, **made} for name in ("default", "shared")])
