"""Register and withdraw adapters: parse, prove, point the alias. Runs in the caller's thread and blocks."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from engine.adapters.pack import pack
from engine.adapters.peft import parse_adapter
from engine.alias import AliasName
from engine.errors import OUTCOME_UNKNOWN, AdapterRefused, Conflict, LoradeckError, RegistryUnavailable
from engine.events import AdapterRegistered, AdapterRejected, AdapterUnregistered
from engine.full_disk import unwritable
from engine.gateway.scope import narrow_row, told_to
from engine.intake.sources import Sources
from engine.names import check_alias
from engine.observer import static_row
from engine.process import release_team
from engine.registered import Registration, report_of
from engine.registry.catalog import NewVersion
from engine.version import VersionRecord
from engine.versions.admission import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from sqlmodel import Session

    from engine.adapters.pack import PackedAdapter
    from engine.adapters.peft import ParsedAdapter
    from engine.caller import Caller
    from engine.ids import AdapterId, TenantId
    from engine.model_host import ModelHost
    from engine.models.spec import ModelSpec
    from engine.registered import RegisterCall, ValidationReport
    from engine.registry.catalog import Registered
    from engine.report import Scores
    from engine.settings import Settings
    from engine.snapshot import AdapterRow
    from engine.versions.service import Versions

PROVE_TIMEOUT_S = 60.0
"""How long a registration waits for the probe; past it the version stays unproven until its first load."""


class Registrar:
    """Parsing and packing run in as many threads as callers bring; a name changes once at a time."""

    def __init__(self, host: ModelHost, settings: Settings, versions: Versions) -> None:
        self._host = host
        self._settings = settings
        self._versions = versions
        self.admission = versions.admission
        self.placements = versions.placements
        self.sources = Sources(settings)

    def register(self, call: RegisterCall, *, caller: Caller) -> Registration:
        """Validate a PEFT folder and serve it under a name; every refusal is typed and changes nothing that serves."""
        record = None
        try:
            check_alias(call.alias.name, reserved=(self._host.base_name,))
            parsed, packed = self._validate(call)
            record = self.record(parsed, packed, source=call.source)
            report = self.report(record, parsed.scores, call.alias)
            if call.dry_run:
                return Registration(row=static_row(record, call.alias.name), report=report, created=False, dry_run=True)
            self.check_free(call.alias, record.id, replace=call.replace)
            with self._adopted(self.with_history(record)) as adopted:
                self._write(packed)
                return self._serve(adopted, parsed.scores, call, caller=caller)
        except LoradeckError as refusal:
            if not call.dry_run:
                self._tell_refusal(call, record, refusal, caller)
            raise

    def unregister(self, alias: AliasName, *, caller: Caller) -> None:
        """Withdraw an alias now; requests in flight finish, and versions that no name keeps retire."""
        named = self._versions.drop(alias.name, tenant=alias.tenant, caller=caller)
        event = AdapterUnregistered(at_unix=time.time(), by=caller.name, adapter=named.adapter, alias=alias.name, tenant=alias.tenant)
        self._host.publisher.record_event(event)

    @contextmanager
    def _adopted(self, record: VersionRecord) -> Iterator[VersionRecord]:
        """Inside, the engine holds the version; after it only where a name leads to it, or where nobody knows yet whether one does."""
        host, unknown = self._host, False
        adopted = host.call(lambda: host.lifecycle.adopt(record))
        try:
            yield adopted
        except RegistryUnavailable as error:
            unknown = error.code == OUTCOME_UNKNOWN
            raise
        finally:
            if not unknown:
                host.call(lambda: host.lifecycle.let_go(record.id))

    def _write(self, packed: PackedAdapter) -> None:
        disk = self._host.residency.disk
        try:
            disk.write(packed)
        except OSError as error:
            raise unwritable(f"The adapter's image in {disk.folder}", error) from error

    def _tell_refusal(self, call: RegisterCall, record: VersionRecord | None, refusal: LoradeckError, caller: Caller) -> None:
        self._host.publisher.record_event(
            AdapterRejected(
                at_unix=time.time(),
                by=caller.name,
                source=call.source[:200],
                alias=call.alias.name[:80],
                code=refusal.code,
                message=refusal.message,
                tenant=call.alias.tenant,
            )
        )
        if isinstance(refusal, AdapterRefused):
            self.admission.reject(Refused(alias=call.alias, record=record, source=call.source, refusal=refusal), caller=caller)

    def _validate(self, call: RegisterCall) -> tuple[ParsedAdapter, PackedAdapter]:
        try:
            with self.sources.opened(call.source) as folder:
                parsed = self.parse(folder, owner=call.alias.tenant, compatible_base=call.compatible_base)
                return parsed, self.pack(parsed)
        finally:
            release_team()

    def parse(self, folder: Path, *, owner: TenantId, compatible_base: bool, spec: ModelSpec | None = None) -> ParsedAdapter:
        """Read and check a folder of a tenant for the base that serves, or for that of ``spec``. Raises AdapterRefused."""
        spec, most = spec or self._host.parts.spec, self._settings.max_rank
        return parse_adapter(folder, spec, max_rank=most, base_digest=spec.digest, owner=owner, compatible_base=compatible_base)

    def pack(self, parsed: ParsedAdapter) -> PackedAdapter:
        """Its page images. Raises AdapterRefused for one that no arena or no host memory of this size could hold."""
        host = self._host
        packed = pack(parsed, page_elems=host.parts.arena.layout.page_elems, dtype=host.runner.model.dtype)
        most = host.most_adapter_pages
        if packed.num_pages > most:
            message = f"The adapter needs {packed.num_pages} pages and at most {most} can ever be free for one."
            raise AdapterRefused(message, code="too_large", param="adapter_model.safetensors", expected=most, found=packed.num_pages)
        host.residency.host.check_fits(packed.num_pages * host.parts.arena.layout.page_bytes)
        return packed

    def record(self, parsed: ParsedAdapter, packed: PackedAdapter, *, source: str) -> VersionRecord:
        """What is to be stored of it."""
        return VersionRecord(
            id=packed.id,
            digest=parsed.digest,
            tenant=parsed.owner,
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
        """What was proven of its owner's weights stays true, and since when they are registered."""
        known = self._host.catalog.versions.get(record.id)
        if known is None:
            return record
        return dataclasses.replace(record, fingerprint=known.fingerprint, registered_unix=known.registered_unix)

    def _serve(self, record: VersionRecord, scores: Scores | None, call: RegisterCall, *, caller: Caller) -> Registration:
        def proven(one: NewVersion) -> NewVersion:
            found = self._proven(one.record, call)
            report = self.report(found, scores, call.alias)
            return dataclasses.replace(one, record=found, report=dataclasses.asdict(report))

        new = NewVersion(record=record, alias=call.alias, scores=scores, warm=call.warm, why=call.why)
        ((done, row),) = self.serve([new], replace={call.alias} if call.replace else set(), caller=caller, proven=proven)
        before = None if done.before is None else done.before.adapter
        created = before != record.id
        if created:
            event = AdapterRegistered(
                at_unix=time.time(),
                by=caller.name,
                adapter=record.id,
                alias=call.alias.name,
                tenant=record.tenant,
                replaced=before,
            )
            self._host.publisher.record_event(event)
        seen = narrow_row(row, caller.tenant)
        assert seen is not None
        return Registration(row=seen, report=self.report(done.record, scores, call.alias), created=created, dry_run=False)

    def serve(
        self,
        new: Sequence[NewVersion],
        *,
        replace: Collection[AliasName],
        caller: Caller,
        also: Callable[[Session], None] = lambda _: None,
        proven: Callable[[NewVersion], NewVersion] = lambda one: one,
    ) -> list[tuple[Registered, AdapterRow]]:
        """Store versions and point their aliases, in one transaction with ``also``; then they answer. Each must be adopted.

        One that takes the place of another is as warm first; ``proven`` finishes each then. Raises Conflict when an alias that is not in
        ``replace`` names another version, or one cannot be as warm, and whatever ``proven`` raises; then nothing was changed.
        """
        host, moves = self._host, self._versions.moves
        with ExitStack() as held:
            held.enter_context(told_to(caller.tenant))
            held.enter_context(moves.changing_all([one.alias for one in new]))
            for one in new:
                self.check_free(one.alias, one.record.id, replace=one.alias in replace)
                before = host.catalog.aliases.get(one.alias)
                if before is not None or one.warm != "disk":
                    like = None if before is None else before.adapter
                    held.enter_context(moves.as_warm(one.record.id, like=like, at_least=one.warm))
            done = host.catalog.register(*[proven(one) for one in new], caller=caller, also=also)
            return host.call(lambda: [(one, host.lifecycle.point(one.before, one.alias)) for one in done])

    def check_declared(self, alias: AliasName, parsed: ParsedAdapter) -> None:
        """Raises AdapterRefused where what its file says of itself will not do."""
        self.admission.check_declared(alias, parsed)

    def report(self, record: VersionRecord, scores: Scores | None, alias: AliasName) -> ValidationReport:
        """What is shown and stored of a version's checks. Raises AdapterRefused by the first that failed."""
        return report_of(record, self.admission.judge(record, scores, alias), scores)

    def _proven(self, record: VersionRecord, call: RegisterCall) -> VersionRecord:
        """With its fingerprint: from the load that just brought it near, or loaded for it, unless that may wait."""
        host = self._host
        proof = host.call(lambda: host.lifecycle.prove(record.id, now=call.prove == "now"))
        try:
            return dataclasses.replace(record, fingerprint=proof.result(timeout=PROVE_TIMEOUT_S))
        except concurrent.futures.TimeoutError:
            return record
