"""A registry whose tenants had the same weights under one id: each has its own afterwards, with what was kept of it."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import text

from engine.desired import Pin
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, AdapterId, TenantId, owned_id
from engine.registry import placements
from engine.registry.catalog import Catalog
from engine.registry.store import Store
from tests.engine.registry.test_catalog import ACME, BASE, GLOBEX, register

Open = Callable[[], Store]
BYSTANDER = TenantId("bystander")
ALL_PIN, ACME_PIN, LAST_PIN = (
    Pin(tier=tier, until_unix=None, reason=why, by="ana")  # type: ignore[arg-type]
    for tier, why in (("host", "all"), ("device", "acme"), ("host", "last"))
)
PINS = [("both", "", ALL_PIN), ("both", ACME, ACME_PIN), ("both", BYSTANDER, LAST_PIN), ("gone", "", LAST_PIN)]
USED = [(tenant, content) for tenant in (DEFAULT_TENANT, ACME, BYSTANDER) for content in ("both", "lent", "one", "")]
PIN = "INSERT INTO pin VALUES (:content, :tenant, :tier, NULL, :reason, 'ana', 1)"
USE = "INSERT INTO usage_day VALUES ('2026-11-29', :tenant, '', :content, 1, 0, 0, 0, 0, 0, 0)"
AS_IT_WAS: list[tuple[str, list[dict[str, object]]]] = [
    ("DROP TABLE pin", []),
    ('CREATE TABLE pin (content VARCHAR, tenant VARCHAR, tier VARCHAR, until_unix FLOAT, reason VARCHAR, "by" VARCHAR, at_unix FLOAT)', []),
    (PIN, [{"content": content, "tenant": tenant, "tier": pin.tier, "reason": pin.reason} for content, tenant, pin in PINS]),
    ("INSERT INTO placement (content, warm_tier, warm_priority, warm_by) VALUES ('both', 'host', 3, '')", []),
    (USE, [{"tenant": tenant, "content": content} for tenant, content in USED]),
    ("UPDATE alembic_version SET version_num = 'm0007'", []),
]


def test_each_owner_has_an_id_of_its_own(open_store: Open) -> None:
    """Versions, aliases, pins, the warm set and the figures of use follow; what the tenant ``default`` has keeps its id."""
    first = open_store()
    before = Catalog(first, base_digest=BASE)
    held = {"both": (DEFAULT_TENANT, ACME, GLOBEX), "lent": (DEFAULT_TENANT, SHARED_TENANT), "one": (GLOBEX,)}
    for content, tenants in held.items():
        for tenant in tenants:
            register(before, content, name=content, tenant=tenant)
    for statement, rows in AS_IT_WAS:
        first.write(lambda session, statement=statement, rows=rows: session.connection().execute(text(statement), rows or None))
    first.close()
    store = open_store()
    catalog = Catalog(store, base_digest=BASE)
    own = {(content, tenant): owned_id(content, tenant) for content, tenants in held.items() for tenant in tenants}
    assert {(record.digest, record.tenant): record.id for record in catalog.versions.values()} == own
    assert {(name.name, name.tenant): alias.adapter for name, alias in catalog.aliases.items()} == own
    assert [own[content, DEFAULT_TENANT] for content in ("both", "lent")] == ["both", "lent"]
    both = {own["both", tenant]: (ALL_PIN, "host", 3) for tenant in held["both"]} | {own["both", ACME]: (ACME_PIN, "host", 3)}
    found = store.read(placements.every)
    assert {one.content: (one.pin, one.warm_tier, one.warm_priority) for one in found} == both | {AdapterId("gone"): (LAST_PIN, None, 0)}
    used = store.read(lambda session: session.execute(text("SELECT tenant, content FROM usage_day")).all())
    assert {tuple(row) for row in used} == {
        (DEFAULT_TENANT, "both"), (DEFAULT_TENANT, "lent"), (DEFAULT_TENANT, own["one", GLOBEX]), (DEFAULT_TENANT, ""),
        (ACME, own["both", ACME]), (ACME, own["lent", SHARED_TENANT]), (ACME, own["one", GLOBEX]), (ACME, ""),
        (BYSTANDER, "both"), (BYSTANDER, own["lent", SHARED_TENANT]), (BYSTANDER, own["one", GLOBEX]), (BYSTANDER, ""),
    }  # fmt: skip
