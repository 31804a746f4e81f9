"""What an import brings: rows from a manifest, from a scan of a prefix, or from an uploaded archive; of a base, ``upgrade`` knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.errors import InvalidRequest, LoradeckError
from engine.intake.manifest import form_of, read_manifest, without_twins
from engine.intake.row import Fault, ImportRow
from engine.intake.zip_file import opened_archive
from engine.names import check_alias

if TYPE_CHECKING:
    from engine.caller import Caller
    from engine.intake.manifest import Format
    from engine.intake.sources import Sources

Kind = Literal["manifest", "scan", "upload", "base"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One request to register many. What a row does not say itself is said here."""

    kind: Kind
    source: str = ""
    """Of a manifest's file, the prefix to scan, or the folder of a base; "" is the base that serves."""
    manifest: str = ""
    """A manifest's text, in place of ``source``."""
    form: Format | None = None
    """None takes the ending of ``source``."""
    upload: str = ""
    """Name of the uploaded file in the staging folder."""
    alias: str = ""
    """Of a single adapter; of several, what their names begin with, before a slash."""
    tenant: str = ""
    replace: bool = False
    compatible_base: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """What an operation remembers of it."""
        return {
            "source": self.source,
            "upload": self.upload,
            "alias": self.alias,
            "replace": self.replace,
            "compatible_base": self.compatible_base,
        }


def read_rows(request: Import, sources: Sources, caller: Caller) -> list[ImportRow]:
    """Every row, settled: with tenant and flags filled in, and with its fault where it has one. Raises LoradeckError for the whole."""
    rows = _rows(request, sources)
    if not rows:
        raise InvalidRequest("There is no adapter to register.", code="nothing_found", param="source", found=request.source[:80])
    return without_twins([_settled(row, request, caller) for row in rows])


def _rows(request: Import, sources: Sources) -> list[ImportRow]:
    if request.kind == "manifest":
        data = request.manifest.encode() if request.manifest else sources.read_text(request.source)
        return read_manifest(data, request.form or form_of(request.source))
    if request.kind == "scan":
        own = Path(request.source.rstrip("/")).name
        found = [(adapter.name, adapter.source) for adapter in sources.scan(request.source)]
    else:
        own = ""
        with opened_archive(sources.staging.folder / request.upload) as archive:
            found = [(folder, folder) for folder in archive.adapters]
    single = len(found) == 1
    return [
        ImportRow(line=number, source=source, alias=_alias(request.alias, name, own=own, single=single))
        for number, (name, source) in enumerate(found, start=1)
    ]


def _alias(given: str, name: str, *, own: str, single: bool) -> str:
    """The given one for a single adapter; else its path, below the given one."""
    if single and given:
        return given
    return "/".join(part for part in (given, name or own) if part)


def _settled(row: ImportRow, request: Import, caller: Caller) -> ImportRow:
    tenant = row.tenant or request.tenant or caller.home
    row = replace(
        row,
        tenant=tenant,
        replace=request.replace if row.replace is None else row.replace,
        compatible_base=request.compatible_base if row.compatible_base is None else row.compatible_base,
    )
    if row.fault is not None:
        return row
    if not caller.sees(tenant):  # type: ignore[arg-type] # a name that somebody wrote
        return replace(row, fault=Fault(code="forbidden", message="You may not register for this tenant.", param="tenant"))
    try:
        check_alias(row.alias)
    except LoradeckError as error:
        return replace(row, fault=Fault.of(error))
    return row
