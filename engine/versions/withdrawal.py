"""A name goes, and with the last name of a line its versions retire. Any thread but the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alias import AliasName

if TYPE_CHECKING:
    from engine.alias import AliasRecord
    from engine.caller import Caller
    from engine.model_host import ModelHost
    from engine.version import VersionRecord


def withdraw(host: ModelHost, alias: AliasRecord, *, caller: Caller, why: str = "", undo_of: int | None = None) -> None:
    """New requests for it get 404 from now on, running ones finish; images stay on disk. Raises RegistryUnavailable."""
    leaving = orphans(host, alias)
    host.catalog.drop_alias(alias.alias, retiring=leaving, caller=caller, why=why, undo_of=undo_of)
    host.call(lambda: host.lifecycle.unname(alias))
    for content in {record.id for record in leaving} | {alias.adapter}:
        host.call(lambda content=content: host.lifecycle.settle(content))  # type: ignore[misc]


def orphans(host: ModelHost, alias: AliasRecord) -> list[VersionRecord]:
    """The ready versions of the alias's lines that no other name would keep: as long as a line has a name, all of it stays."""
    catalog = host.catalog
    keys = {alias.version, alias.canary_version} - {None}
    lines = {line_of(catalog.records[key]) for key in keys if key is not None}
    for other in tuple(catalog.aliases.values()):
        if other.alias != alias.alias:
            lines -= {line_of(catalog.records[key]) for key in (other.version, other.canary_version) if key is not None}
    return [record for line in lines for record in catalog.lines[line].values() if record.state == "ready"]


def line_of(record: VersionRecord) -> AliasName:
    """The adapter that it is a version of."""
    return AliasName(record.tenant, record.line)
