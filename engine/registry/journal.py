"""Takes over what an earlier Loradeck kept in a journal of JSON lines beside its images, once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.alias import AliasName
from engine.ids import DEFAULT_TENANT, AdapterId, TenantId, owned_id
from engine.registry.catalog import NewVersion
from engine.version import VersionRecord

if TYPE_CHECKING:
    from pathlib import Path

    from engine.registry.catalog import Catalog

JOURNAL = "catalog.jsonl"
DONE = ".imported"


def import_journal(folder: Path, catalog: Catalog) -> None:
    """Register what the journal in ``folder`` names, unless an alias of that name is there already; then the file is renamed."""
    path = folder / JOURNAL
    if not path.exists():
        return
    records, names = _read(path)
    new = [
        NewVersion(record=record, alias=AliasName(record.tenant, name), why="taken over from the journal")
        for name, adapter in names.items()
        if (record := records.get(adapter)) is not None and AliasName(record.tenant, name) not in catalog.aliases
    ]
    if new:
        catalog.register(*new)
    path.rename(path.with_name(JOURNAL + DONE))


def _read(path: Path) -> tuple[dict[AdapterId, VersionRecord], dict[str, AdapterId]]:
    """Versions and aliases as they stood; a torn last line is dropped, everything before it stands."""
    records: dict[AdapterId, VersionRecord] = {}
    names: dict[str, AdapterId] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            ((verb, value),) = json.loads(line).items()
        except json.JSONDecodeError:
            break
        if verb == "put_version":
            record = _record(value)
            records[AdapterId(value["id"])] = record
        elif verb == "put_alias":
            names[value["alias"]] = AdapterId(value["adapter"])
        elif verb == "drop_alias":
            names.pop(value["alias"], None)
        elif verb == "drop_version":
            records.pop(value["adapter"], None)
    return records, names


def _record(value: dict[str, Any]) -> VersionRecord:
    lists = {name: tuple(item) for name, item in value.items() if isinstance(item, list)}
    facts = {**value, **lists}
    tenant = TenantId(facts.get("tenant", DEFAULT_TENANT))
    return VersionRecord(**{**facts, "tenant": tenant, "id": owned_id(facts["id"], tenant)})
