"""The audit log, schedules, thresholds and bases for the scripted engine: the real ones, over its own registry, with a made-up past."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from engine.alias import AliasName
from engine.allowance import Allowance
from engine.caller import Caller
from engine.ids import TenantId
from engine.registry import bases
from engine.registry.tables import UsageTable
from engine.tenants.ways_back import teach_ways_back
from engine.versions.bases import Bases
from engine.versions.schedules import Schedules, Wish
from engine.versions.thresholds import GateThresholds
from engine.versions.undo import Audit
from engine.versions.ways_back import WaysBack
from tests.console.scripted_world import TENANTS

if TYPE_CHECKING:
    from engine.model_host import ModelHost
    from engine.tenants.tenants import Tenants

ADMIN = Caller(name="j.okafor", kind="user", role="admin", tenant=None)
USED = (("novacart", 512_000), ("parcelwise", 310_000), ("meridian", 4_620_000), ("clinica", 88_000))


class ScriptedServices:
    """Attributes are named as on the engine."""

    def __init__(self, tenants: Tenants, base: str) -> None:
        self._tenants, self._base, store = tenants, base, tenants.directory.store
        spec = SimpleNamespace(digest="b" * 64, module_dims={}, num_layers=32, name=base)
        catalog = self._catalog = SimpleNamespace(store=store, aliases={}, records={}, versions={})
        parts = SimpleNamespace(spec=spec, settings=None)
        host = cast("ModelHost", SimpleNamespace(catalog=catalog, parts=parts))
        self.audit = Audit(store)
        self.schedules = Schedules(host, warm=lambda _tenant, _alias, _tier: None)
        self.thresholds, self.bases = GateThresholds(host), Bases(host)
        versions: Any = SimpleNamespace(host=host, audit=self.audit, thresholds=self.thresholds, bases=self.bases)
        WaysBack(versions, self.schedules)
        teach_ways_back(tenants, self.audit)

    def make_up_a_past(self) -> None:
        """What a few days of use leave behind."""
        tenants, acme = self._tenants, TenantId("novacart")
        tenants.directory.store.write(lambda session: _past(session, self._base))
        for key, name in enumerate(("returns", "size-advice", "gift-notes"), start=1):
            alias = SimpleNamespace(name=name, tenant=acme, version=key, alias=AliasName(acme, name), adapter=f"{key:032}")
            self._catalog.aliases[alias.alias] = alias
            self._catalog.records[key] = SimpleNamespace(base_digest="a" * 64, modules=())
        for name in TENANTS:
            tenants.create(name, name=name.replace("-", " ").title(), caller=ADMIN)
        most = Allowance(requests_per_minute=1_200, tokens_per_minute=400_000, monthly_tokens=5_000_000, max_waiting=20)
        tenants.set_limits(acme, most, caller=ADMIN)
        less = Allowance(weight=0.5, requests_per_minute=600, monthly_tokens=5_000_000, max_running=8, max_waiting=16)
        tenants.set_limits("meridian", less, why="batch jobs at night", caller=ADMIN)
        keys = tenants.keys
        keys.create("checkout", tenant=acme, models=("product-copy", "returns"), expires_unix=time.time() + 80 * 86400, caller=ADMIN)
        old = keys.create("search", tenant=acme, expires_unix=time.time() + 5 * 86400, caller=ADMIN)
        keys.rotate(old.record.id, overlap_s=86400, caller=ADMIN)
        keys.revoke(keys.create("trial", tenant=acme, caller=ADMIN).record.id, why="left in a notebook", caller=ADMIN)
        workdays = ("mon", "tue", "wed", "thu", "fri")
        self.schedules.add(Wish(alias="product-copy", at="08:30", days=workdays, zone="Europe/Berlin"), tenant=acme, caller=ADMIN)
        self.schedules.add(Wish(alias="kyc-summary", trigger="first_request", tier="host"), tenant=TenantId("meridian"), caller=ADMIN)
        tenants.users.add("m.lindqvist", "correct horse battery", role="viewer", tenant=acme, caller=ADMIN)


def _past(session: Any, base: str) -> None:
    for digest, name in (("a" * 64, f"{base}-old"), ("b" * 64, base)):
        bases.seen(session, SimpleNamespace(digest=digest, name=name, family="llama"), source=f"/models/{name}", by="loradeck")
    today = datetime.fromtimestamp(time.time(), UTC).date()
    for number, (tenant, tokens) in enumerate(USED):
        for ago in range(12):
            day = (today - timedelta(days=ago)).isoformat()
            part = tokens // (12 + (ago * 7 + number) % 9)
            session.add(
                UsageTable(
                    day=day, tenant=tenant, api_key="", content="", requests=part // 700,
                    prompt_tokens=part * 3 // 4, output_tokens=part // 4,
                    cold_starts=ago % 4 * 3, errors=int(ago == 3),
                )
            )  # fmt: skip
