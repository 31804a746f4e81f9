"""What an operator did before the pictures: people, keys, limits, versions, pins, an import with rows at fault. All of it over the API."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from dataclasses import dataclass
from typing import Any

from engine.demo.__main__ import base_spec
from engine.demo.synthetic import write_samples
from tests.pictures.site import PASSWORD, Site

HOUR_S = 3600
TENANTS = ("acme", "globex", "initech")
LIMITS: dict[str, dict[str, Any]] = {
    "acme": {"requests_per_minute": 60, "tokens_per_minute": 12_000, "max_running": 5, "monthly_tokens": 2_000_000},
    "globex": {"requests_per_minute": 30, "max_running": 2, "max_waiting": 20, "weight": 2.0},
    "initech": {"tokens_per_minute": 4_000, "monthly_tokens": 500_000},
}
OF_EACH, LONG_IMPORT = 10, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What later pictures need: a key of each tenant, the import with rows at fault, the line of the audit log that was taken back."""

    keys: dict[str, str]
    imported: str
    undone: int


def make_history(site: Site) -> History:
    """An afternoon's work."""
    imported = _import_some(site)
    for name, role, tenant in (("ben", "operator", None), ("carla", "viewer", "acme"), ("dev", "admin", "globex")):
        site.call("POST", "/users", name=name, password=PASSWORD, role=role, tenant=tenant)
    keys = {tenant: site.call("POST", "/keys", tenant=tenant, name="web app")["key"] for tenant in (*TENANTS, "default")}
    site.call("POST", "/keys", tenant="acme", name="nightly report", expires_unix=time.time() + 720 * HOUR_S, models=["acme-tone"])
    old = site.call("POST", "/keys", tenant="acme", name="laptop of carla", role="viewer")
    site.call("POST", f"/keys/{old['id']}/revoke", why="left the company")
    for tenant, limits in LIMITS.items():
        site.call("PUT", f"/tenants/{tenant}/limits", **limits)
    _versions(site)
    site.call("POST", "/schedules", alias="acme-support", tenant="acme", at="08:00", days=["mon", "tue", "wed", "thu", "fri"])
    site.call("POST", "/schedules", alias="initech-sql", tenant="initech", trigger="first_request", tier="host")
    return History(keys=keys, imported=imported, undone=_mistake_and_undo(site))


def _mistake_and_undo(site: Site) -> int:
    """A limit that was set too low, and taken back; its line."""
    site.call("PUT", "/tenants/acme/limits", **(LIMITS["acme"] | {"requests_per_minute": 6}), why="while the new release settles")
    (line,) = site.call("GET", "/audit?action=limits.set&limit=1")["lines"]
    site.call("POST", f"/audit/{line['key']}/undo", why="meant 60, not 6")
    return int(line["key"])


def _versions(site: Site) -> None:
    """Second versions: one was rolled back, one is tried by a quarter of the requests, one is refused by the gate since it has no score."""
    site.call("PUT", "/gate", max_drop=0.05, why="the small base varies more")
    for alias, voice in (("globex-tone", "acme-tone"), ("acme-tone", "globex-tone")):
        tenant, folder = alias.partition("-")[0], str(site.data / "voices" / voice)
        site.call("POST", "/adapters", source=folder, alias=alias, tenant=tenant, replace=True)
        site.call("POST", f"/aliases/{alias}/rollback", tenant=tenant, why="answers got longer")
    site.call("POST", "/aliases/acme-tone/canary", tenant="acme", version=2, share=0.25, why="try it on a quarter")
    (sample,) = write_samples(site.data / "incoming", base_spec(None), count=1)
    site.call("POST", "/adapters", source=str(sample.folder), alias="acme-support", tenant="acme", replace=True, may_fail=True)
    site.call("POST", "/adapters/acme-support/pin", until=time.time() + 8 * HOUR_S, reason="hot all day")
    site.call("POST", "/adapters/initech-terse/warm", tier="host")


def _import_some(site: Site) -> str:
    """A manifest of adapters for three tenants, four of its rows at fault; the operation, ended."""
    rows = [row for seed, tenant in enumerate(TENANTS * 2) for row in _rows(site, tenant, count=OF_EACH, seed=seed)]
    operation = begin_import(site, [*rows[:5], *rows_at_fault(site), *rows[5:]])
    while site.call("GET", f"/operations/{operation}")["state"] in {"reading", "queued", "running"}:
        time.sleep(0.5)
    return operation


def rows_at_fault(site: Site) -> list[tuple[str, str, str]]:
    """A config that does not fit its weights, a folder that is missing, a name that is taken, and one that is no name."""
    incoming = site.data / "incoming"
    healthy, broken = incoming / "set-0" / "sample" / "r8-qv-01", incoming / "broken"
    shutil.copytree(healthy, broken, dirs_exist_ok=True)
    config = json.loads((broken / "adapter_config.json").read_text())
    (broken / "adapter_config.json").write_text(json.dumps(config | {"r": 64}))
    return [
        (str(broken), "acme/translate", "acme"),
        (str(incoming / "forgotten"), "globex/triage", "globex"),
        (str(healthy), "initech-sql", "initech"),
        (str(healthy), "acme/no such/../name", "acme"),
    ]


def rows_of_a_long_import(site: Site) -> list[tuple[str, str, str]]:
    """Enough rows that the import is still under way when its picture is taken."""
    return _rows(site, "globex", count=LONG_IMPORT, seed=len(TENANTS) * 2)


def begin_import(site: Site, rows: list[tuple[str, str, str]]) -> str:
    """The operation."""
    return str(site.call("POST", "/imports", manifest=manifest(rows), format="csv", compatible_base=True)["id"])


def manifest(rows: list[tuple[str, str, str]]) -> str:
    """As CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((("source", "alias", "tenant"), *rows))
    return out.getvalue()


def _rows(site: Site, tenant: str, *, count: int, seed: int) -> list[tuple[str, str, str]]:
    """(folder, alias, tenant) of samples written for one tenant."""
    samples = write_samples(site.data / "incoming" / f"set-{seed}", base_spec(None), count=count, seed=seed)
    return [(str(one.folder), f"{tenant}/{one.folder.name}-{chr(97 + seed)}", tenant) for one in samples]
