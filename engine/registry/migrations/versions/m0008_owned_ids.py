"""Version ids are of one tenant each, and a version has one pin."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from alembic import op

revision = "m0008"
down_revision = "m0007"

KEPT = "default"
"""The tenant whose versions keep their ids."""
SHARED = "shared"
USED = ("request_record", "usage_day")
"""Tables whose rows name a version and the tenant that used it, which need not be its owner."""


def upgrade() -> None:
    """What a content was called is, for each tenant that has it, the id of its own."""
    owners: defaultdict[str, list[str]] = defaultdict(list)
    pairs = op.get_bind().execute(sa.text("SELECT DISTINCT content, tenant FROM version WHERE content IS NOT NULL ORDER BY tenant"))
    for content, tenant in pairs:
        owners[content].append(tenant)
    _rename_used(owners)
    _each("UPDATE version SET content = :now WHERE content = :content AND tenant = :tenant", _renamed(owners))
    _share_out_places(owners)
    _share_out_pins(owners)


def _rename_used(owners: dict[str, list[str]]) -> None:
    """By the user where it has the version itself, else by the tenant that lets all use its own, or by the only owner."""
    lent = []
    for content, tenants in owners.items():
        lender = SHARED if SHARED in tenants else tenants[0]
        if lender == SHARED or (len(tenants) == 1 and lender != KEPT):
            lent.append({"content": content, "but": KEPT if KEPT in tenants else "", "now": _owned(content, lender)})
    for table in USED:
        _each(f"UPDATE {table} SET content = :now WHERE content = :content AND tenant = :tenant", _renamed(owners))  # noqa: S608 - no name from outside
        _each(f"UPDATE {table} SET content = :now WHERE content = :content AND tenant <> :but", lent)  # noqa: S608 - likewise


def _share_out_places(owners: dict[str, list[str]]) -> None:
    found = op.get_bind().execute(sa.text("SELECT content, warm_tier, warm_priority, warm_by, warm_unix FROM placement")).mappings().all()
    op.execute("DELETE FROM placement")
    rows = [{**row, "content": _owned(row["content"], tenant)} for row in found for tenant in owners.get(row["content"], [KEPT])]
    _each(
        "INSERT INTO placement (content, warm_tier, warm_priority, warm_by, warm_unix) "
        "VALUES (:content, :warm_tier, :warm_priority, :warm_by, :warm_unix)",
        rows,
    )


def _share_out_pins(owners: dict[str, list[str]]) -> None:
    """A tenant's pin is of its own version; that of an operator of all tenants of everybody's. Of two the nearer, longer one stays."""
    found = op.get_bind().execute(sa.text('SELECT content, tenant, tier, until_unix, reason, "by", at_unix FROM pin')).mappings().all()
    pins: dict[str, dict[str, object]] = {}
    for row in sorted(found, key=lambda row: (row["tier"] == "device", row["until_unix"] is None, row["until_unix"] or 0.0)):
        for tenant in owners.get(row["content"], [KEPT]):
            if row["tenant"] in {"", tenant}:
                pins[_owned(row["content"], tenant)] = dict(row)
    op.drop_table("pin")
    op.create_table(
        "pin",
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("until_unix", sa.Float(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at_unix", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("content", name=op.f("pk_pin")),
    )
    rows = [{**row, "content": content} for content, row in pins.items()]
    _each(
        'INSERT INTO pin (content, tier, until_unix, reason, "by", at_unix) VALUES (:content, :tier, :until_unix, :reason, :by, :at_unix)',
        rows,
    )


def _renamed(owners: dict[str, list[str]]) -> list[dict[str, object]]:
    return [
        {"content": content, "tenant": tenant, "now": _owned(content, tenant)}
        for content, tenants in owners.items()
        for tenant in tenants
        if tenant != KEPT
    ]


def _owned(content: str, tenant: str) -> str:
    """As ``engine.adapters.identity`` names it."""
    return content if tenant == KEPT else hashlib.sha256(f"{content}\n{tenant}".encode()).hexdigest()[:32]


def _each(statement: str, rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        op.get_bind().execute(sa.text(statement), rows)
