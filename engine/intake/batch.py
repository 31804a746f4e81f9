"""Rows → versions: looked at one by one, taken in together, so that thousands cost few transactions and few turns of the engine."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from engine.alias import AliasName
from engine.errors import AdapterRefused, Conflict, LoradeckError, RegistryUnavailable
from engine.ids import AdapterId, TenantId
from engine.intake.judged import Ended, Judged, Prepared, ended, found_in, item_of
from engine.intake.row import Fault
from engine.operation import ItemRecord
from engine.process import release_team
from engine.registry import placements
from engine.registry.catalog import NewVersion
from engine.versions.admission import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from sqlmodel import Session

    from engine.adapters.peft import ParsedAdapter
    from engine.caller import Caller
    from engine.desired import Pin
    from engine.intake.row import ImportRow
    from engine.intake.upgrade import Upgrade
    from engine.model_host import ModelHost
    from engine.registration import Registrar
    from engine.version import VersionRecord


class Batch:
    """Judges and takes in. ``upload`` is the archive that rows' sources are folders of; None takes sources as they are.

    With an ``upgrade`` rows are judged for its base, and a name is taken in only while it still leads to a version of another one.
    """

    def __init__(self, host: ModelHost, registrar: Registrar, *, upload: Path | None, upgrade: Upgrade | None, caller: Caller) -> None:
        self._host = host
        self._registrar = registrar
        self._upload = upload
        self._upgrade = upgrade
        self._caller = caller

    def judge(self, row: ImportRow) -> Judged:
        """Read and check everything but the packing, and let go of the weights. Never raises for what is wrong with the row."""
        judged = self._read(row)
        if judged.parsed is not None:
            try:
                self._registrar.check_declared(_alias(row), judged.parsed)
            except LoradeckError as error:
                return self._rejected(row, error)
        return replace(judged, parsed=None)

    def prepare(self, number: int, row: ImportRow) -> Prepared | Ended:
        """Judge, and pack what is new or updated; a row that needs no more has ended already."""
        judged = self._read(row)
        if judged.parsed is None:
            return ended(number, judged)
        record = None
        try:
            packed = self._registrar.pack(judged.parsed)
            record = self._registrar.record(judged.parsed, packed, source=self._source(row))
            report = self._registrar.report(record, judged.parsed.scores, _alias(row))
        except LoradeckError as error:
            return ended(number, self._rejected(row, error, record))
        finally:
            release_team()
        return Prepared(number=number, judged=judged, record=record, packed=packed, report=asdict(report))

    def note(self, session: Session, ends: Iterable[Ended]) -> list[VersionRecord | None]:
        """Keep what the gate refused; what ``heard`` is to be told after the commit."""
        refused = [one.refused for one in ends if one.refused is not None]
        return [self._registrar.admission.note(session, one, caller=self._caller) for one in refused]

    def heard(self, rejected: Iterable[VersionRecord | None]) -> None:
        """Memory follows rejections that were committed."""
        for record in rejected:
            self._registrar.admission.heard(record)

    def take_in(self, prepared: Sequence[Prepared], *, also: Callable[[Session, list[ItemRecord]], None]) -> list[ItemRecord]:
        """Images on disk, versions and aliases stored, names answering: all of them, with ``also`` in the same transaction."""
        host = self._host
        adopted = host.call(lambda: [host.lifecycle.adopt(self._registrar.with_history(one.record)) for one in prepared])
        try:
            host.residency.disk.write_all(one.packed for one in prepared)
            new = [_new(one, record) for one, record in zip(prepared, adopted, strict=True)]
            items = [item_of(one.number, one.judged) for one in prepared]
            movable = {one.alias for one, ready in zip(new, prepared, strict=True) if ready.judged.row.replace}
            pins = self._pins(prepared)

            def work(session: Session) -> None:
                also(session, items)
                for adapter, pin in pins.items():
                    placements.set_pin(session, adapter, pin)

            self._registrar.serve(new, replace=movable, caller=self._caller, also=work, proven=self._still_waits)
            self._registrar.placements.follow(pins, caller=self._caller)
        finally:
            host.call(lambda: self._let_go(adopted))
        return items

    def _pins(self, prepared: Sequence[Prepared]) -> dict[AdapterId, Pin]:
        """Those that go from one version to the next; one that has a pin of its own keeps it."""
        known = {} if self._upgrade is None else self._upgrade.pins
        return {one.record.id: one.judged.pin for one in prepared if one.judged.pin is not None and one.record.id not in known}

    def _let_go(self, adopted: Sequence[VersionRecord]) -> None:
        for record in adopted:
            self._host.lifecycle.let_go(record.id)

    def _read(self, row: ImportRow) -> Judged:
        """What it is and whether its name is free."""
        if row.fault is not None:
            return Judged(row=row, outcome="rejected", fault=row.fault)
        alias = _alias(row)
        current = self._host.catalog.aliases.get(alias)
        try:
            if self._upgrade is not None and not self._upgrade.waits(alias):
                return Judged(row=row, outcome="unchanged", adapter=None if current is None else current.adapter)
            parsed = self._parse(row, alias)
            current = self._host.catalog.aliases.get(alias)
            if current is not None and current.adapter == parsed.id:
                return Judged(row=row, outcome="unchanged", adapter=parsed.id)
            self._registrar.check_free(alias, parsed.id, replace=bool(row.replace))
        except RegistryUnavailable:  # the disk's fault and not the row's
            raise
        except LoradeckError as error:
            return self._rejected(row, error)
        finally:
            release_team()
        pin = None if self._upgrade is None else self._upgrade.pin(alias)
        return Judged(
            row=row, outcome="new" if current is None else "updated", adapter=parsed.id, parsed=parsed, found=found_in(parsed), pin=pin
        )

    def _parse(self, row: ImportRow, alias: AliasName) -> ParsedAdapter:
        upgrade = self._upgrade
        with self._opened(row) as folder:
            spec = None if upgrade is None else upgrade.spec
            parsed = self._registrar.parse(folder, owner=alias.tenant, compatible_base=bool(row.compatible_base), spec=spec)
        return parsed if upgrade is None else upgrade.compared(parsed, alias)

    def _still_waits(self, one: NewVersion) -> NewVersion:
        """While its name is held: what somebody moved since the row was read stays where it is. Raises Conflict."""
        if self._upgrade is not None and not self._upgrade.waits(one.alias):
            message = f"The alias {one.alias.name!r} leads to a version of this base by now."
            raise Conflict(message, code="alias_moved", param="alias", found=one.alias.name)
        return one

    def _rejected(self, row: ImportRow, error: LoradeckError, record: VersionRecord | None = None) -> Judged:
        refused = None
        if isinstance(error, AdapterRefused):
            line = AliasName(TenantId(row.tenant), row.adapter or row.alias)
            refused = Refused(alias=line, record=record, source=self._source(row), refusal=error)
        return Judged(row=row, outcome="rejected", fault=Fault.of(error), refused=refused)

    def _source(self, row: ImportRow) -> str:
        return row.source if self._upload is None else f"upload:{row.source}"

    @contextmanager
    def _opened(self, row: ImportRow) -> Iterator[Path]:
        sources = self._registrar.sources
        if self._upload is None:
            with sources.opened(row.source, sha256=row.sha256) as folder:
                yield folder
        else:
            with sources.staging.room() as room:
                sources.unpack(self._upload, row.source, into=room)
                yield room


def _alias(row: ImportRow) -> AliasName:
    return AliasName(TenantId(row.tenant), row.alias)


def _new(one: Prepared, record: VersionRecord) -> NewVersion:
    row, parsed = one.judged.row, one.judged.parsed
    return NewVersion(
        record=record,
        alias=_alias(row),
        line=row.adapter,
        report=one.report,
        scores=None if parsed is None else parsed.scores,
        why=row.description,
    )
