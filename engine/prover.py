"""Runs the effective-delta probe between steps: before an adapter first answers, and again after a reload. Engine thread."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from engine.adapters.probe import fingerprint_text, fingerprints_match, read_probe
from engine.errors import AdapterRefused, LoradeckError
from engine.events import ProbeMismatch
from engine.versions.canaries import end_canaries
from engine.versions.late import pass_late, reject_late

if TYPE_CHECKING:
    from torch import Tensor

    from engine.adapters.entry import AdapterEntry
    from engine.adapters.probe import ProbeReading
    from engine.ids import AdapterId
    from engine.model_host import ModelHost


class Prover:
    """Adapters on the device that wait for their first probe; nothing answers with them before."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._pending: list[AdapterId] = []
        self._base_logits: Tensor | None = None

    def add(self, entry: AdapterEntry) -> None:
        """It has just come to the device and was never proven."""
        self._pending.append(entry.record.id)

    def run_pending(self) -> None:
        """Probe what has just come to the device for the first time."""
        pending, self._pending = self._pending, []
        for adapter in pending:
            entry = self._host.residency.entries.get(adapter)
            if entry is not None and entry.on_device:
                self._probe_new(entry)

    def recheck_one(self) -> bool:
        """In an idle turn: see that one reloaded adapter still answers as it did. False when none is due."""
        residency = self._host.residency
        due = next((e for e in residency.holders() if e.recheck and e.on_device and not e.leases and e.load is None), None)
        if due is None or not residency.table.can_install():
            return False
        due.recheck = False
        reading = read_probe(*self._probe_logits(due))
        if not reading.finite or not fingerprints_match(due.record.fingerprint, reading.fingerprint):
            self._quarantine(due, fingerprint_text(reading.fingerprint))
        return True

    def _probe_new(self, entry: AdapterEntry) -> None:
        residency = self._host.residency
        since_s = self._host.clock.now_s()
        reading = read_probe(*self._probe_logits(entry))
        load = entry.load
        assert load is not None
        load.add_phase("probe", since_s, self._host.clock.now_s(), note="first load")
        fault = _fault_of(reading, no_effect_expected=entry.record.no_effect_expected)
        if fault is not None:
            entry.quarantined = True
            reject_late(self._host, entry.record.id, fault)
            residency.leave_device(entry, because="quarantined")
            residency.loads.fail(entry, fault)
            return
        entry.record = dataclasses.replace(entry.record, fingerprint=reading.fingerprint)
        entry.probe = "ok"
        if entry.record.id in self._host.catalog.versions:
            pass_late(self._host, entry.record.id, reading.fingerprint)
        residency.loads.arrive(entry)

    def _probe_logits(self, entry: AdapterEntry) -> tuple[Tensor, Tensor]:
        host = self._host
        pages = host.parts.scratch_pages
        if self._base_logits is None:
            self._base_logits = host.runner.probe(None, pages=pages)
        assert entry.table is not None
        slot = host.residency.table.install(entry.table, entry.pages)
        try:
            return self._base_logits, host.runner.probe(slot, pages=pages)
        finally:
            host.residency.table.remove(slot)

    def _quarantine(self, entry: AdapterEntry, found: str) -> None:
        entry.probe = "mismatch"
        entry.quarantined = True
        expected = fingerprint_text(entry.record.fingerprint)
        self._host.publisher.record_event(
            ProbeMismatch(
                at_unix=time.time(), adapter=entry.record.id, alias=entry.alias, tenant=entry.record.tenant, expected=expected, found=found
            )
        )
        self._host.prefix.drop_adapter(entry.record.id)
        self._host.residency.leave_device(entry, because="quarantined")
        error = LoradeckError("The adapter no longer answers as it did when it was registered.", code="adapter_quarantined")
        self._host.requests.fail_adapter(entry.record.id, error)
        end_canaries(self._host, entry, f"The canary {entry.record.id} is quarantined: it no longer answers as it did.")


def _fault_of(reading: ProbeReading, *, no_effect_expected: bool) -> AdapterRefused | None:
    """Why an adapter may not serve; None when it may."""
    if not reading.finite:
        return AdapterRefused("The adapter gives logits that are not finite on the probe prompts.", code="non_finite", param="probe")
    if not reading.has_effect and not no_effect_expected:
        return AdapterRefused("The adapter does not change any logit on the probe prompts.", code="no_effect", param="probe")
    return None
