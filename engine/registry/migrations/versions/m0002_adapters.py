"""Bases, adapters, versions, aliases and their history."""

import sqlalchemy as sa
from alembic import op

revision = "m0002"
down_revision = "m0001"


def upgrade() -> None:
    """Create them."""
    _create_base()
    _create_adapter()
    _create_version()
    _index_version()
    _create_alias()
    _create_alias_move()


def _create_base() -> None:
    op.create_table(
        "base",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("added_unix", sa.Float(), nullable=False),
        sa.Column("added_by", sa.String(), nullable=False),
        sa.Column("gate", sa.JSON(), nullable=False),
        sa.Column("compatible", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_base")),
    )


def _create_adapter() -> None:
    op.create_table(
        "adapter",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("created_unix", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"], name=op.f("fk_adapter_tenant")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_adapter")),
        sa.UniqueConstraint("tenant", "name", name=op.f("uq_adapter_tenant_name")),
    )


def _create_version() -> None:
    op.create_table(
        "version",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("adapter", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("line", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_unix", sa.Float(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("base_digest", sa.String(), nullable=False),
        sa.Column("base_proof", sa.String(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("modules", sa.JSON(), nullable=False),
        sa.Column("num_matched", sa.Integer(), nullable=False),
        sa.Column("num_pages", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("registered_unix", sa.Float(), nullable=False),
        sa.Column("registered_by", sa.String(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("synthetic", sa.Boolean(), nullable=False),
        sa.Column("no_effect_expected", sa.Boolean(), nullable=False),
        sa.Column("fingerprint", sa.JSON(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("scores", sa.JSON(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("archive", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["adapter"], ["adapter.key"], name=op.f("fk_version_adapter")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_version")),
        sa.UniqueConstraint("adapter", "content", name=op.f("uq_version_adapter_content")),
        sa.UniqueConstraint("adapter", "number", name=op.f("uq_version_adapter_number")),
    )


def _index_version() -> None:
    op.create_index(op.f("ix_version_base_digest_state"), "version", ["base_digest", "state"], unique=False)
    op.create_index(op.f("ix_version_content"), "version", ["content"], unique=False)
    op.create_index(op.f("ix_version_line_number"), "version", ["line", "number"], unique=False)
    op.create_index(op.f("ix_version_registered_unix"), "version", ["registered_unix"], unique=False)
    op.create_index(op.f("ix_version_state_tenant_line"), "version", ["state", "tenant", "line"], unique=False)
    op.create_index(op.f("ix_version_tenant_line_number"), "version", ["tenant", "line", "number"], unique=False)


def _create_alias() -> None:
    op.create_table(
        "alias",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("canary", sa.Integer(), nullable=True),
        sa.Column("canary_share", sa.Float(), nullable=False),
        sa.Column("moved_unix", sa.Float(), nullable=False),
        sa.Column("moved_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["canary"], ["version.key"], name=op.f("fk_alias_canary")),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"], name=op.f("fk_alias_tenant")),
        sa.ForeignKeyConstraint(["version"], ["version.key"], name=op.f("fk_alias_version")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alias")),
        sa.UniqueConstraint("tenant", "name", name=op.f("uq_alias_tenant_name")),
    )
    op.create_index(op.f("ix_alias_canary"), "alias", ["canary"], unique=False)
    op.create_index(op.f("ix_alias_version"), "alias", ["version"], unique=False)


def _create_alias_move() -> None:
    op.create_table(
        "alias_move",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("before", sa.Integer(), nullable=True),
        sa.Column("after", sa.Integer(), nullable=True),
        sa.Column("share", sa.Float(), nullable=False),
        sa.Column("at_unix", sa.Float(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alias_move")),
    )
    op.create_index(op.f("ix_alias_move_tenant_name_key"), "alias_move", ["tenant", "name", "key"], unique=False)
