"""An engine made of arithmetic: the public API over a small world that moves on its own, for tests and pictures."""

from __future__ import annotations

import dataclasses
import math
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from engine import (
    SYSTEM,
    AdapterEvicted,
    AdapterId,
    AdapterNotFound,
    AdapterPinned,
    AdapterRefused,
    AdapterRegistered,
    AdapterRow,
    AdapterUnpinned,
    Caller,
    Conflict,
    ControlOutcome,
    DeviceSnapshot,
    EngineSnapshot,
    EngineStateChanged,
    EventPage,
    MemorySnapshot,
    Registration,
    Request,
    RequestId,
    Settings,
    StepRecord,
    StepRow,
    Target,
    TenantId,
    ValidationReport,
    Victim,
)
from engine.clock import MonotonicClock
from engine.gateway.gate import Gate
from engine.gateway.scope import narrow_events, narrow_snapshot
from engine.telemetry.event_log import EventLog
from engine.versions.undo import Audit
from tests.accounts import open_accounts
from tests.console.scripted_operations import ScriptedOperations
from tests.console.scripted_services import ScriptedServices
from tests.console.scripted_stream import ChatTemplate, Stream, Tokenizer
from tests.console.scripted_versions import ScriptedAudit, ScriptedVersions
from tests.console.scripted_world import MIB, PAGE, fairness, made_up, rates, requests, tenants


