"""Register and withdraw adapters: parse, prove, point the alias. Runs in the caller's thread and blocks."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.adapters.pack import pack
from engine.adapters.peft import parse_adapter
from engine.alias import AliasName
from engine.errors import AdapterRefused, Conflict, LoradeckError, ModelNotFound
from engine.events import AdapterRegistered, AdapterRejected, AdapterUnregistered
from engine.ids import AdapterId, TenantId
from engine.intake.sources import Sources
from engine.names import check_alias
from engine.observer import static_row
from engine.process import release_team
from engine.registry.catalog import NewVersion
from engine.version import VersionRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from sqlmodel import Session

    from engine.adapters.pack import PackedAdapter
    from engine.adapters.peft import ParsedAdapter
    from engine.caller import Caller
    from engine.model_host import ModelHost
    from engine.registry.catalog import Registered
    from engine.settings import Settings
    from engine.snapshot import AdapterRow

PROVE_TIMEOUT_S = 60.0
"""How long a registration waits for the probe; past it the version stays unproven until its first load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """What registration found out."""

    matched: int
    """Modules of the base that the adapter changes."""
    modules: tuple[str, ...]
    rank: int
    bytes: int
    pages: int
    warnings: tuple[str, ...]
    base_proof: Literal["recorded", "declared"]
    probe: Literal["unproven", "ok"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The answer to a registration. ``created`` is False when the alias already named this very version."""

    row: AdapterRow
    report: ValidationReport
    created: bool
    dry_run: bool


class Registrar:
    """One registration at a time touches aliases; parsing and packing run in as many threads as callers bring."""

    def __init__(self, host: ModelHost, settings: Settings) -> None:
        self._host = host
        self._settings = settings
        self.sources = Sources(settings)
        self._alias_lock = threading.Lock()

    def register(
        self,
        source: str,
        *,
        alias: str,
        tenant: TenantId,
        dry_run: bool = False,
        replace: bool = False,
        compatible_base: bool = False,
        prove: Literal["now", "first_load"] = "now",
        caller: Caller,
    ) -> Registration:
        """Validate a PEFT folder and serve it as ``alias``; every refusal is typed and changes nothing."""
        try:
            check_alias(alias, reserved=(self._host.base_name,))
            parsed, packed = self._validate(source, compatible_base=compatible_base)
            record = self.record(parsed, packed, source=source, tenant=tenant)
            if dry_run:
                return Registration(row=static_row(record, alias), report=report_of(record), created=False, dry_run=True)
            name = AliasName(tenant, alias)
            self.check_free(name, record.id, replace=replace)
            record = self._host.call(lambda: self._host.lifecycle.adopt(self.with_history(record)))
            try:
                self._host.residency.disk.write(packed)
                return self._serve(record, name, replace=replace, prove=prove, caller=caller)
            finally:
                self._host.call(lambda: self._host.lifecycle.let_go(record.id))
        except LoradeckError as refusal:
            if not dry_run:
                self._note_refusal(refusal, source=source, name=AliasName(tenant, alias), by=caller.name)
            raise

    def _note_refusal(self, refusal: LoradeckError, *, source: str, name: AliasName, by: str) -> None:
        event = AdapterRejected(
            at_unix=time.time(),
            by=by,
            source=source[:200],
            alias=name.name[:80],
            code=refusal.code,
            message=refusal.message,
            tenant=name.tenant,
        )
        self._host.publisher.record_event(event)

    def unregister(self, alias: AliasName, *, caller: Caller) -> None:
        """Withdraw an alias now; requests in flight finish, and the last one frees weights and image."""
        with self._alias_lock:
            named = self._host.catalog.aliases.get(alias)
            if named is None:
                message = f"The model {alias.name[:80]!r} does not exist."
                raise ModelNotFound(message, param="model", found=alias.name[:80])
            self._host.catalog.drop_alias(alias, caller=caller)
            self._host.call(lambda: self._host.lifecycle.withdraw(named.adapter, alias))
        self._host.publisher.record_event(
            AdapterUnregistered(at_unix=time.time(), by=caller.name, adapter=named.adapter, alias=alias.name, tenant=alias.tenant)
        )

    def _validate(self, source: str, *, compatible_base: bool) -> tuple[ParsedAdapter, PackedAdapter]:
        try:
            with self.sources.opened(source) as folder:
                parsed = self.parse(folder, compatible_base=compatible_base)
                return parsed, self.pack(parsed)
        finally:
            release_team()

    def parse(self, folder: Path, *, compatible_base: bool) -> ParsedAdapter:
        """Read and check a folder. Raises AdapterRefused."""
        spec = self._host.parts.spec
        return parse_adapter(folder, spec, max_rank=self._settings.max_rank, base_digest=spec.digest, compatible_base=compatible_base)

    def pack(self, parsed: ParsedAdapter) -> PackedAdapter:
        """Its page images. Raises AdapterRefused for one that no arena of this size could hold."""
        host = self._host
        packed = pack(parsed, page_elems=host.parts.arena.layout.page_elems, dtype=host.runner.model.dtype)
        most = host.most_adapter_pages
        if packed.num_pages > most:
            message = f"The adapter needs {packed.num_pages} pages and at most {most} can ever be free for one."
            raise AdapterRefused(message, code="too_large", param="adapter_model.safetensors", expected=most, found=packed.num_pages)
        return packed

    def record(self, parsed: ParsedAdapter, packed: PackedAdapter, *, source: str, tenant: TenantId) -> VersionRecord:
        """What is to be stored of it."""
        return VersionRecord(
            id=AdapterId(packed.id),
            digest=parsed.digest,
            tenant=tenant,
            source=source,
            base_digest=self._host.parts.spec.digest,
            rank=parsed.rank,
            modules=parsed.module_names,
            num_matched=parsed.num_matched,
            num_pages=packed.num_pages,
            bytes=packed.num_pages * self._host.parts.arena.layout.page_bytes,
            base_proof=parsed.base_proof,
            registered_unix=time.time(),
            warnings=parsed.warnings,
            synthetic=parsed.synthetic,
            no_effect_expected=parsed.no_effect,
        )

    def check_free(self, alias: AliasName, adapter: AdapterId, *, replace: bool) -> None:
        """Raises Conflict when the alias names another version and may not be moved."""
        current = self._host.catalog.aliases.get(alias)
        if current is not None and current.adapter != adapter and not replace:
            message = f"The alias {alias.name!r} already names another version; ask for a replacement to move it."
            raise Conflict(message, code="alias_taken", param="alias", expected=adapter, found=current.adapter)

    def with_history(self, record: VersionRecord) -> VersionRecord:
        """What was known of this version before stays true, since its id is its content."""
        known = self._host.catalog.versions.get(record.id)
        if known is None:
            return record
        return dataclasses.replace(record, fingerprint=known.fingerprint, registered_unix=known.registered_unix)

    def _serve(
        self, record: VersionRecord, alias: AliasName, *, replace: bool, prove: Literal["now", "first_load"], caller: Caller
    ) -> Registration:
        if prove == "now" and not record.fingerprint:
            record = self._prove(record)
        new = NewVersion(record=record, alias=alias, report=dataclasses.asdict(report_of(record)))
        ((done, row),) = self.serve([new], replace={alias} if replace else set(), caller=caller)
        before = None if done.before is None else done.before.adapter
        created = before != record.id
        if created:
            self._host.publisher.record_event(
                AdapterRegistered(
                    at_unix=time.time(), by=caller.name, adapter=record.id, alias=alias.name, tenant=record.tenant, replaced=before
                )
            )
        return Registration(row=row, report=report_of(record), created=created, dry_run=False)

    def serve(
        self, new: Sequence[NewVersion], *, replace: Collection[AliasName], caller: Caller, also: Callable[[Session], None] = lambda _: None
    ) -> list[tuple[Registered, AdapterRow]]:
        """Store versions and point their aliases, in one transaction with ``also``; then they answer. Each must be adopted.

        Raises Conflict when an alias that is not in ``replace`` names another version; then nothing was changed.
        """
        host = self._host
        with self._alias_lock:
            for one in new:
                self.check_free(one.alias, one.record.id, replace=one.alias in replace)
            done = host.catalog.register(*new, caller=caller, also=also)
            return host.call(lambda: [(one, self._point(one)) for one in done])

    def _point(self, done: Registered) -> AdapterRow:
        """Engine thread."""
        return self._host.lifecycle.point(done.alias.alias, done.record, before=None if done.before is None else done.before.adapter)

    def _prove(self, record: VersionRecord) -> VersionRecord:
        """Load it and let the probe judge."""
        proof = self._host.call(lambda: self._host.lifecycle.prove(record.id))
        try:
            fingerprint = proof.result(timeout=PROVE_TIMEOUT_S)
        except concurrent.futures.TimeoutError:
            return record
        return dataclasses.replace(record, fingerprint=fingerprint)


def report_of(record: VersionRecord) -> ValidationReport:
    """What is shown and stored of a version's checks."""
    return ValidationReport(
        matched=record.num_matched,
        modules=record.modules,
        rank=record.rank,
        bytes=record.bytes,
        pages=record.num_pages,
        warnings=record.warnings,
        base_proof=record.base_proof,
        probe="ok" if record.fingerprint else "unproven",
    )
