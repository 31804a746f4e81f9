"""A base upgrade: names whose version is of another base come from their sources again, through the gate of the new one."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import Conflict, InvalidRequest
from engine.intake.allow_list import AllowList
from engine.intake.row import Fault, ImportRow
from engine.models.config import read_spec
from engine.registry import placements
from engine.weights.digest import base_digest

if TYPE_CHECKING:
    from engine.adapters.peft import ParsedAdapter
    from engine.alias import AliasName, AliasRecord
    from engine.caller import Caller
    from engine.desired import Pin
    from engine.intake.importing import Import
    from engine.model_host import ModelHost
    from engine.models.spec import ModelSpec
    from engine.operation import OperationRecord
    from engine.settings import Settings
    from engine.version import VersionRecord

UPGRADE = "import.base"
"""Kind of such an operation."""
SENT = "upload:"
"""What the source of an adapter begins with that came in an archive."""


class Upgrade:
    """To the base of ``spec``: the one that serves, or for a dry run one that is to serve. Made in a thread: it reads the registry."""

    def __init__(self, host: ModelHost, spec: ModelSpec) -> None:
        self._catalog = host.catalog
        self.spec = spec
        self.pins = {one.content: one.pin for one in host.catalog.store.read(placements.every) if one.pin is not None}
        """Of versions of any base, as they are stored."""

    def rows(self, request: Import, caller: Caller) -> list[ImportRow]:
        """A row for every name that leads to a version of another base, by tenant and name; all of the caller's, or one tenant's."""
        wanted = caller.tenant or request.tenant or None
        found = [alias for alias in tuple(self._catalog.aliases.values()) if wanted in {None, alias.tenant} and not self._is_there(alias)]
        found.sort(key=lambda alias: alias.alias)
        return [self._row(line, alias, request) for line, alias in enumerate(found, start=1)]

    def waits(self, alias: AliasName) -> bool:
        """Whether a name still has to come: not where it leads to a version of this base by now. Raises Conflict where it is gone."""
        current = self._catalog.aliases.get(alias)
        if current is None:
            message = f"The alias {alias.name!r} was withdrawn meanwhile; it does not come back by itself."
            raise Conflict(message, code="alias_gone", param="alias", found=alias.name)
        return not self._is_there(current)

    def compared(self, parsed: ParsedAdapter, alias: AliasName) -> ParsedAdapter:
        """With a warning where the source holds other weights than the version that the name leads to."""
        current = self._catalog.aliases.get(alias)
        before = None if current is None else self._record(current)
        if before is None or before.digest == parsed.digest:
            return parsed
        return replace(parsed, warnings=(*parsed.warnings, f"The source holds other weights than version {before.number} had."))

    def pin(self, alias: AliasName) -> Pin | None:
        """What the version has that the name leads to, unless it has run out: the one that takes its place takes it along."""
        current = self._catalog.aliases.get(alias)
        pin = None if current is None else self.pins.get(current.adapter)
        return None if pin is None or (pin.until_unix is not None and pin.until_unix <= time.time()) else pin

    def _is_there(self, alias: AliasRecord) -> bool:
        return self._record(alias).base_digest == self.spec.digest

    def _record(self, alias: AliasRecord) -> VersionRecord:
        return self._catalog.records[alias.version]

    def _row(self, line: int, alias: AliasRecord, request: Import) -> ImportRow:
        before = self._record(alias)
        fault = None
        if before.source.startswith(SENT):
            fault = Fault(code="source_not_kept", message="It came as an upload, which was not kept: send it again.", param="source")
        return ImportRow(
            line=line,
            source=before.source,
            alias=alias.name,
            tenant=alias.tenant,
            adapter=before.line,
            description="base upgrade",
            compatible_base=request.compatible_base,
            replace=True,
            fault=fault,
        )


def check_base(record: OperationRecord, host: ModelHost) -> None:
    """What was looked at, and declared compatible, on one base is not taken in on another. Raises Conflict."""
    begun_on, served = record.options.get("base_digest"), host.parts.spec.digest
    if begun_on not in {None, served}:
        message = (
            f"It was begun while the base {begun_on[:16]} served, and now {served[:16]} does. Nothing more was taken in: begin it anew, "
            "or resume it on its base."
        )
        raise Conflict(message, code="base_mismatch", param="base", expected=begun_on, found=served)


def read_base(folder: str, settings: Settings) -> ModelSpec:
    """The spec, with its digest, of a base that could be served. Blocks on disk. Raises SourceNotAllowed, InvalidRequest or BaseRefused."""
    place = AllowList(settings.allowed_sources).admit(folder)
    if not isinstance(place, Path):
        message = "A base is a folder on this machine."
        raise InvalidRequest(message, param="source", expected="a folder", found=folder[:80])
    spec = read_spec(place)
    return replace(spec, digest=base_digest(place, spec, data=settings.data))