class ScriptedEngine:
    """The public API. ``trouble`` shows a degraded hour; ``moves`` False freezes every number."""

    def __init__(
        self, data: Path, *, num_adapters: int = 60, trouble: bool = False, moves: bool = True, cuda: bool = True, host: str = "127.0.0.1"
    ) -> None:
        self.settings = Settings(data=data, host=host)
        self.gate = Gate(MonotonicClock())
        self.tenants = open_accounts(self.settings, self.gate)
        self.base_name = "Llama-3.1-8B" if cuda else "SmolLM2-135M-Instruct"
        self.services = ScriptedServices(self.tenants, self.base_name)
        self.schedules = self.services.schedules
        self.tokenizer, self.chat_template = Tokenizer(), ChatTemplate()
        self.trouble, self.moves, self.cuda = trouble, moves, cuda
        self.operations = ScriptedOperations(data)
        self.started = time.time() - 11 * 60
        self.step = 48_210
        self.token_s = 0.02
        self.log = EventLog()
        self.step_log: list[StepRecord] = []
        self.open_step: tuple[float, list[StepRow]] | None = None
        self.subtract_bytes = 0
        self.calls: list[tuple[str, str]] = []
        self.canaries: dict[str, str] = {}
        """Names whose requests go to another version."""
        self.rows: dict[AdapterId, AdapterRow] = {}
        for index in range(num_adapters):
            row = made_up(index)
            self.rows[row.id] = row
        self.adapters = tuple(self.rows.values())
        self.versions = ScriptedVersions(self.adapters, self._put, self._drop)
        self.versions.thresholds, self.versions.bases = self.services.thresholds, self.services.bases
        self.audit: Audit | ScriptedAudit = ScriptedAudit(self.versions)
        self._emit(EngineStateChanged(at_unix=self.started, before="starting", after="serving"))
        self._emit(
            AdapterEvicted(
                at_unix=time.time() - 900,
                by="policy",
                adapter=AdapterId("0"),
                alias="quillpad/legacy-bot",
                tenant=TenantId("quillpad"),
                from_tier="device",
                because="pages_needed",
                idle_s=21600,
            )
        )
        if num_adapters:
            self._emit(
                AdapterPinned(
                    at_unix=time.time() - 300,
                    by="j.okafor",
                    adapter=self.adapters[0].id,
                    alias=self.adapters[0].alias,
                    tenant=self.adapters[0].tenant,
                    tier="device",
                    until_unix=time.time() + 6 * 3600,
                )
            )

    def snapshot(self, tenant: TenantId | None = None) -> EngineSnapshot:
        """What is, at this moment of the script."""
        return narrow_snapshot(self._whole(), tenant, event=self.log.newest(tenant))

    def _whole(self) -> EngineSnapshot:
        now = time.time()
        wave = math.sin(now / 7) + 0.6 * math.sin(now / 2.3) if self.moves else 0.0
        used = int((30_470 + 400 * wave) * MIB) // PAGE * PAGE
        pinned = sum(row.bytes for row in self.adapters if row.pinned and row.tier == "device")
        leased = sum(row.bytes for row in self.adapters if row.leases and not row.pinned and row.tier == "device")
        total = 143_770 * MIB
        fixed = {"base_bytes": 15_319 * MIB, "workspace_bytes": 4_209 * MIB, "other_bytes": 1_024 * MIB}
        kv = {"kv_used_bytes": used, "kv_prefix_bytes": 18_442 * MIB, "kv_reserved_bytes": 8_192 * MIB}
        free = 140 * MIB
        cached = total - sum(fixed.values()) - sum(kv.values()) - pinned - leased - free
        memory = MemorySnapshot(
            total_bytes=total + self.subtract_bytes,
            **fixed,
            **kv,
            free_bytes=free,
            adapters_pinned_bytes=pinned,
            adapters_leased_bytes=leased,
            adapters_cached_bytes=cached,
            page_bytes=PAGE,
            arena_pages=61_609,
            free_pages=70,
            kv_floor_pages=4_096,
            pinned_pages=pinned // PAGE,
            host_used_bytes=92_970 * MIB,
            host_budget_bytes=96 * 1024 * MIB,
            disk_used_bytes=206 * 10**9,
            adapters_pinned=sum(r.pinned for r in self.adapters),
            adapters_leased=sum(r.leases > 0 for r in self.adapters),
            adapters_cached=639,
            kv_used_tokens=249_648,
            kv_prefix_tokens=147_520,
        )
        return EngineSnapshot(
            step=self.step,
            taken_s=time.perf_counter(),
            taken_unix=now,
            started_unix=self.started,
            state="serving",
            state_since_unix=self.started,
            memory=memory,
            adapters=self.adapters,
            requests=requests(self.adapters, moves=self.moves, trouble=self.trouble),
            tenants=tenants(wave, moves=self.moves, trouble=self.trouble),
            fairness=fairness(moves=self.moves, trouble=self.trouble),
            rates=rates(wave, moves=self.moves, trouble=self.trouble),
            device=DeviceSnapshot(
                kind="cuda" if self.cuda else "cpu",
                name="NVIDIA H200" if self.cuda else "CPU",
                base=self.base_name,
                num_parameters=8_030_000_000,
                dtype="bf16",
            ),
            event=self.log.newest(),
        )

    def events(self, after: int = 0, limit: int = 500, *, tenant: TenantId | None = None) -> EventPage:
        """The log after a number."""
        return narrow_events(self.log.page(after, limit=limit, tenant=tenant), tenant)

    def _emit(self, event: Any) -> None:
        self.log.append(event)

    def steps(self, after: int = 0) -> tuple[StepRecord, ...]:
        """Forward passes after a number."""
        return tuple(record for record in self.step_log if record.step > after)

    def take_part(self, request: RequestId, adapter: AdapterId | None, index: int) -> int:
        """Join the forward pass under way, or open one."""
        now = time.perf_counter()
        row = StepRow(request=request, index=0, phase="decode" if index else "prefill", tokens=1 if index else 40, adapter=adapter)
        if self.open_step is None or now - self.open_step[0] > self.token_s * 0.7 or any(r.request == request for r in self.open_step[1]):
            self.step += 1
            self.open_step = (now, [])
            self.step_log.append(
                StepRecord(
                    step=self.step,
                    started_s=now,
                    duration_s=self.token_s * (1.6 if not index else 0.9 + 0.2 * (self.step % 3 == 0)),
                    rows=(),
                    num_adapters=0,
                )
            )
        self.open_step[1].append(row)
        rows = tuple(self.open_step[1])
        self.step_log[-1] = dataclasses.replace(self.step_log[-1], rows=rows, num_adapters=len({r.adapter for r in rows if r.adapter}))
        return self.step

    def _find(self, ref: str) -> AdapterRow:
        for row in self.adapters:
            if ref in {row.id, row.alias}:
                return row
        raise AdapterNotFound(f"No adapter is called {ref}.", param="ref", found=ref)

    def _put(self, row: AdapterRow) -> None:
        self.rows[row.id] = row
        self.adapters = tuple(self.rows.values())

    def _drop(self, adapter: AdapterId) -> None:
        self.rows.pop(adapter, None)
        self.adapters = tuple(self.rows.values())

    def control(
        self,
        verb: str,
        ref: str,
        *,
        tenant: TenantId | None = None,
        tier: str | None = None,
        until_unix: float | None = None,
        reason: str = "",
        preview: bool = False,
        caller: Caller = SYSTEM,
    ) -> Future[ControlOutcome]:
        """Answers at once, through a future, as the engine does."""
        caller.need("operator")
        future: Future[ControlOutcome] = Future()
        try:
            future.set_result(
                self._control(
                    verb,
                    self._find(ref),
                    tier or ("host" if verb == "evict" else "device"),
                    (until_unix, reason, caller.name),
                    preview=preview,
                )
            )
            if not preview:
                self.calls.append((verb, ref))
        except Exception as error:  # noqa: BLE001 - as the engine does: refusals travel on the future
            future.set_exception(error)
        return future

    def _control(self, verb: str, row: AdapterRow, tier: str, pin: tuple[float | None, str, str], *, preview: bool) -> ControlOutcome:
        until, reason, by = pin
        now, memory = time.time(), self.snapshot().memory
        idle = [r for r in self.adapters if r.tier == "device" and not r.leases and not r.pinned and r.id != row.id][:2]
        victims = (
            tuple(Victim(id=r.id, alias=r.alias, pages=r.pages, idle_s=18_720 - 6000 * i) for i, r in enumerate(idle))
            if row.tier != "device"
            else ()
        )
        gained = sum(v.pages for v in victims)
        bill = (
            (
                ("Free now", 70),
                *((f"Evict {v.alias}", v.pages) for v in victims),
                (f"{'Pin' if verb == 'pin' else 'Load'} {row.alias}", -row.pages),
                ("Free after", 70 + gained - row.pages),
            )
            if row.tier != "device"
            else (("Free now", 70), ("Free after", 70))
        )
        if verb == "pin":
            left = memory.arena_pages - memory.pinned_pages - row.pages - memory.kv_floor_pages
            if "huge" in row.alias:
                left = 33
            rule = (
                ("Arena", memory.arena_pages),
                ("Pinned after", -(memory.arena_pages - memory.kv_floor_pages - left)),
                ("KV floor", -memory.kv_floor_pages),
                ("Left", left),
            )
            if left < 160:
                raise Conflict(
                    f"Not pinned: {left} pages would be left and the largest adapter needs 160.",
                    code="pin_would_not_fit",
                    param="ref",
                    expected=160,
                    found=left,
                    arithmetic=(*rule, ("Needed", 160)),
                )
            after, lines = (
                dataclasses.replace(row, pinned=True, pin_tier=tier, pin_until=until, pin_reason=reason, tier="device"),
                (*bill, *rule),
            )
            event: Any = AdapterPinned(
                at_unix=now, by=by, adapter=row.id, alias=row.alias, tenant=row.tenant, tier="device", until_unix=until, reason=reason
            )
        elif verb == "unpin":
            after, lines, event = (
                dataclasses.replace(row, pinned=False, pin_tier=None, pin_until=None),
                (),
                AdapterUnpinned(at_unix=now, by=by, adapter=row.id, alias=row.alias, tenant=row.tenant),
            )
        elif verb == "warm":
            after, lines, event = dataclasses.replace(row, tier=tier), bill if tier == "device" else (), None
        else:
            if row.pinned:
                raise Conflict(
                    "It is pinned; end the pin first.", code="pinned", param="ref", expected="not pinned", found="pinned to device"
                )
            after, lines, event = (
                dataclasses.replace(row, tier=tier),
                (),
                AdapterEvicted(
                    at_unix=now,
                    by=by,
                    adapter=row.id,
                    alias=row.alias,
                    tenant=row.tenant,
                    from_tier="device",
                    because="operator",
                    idle_s=40.0,
                ),
            )
        if not preview:
            self._put(after)
            if event is not None:
                self._emit(event)
        return ControlOutcome(
            verb=verb,
            adapter=row if preview else after,
            applied=not preview,
            preview=preview,
            message="Would." if preview else "Did.",
            arithmetic=lines,
            victims=victims,
            eta_s=0.009,
            waiting_leases=row.leases if verb == "evict" else 0,
        )

    def register(
        self,
        source: str,
        *,
        alias: str,
        tenant: TenantId | None = None,
        dry_run: bool = False,
        replace: bool = False,
        compatible_base: bool = False,
        caller: Caller = SYSTEM,
    ) -> Registration:
        """Refuses what is called bad, and accepts the rest."""
        owner = tenant or caller.home
        caller.need_for(owner, "operator")
        if "bad" in source:
            raise AdapterRefused(
                "layers.0.q_proj.lora_B has the wrong shape for this base.",
                code="shape_mismatch",
                param="model.layers.0.self_attn.q_proj.lora_B.weight",
                expected="[4096, 16]",
                found="[2048, 16]",
            )
        row = dataclasses.replace(
            made_up(len(self.rows)), alias=alias, tenant=owner, source=source, pinned=False, tier="disk", leases=0, requests_per_min=0.0
        )
        if not dry_run:
            self.versions.know(row, 1)
            self._put(row)
            self._emit(AdapterRegistered(at_unix=time.time(), by=caller.name, adapter=row.id, alias=alias, tenant=owner))
        report = ValidationReport(
            matched=row.num_matched,
            modules=row.modules,
            rank=row.rank,
            bytes=row.bytes,
            pages=row.pages,
            warnings=row.warnings or ("base declared, not proven",),
            base_proof="declared",
            probe="ok" if not dry_run else "unproven",
        )
        return Registration(row=row, report=report, created=True, dry_run=dry_run)

    def submit(self, request: Request) -> Stream:
        """A stream at the scripted pace."""
        self.calls.append(("submit", request.model))
        row = None if request.model == self.base_name else self._find(request.model)
        target = Target(name=request.model, adapter=row.id if row else None, alias=row.alias if row else None)
        if row and self.canaries.get(request.model):
            target = dataclasses.replace(target, adapter=self._find(self.canaries[request.model]).id, stable=row.id)
        return Stream(self, request, target)
