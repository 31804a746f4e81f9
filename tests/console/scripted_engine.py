"""An engine made of arithmetic: the public API over a small world that moves on its own, for tests and pictures."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import math
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import (
    DEFAULT_TENANT,
    AdapterEvicted,
    AdapterId,
    AdapterNotFound,
    AdapterPinned,
    AdapterRefused,
    AdapterRegistered,
    AdapterRow,
    AdapterUnpinned,
    Conflict,
    DeviceSnapshot,
    EngineSnapshot,
    EngineStateChanged,
    EventPage,
    LoadPhase,
    LoadRecord,
    MemorySnapshot,
    RatesSnapshot,
    Request,
    RequestId,
    RequestRecord,
    RequestsSnapshot,
    RunningRow,
    Settings,
    StepRecord,
    StepRow,
    TenantId,
    TenantRow,
    TokenChunk,
    WaitingRow,
)

MIB = 2**20
PAGE = 2 * MIB
TENANTS = ("novacart", "parcelwise", "meridian", "halden-legal", "quillpad", "clinica", "oakridge", "fjordline")
NAMES = ("product-copy", "track-reply", "kyc-summary", "contracts-de", "tone-formal", "discharge-note", "quote-mail", "faq-no", "returns", "search-intent")
WORDS = "works on gas ceramic and induction the lid lifts off for filling and the wide spout cleans easily while the base is flat enough for any hob".split()


@dataclass(frozen=True)
class Victim:
    id: AdapterId
    alias: str
    pages: int
    idle_s: float


@dataclass(frozen=True)
class Outcome:
    verb: str
    adapter: AdapterRow
    applied: bool
    preview: bool
    message: str
    arithmetic: tuple[tuple[str, int], ...] = ()
    victims: tuple[Victim, ...] = ()
    eta_s: float | None = None
    waiting_leases: int = 0


@dataclass(frozen=True)
class Report:
    matched: int
    modules: tuple[str, ...]
    rank: int
    bytes: int
    pages: int
    warnings: tuple[str, ...]
    base_proof: str
    probe: str


@dataclass(frozen=True)
class Registration:
    row: AdapterRow
    report: Report
    created: bool
    dry_run: bool


@dataclass(frozen=True)
class Target:
    name: str
    adapter: AdapterId | None
    alias: str | None


class Tokenizer:
    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())


class ChatTemplate:
    def render(self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True) -> str:
        return f"<user>{messages[0]['content']}<assistant>"


class Stream:
    """Tokens at the engine's pace; greedy text depends on the model and the prompt only."""

    def __init__(self, engine: ScriptedEngine, request: Request, target: Target) -> None:
        self.engine, self.request, self.target = engine, request, target
        self.record: RequestRecord | None = None
        self.cancelled = False
        self.begun = time.perf_counter()

    def cancel(self) -> None:
        self.cancelled = True

    async def __aiter__(self) -> Any:
        row = self.engine.rows.get(self.target.adapter) if self.target.adapter else None
        cold = 0.3 if row and row.tier not in {"device", "loading"} else 0.0
        await asyncio.sleep(0.05 + cold)
        first = time.perf_counter()
        seed = int(hashlib.sha256(f"{self.request.model}{self.request.prompt_ids}".encode()).hexdigest()[:6], 16)
        length = min(self.request.sampling.max_tokens, 20 + seed % 60)
        finish, first_step, made = "length" if length == self.request.sampling.max_tokens else "stop", 0, 0
        for index in range(length):
            step = self.engine.take_part(self.request.id, self.target.adapter, index)
            first_step = first_step or step
            made += 1
            if self.cancelled:
                finish = "cancelled"
            reason = finish if index == length - 1 or self.cancelled else None
            yield TokenChunk(index=0, token_ids=(index,), text=WORDS[(seed + index) % len(WORDS)] + " ", finish_reason=reason, step=step)
            if reason:
                break
            await asyncio.sleep(self.engine.token_s)
        now = time.perf_counter()
        self.record = RequestRecord(
            id=self.request.id, tenant=self.request.tenant, model=self.request.model, adapter=self.target.adapter,
            tier_at_arrival=row.tier if row else None, prompt_tokens=len(self.request.prompt_ids), cached_tokens=0, completion_tokens=made,
            finish_reason=finish, queue_s=0.01, adapter_load_s=cold, prefill_s=0.04, decode_s=now - first, ttft_s=first - self.begun, e2e_s=now - self.begun,
            first_step=first_step, last_step=self.engine.step, arrived_s=self.begun,
        )  # fmt: skip


class ScriptedEngine:
    """The public API. ``trouble`` shows a degraded hour; ``moves`` False freezes every number."""

    def __init__(self, data: Path, *, num_adapters: int = 60, trouble: bool = False, moves: bool = True, cuda: bool = True) -> None:
        self.settings = Settings(data=data)
        self.base_name = "Llama-3.1-8B" if cuda else "SmolLM2-135M-Instruct"
        self.tokenizer, self.chat_template = Tokenizer(), ChatTemplate()
        self.trouble, self.moves, self.cuda = trouble, moves, cuda
        self.started = time.time() - 11 * 60
        self.step = 48_210
        self.token_s = 0.02
        self.num_events = 0
        self.log: list[tuple[int, Any]] = []
        self.step_log: list[StepRecord] = []
        self.open_step: tuple[float, list[StepRow]] | None = None
        self.subtract_bytes = 0
        self.calls: list[tuple[str, str]] = []
        self.rows: dict[AdapterId, AdapterRow] = {}
        for index in range(num_adapters):
            row = made_up(index)
            self.rows[row.id] = row
        self.adapters = tuple(self.rows.values())
        self._emit(EngineStateChanged(at_unix=self.started, before="starting", after="serving"))
        self._emit(AdapterEvicted(at_unix=time.time() - 900, by="policy", adapter=AdapterId("0"), alias="quillpad/legacy-bot", from_tier="device", because="pages_needed", idle_s=21600))
        if num_adapters:
            self._emit(AdapterPinned(at_unix=time.time() - 300, by="j.okafor", adapter=self.adapters[0].id, alias=self.adapters[0].alias, tier="device", until_unix=time.time() + 6 * 3600))

    def snapshot(self) -> EngineSnapshot:
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
            total_bytes=total + self.subtract_bytes, **fixed, **kv, free_bytes=free, adapters_pinned_bytes=pinned, adapters_leased_bytes=leased,
            adapters_cached_bytes=cached, page_bytes=PAGE, arena_pages=61_609, free_pages=70, kv_floor_pages=4_096, pinned_pages=pinned // PAGE,
            host_used_bytes=92_970 * MIB, host_budget_bytes=96 * 1024 * MIB, disk_used_bytes=206 * 10**9,
            adapters_pinned=sum(r.pinned for r in self.adapters), adapters_leased=sum(r.leases > 0 for r in self.adapters), adapters_cached=639,
            kv_used_tokens=249_648, kv_prefix_tokens=147_520,
        )  # fmt: skip
        return EngineSnapshot(
            step=self.step, taken_s=time.perf_counter(), taken_unix=now, started_unix=self.started, state="serving", state_since_unix=self.started,
            memory=memory, adapters=self.adapters, requests=self._requests(), tenants=self._tenants(wave), rates=self._rates(wave),
            device=DeviceSnapshot(kind="cuda" if self.cuda else "cpu", name="NVIDIA H200" if self.cuda else "CPU", base=self.base_name, num_parameters=8_030_000_000, dtype="bf16"),
            event=self.num_events,
        )  # fmt: skip

    def _rates(self, wave: float) -> RatesSnapshot:
        if not self.moves:
            return RatesSnapshot()
        load = 0.074 if self.trouble else 0.004
        return RatesSnapshot(
            requests=2_802, requests_per_s=46.7 + wave, output_tokens_per_s=9_810 + 300 * wave, prompt_tokens_per_s=21_400, ttft_p50_s=0.061,
            ttft_p95_s=(0.604 if self.trouble else 0.171) + 0.02 * wave, itl_p50_s=0.018, itl_p95_s=0.031 + 0.001 * wave, queue_mean_s=0.033 + 0.004 * wave,
            adapter_load_mean_s=load * (1 + 0.2 * wave), prefill_mean_s=0.041 + 0.001 * wave, decode_per_token_s=0.0182, hit_rate=0.912 if self.trouble else 0.991,
            cold_starts_per_min=246 if self.trouble else 4.2, errors=9 if self.trouble else 0,
        )  # fmt: skip

    def _requests(self) -> RequestsSnapshot:
        if not self.moves:
            return RequestsSnapshot()
        age = time.time() % 9
        running = tuple(
            RunningRow(id=RequestId(f"req_{i:06x}a91c"), tenant=row.tenant, model=row.alias, adapter=row.id, prompt_tokens=512, output_tokens=int(age * 20) + i, phase="decode", running_s=age + i / 10)
            for i, row in enumerate(self.adapters[:6])
        )
        reasons = ("adapter_loading", "adapter_loading", "kv_pages", "adapter_loading", "batch_full")
        waiting = tuple(
            WaitingRow(id=RequestId(f"req_{i:06x}77f0"), tenant=row.tenant, model=row.alias, adapter=row.id, reason=reasons[i], waited_s=(2.4 if self.trouble else 0.2) / (i + 1) + age / 50)
            for i, row in enumerate(self.adapters[20 : 25 if self.trouble else 21])
        )
        return RequestsSnapshot(running=running, waiting=waiting)

    def _tenants(self, wave: float) -> tuple[TenantRow, ...]:
        if not self.moves:
            return ()
        shares = ((("adapter_loading", 0.83), ("kv_pages", 0.11), ("batch_full", 0.06)), (("batch_full", 0.64), ("kv_pages", 0.36)), ())
        rows = []
        for i, name in enumerate(TENANTS):
            bad = self.trouble and i in {2, 3, 5}
            p95 = 1.84 - i / 5 if bad else 0.236 - i / 50
            rows.append(TenantRow(tenant=TenantId(name), requests=400 - 45 * i, requests_per_s=18.4 / (i + 1), ttft_p50_s=0.088 - i / 200, ttft_p95_s=p95 + 0.01 * wave, ttft_p99_s=None if 400 - 45 * i < 100 else p95 * 1.7, cold_share=0.38 - i / 20 if bad else 0.021 / (i + 1), waiting=14 - i if bad else max(0, 2 - i), wait_shares=shares[0] if bad else shares[1] if i < 2 else shares[2]))
        return tuple(rows)

    def events(self, after: int = 0, limit: int = 500) -> EventPage:
        return EventPage(events=tuple((n, e) for n, e in self.log if n > after)[:limit], newest=self.num_events)

    def _emit(self, event: Any) -> None:
        self.num_events += 1
        self.log.append((self.num_events, event))

    def steps(self, after: int = 0) -> tuple[StepRecord, ...]:
        return tuple(record for record in self.step_log if record.step > after)

    def take_part(self, request: RequestId, adapter: AdapterId | None, index: int) -> int:
        """Join the forward pass under way, or open one."""
        now = time.perf_counter()
        row = StepRow(request=request, index=0, phase="decode" if index else "prefill", tokens=1 if index else 40, adapter=adapter)
        if self.open_step is None or now - self.open_step[0] > self.token_s * 0.7 or any(r.request == request for r in self.open_step[1]):
            self.step += 1
            self.open_step = (now, [])
            self.step_log.append(StepRecord(step=self.step, started_s=now, duration_s=self.token_s * (1.6 if not index else 0.9 + 0.2 * (self.step % 3 == 0)), rows=(), num_adapters=0))
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

    def control(self, verb: str, ref: str, *, tenant: TenantId = DEFAULT_TENANT, tier: str | None = None, until_unix: float | None = None, reason: str = "", by: str = "operator", preview: bool = False) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        try:
            future.set_result(self._control(verb, self._find(ref), tier or ("host" if verb == "evict" else "device"), until_unix, reason, by, preview=preview))
            if not preview:
                self.calls.append((verb, ref))
        except Exception as error:  # noqa: BLE001 - as the engine does: refusals travel on the future
            future.set_exception(error)
        return future

    def _control(self, verb: str, row: AdapterRow, tier: str, until: float | None, reason: str, by: str, *, preview: bool) -> Outcome:
        now, memory = time.time(), self.snapshot().memory
        idle = [r for r in self.adapters if r.tier == "device" and not r.leases and not r.pinned and r.id != row.id][:2]
        victims = tuple(Victim(r.id, r.alias, r.pages, 18_720 - 6000 * i) for i, r in enumerate(idle)) if row.tier != "device" else ()
        gained = sum(v.pages for v in victims)
        bill = (("Free now", 70), *((f"Evict {v.alias}", v.pages) for v in victims), (f"{'Pin' if verb == 'pin' else 'Load'} {row.alias}", -row.pages), ("Free after", 70 + gained - row.pages)) if row.tier != "device" else (("Free now", 70), ("Free after", 70))
        if verb == "pin":
            left = memory.arena_pages - memory.pinned_pages - row.pages - memory.kv_floor_pages
            if "huge" in row.alias:
                left = 33
            rule = (("Arena", memory.arena_pages), ("Pinned after", -(memory.arena_pages - memory.kv_floor_pages - left)), ("KV floor", -memory.kv_floor_pages), ("Left", left))
            if left < 160:
                raise Conflict(f"Not pinned: {left} pages would be left and the largest adapter needs 160.", code="pin_would_not_fit", param="ref", expected=160, found=left, arithmetic=(*rule, ("Needed", 160)))
            after, lines = dataclasses.replace(row, pinned=True, pin_tier=tier, pin_until=until, pin_reason=reason, tier="device"), (*bill, *rule)
            event: Any = AdapterPinned(at_unix=now, by=by, adapter=row.id, alias=row.alias, tier="device", until_unix=until, reason=reason)
        elif verb == "unpin":
            after, lines, event = dataclasses.replace(row, pinned=False, pin_tier=None, pin_until=None), (), AdapterUnpinned(at_unix=now, by=by, adapter=row.id, alias=row.alias)
        elif verb == "warm":
            after, lines, event = dataclasses.replace(row, tier=tier), bill if tier == "device" else (), None
        else:
            if row.pinned:
                raise Conflict("It is pinned; end the pin first.", code="pinned", param="ref", expected="not pinned", found="pinned to device")
            after, lines, event = dataclasses.replace(row, tier=tier), (), AdapterEvicted(at_unix=now, by=by, adapter=row.id, alias=row.alias, from_tier="device", because="operator", idle_s=40.0)
        if not preview:
            self._put(after)
            if event is not None:
                self._emit(event)
        return Outcome(verb=verb, adapter=row if preview else after, applied=not preview, preview=preview, message="Would." if preview else "Did.", arithmetic=lines, victims=victims, eta_s=0.009, waiting_leases=row.leases if verb == "evict" else 0)

    def register(self, source: str, *, alias: str, tenant: TenantId = DEFAULT_TENANT, dry_run: bool = False, replace: bool = False, compatible_base: bool = False, by: str = "operator") -> Registration:
        if "bad" in source:
            raise AdapterRefused("layers.0.q_proj.lora_B has the wrong shape for this base.", code="shape_mismatch", param="model.layers.0.self_attn.q_proj.lora_B.weight", expected="[4096, 16]", found="[2048, 16]")
        row = dataclasses.replace(made_up(len(self.rows)), alias=alias, tenant=tenant, source=source, pinned=False, tier="disk", leases=0, requests_per_min=0.0)
        if not dry_run:
            self._put(row)
            self._emit(AdapterRegistered(at_unix=time.time(), by=by, adapter=row.id, alias=alias, tenant=tenant))
        report = Report(matched=row.num_matched, modules=row.modules, rank=row.rank, bytes=row.bytes, pages=row.pages, warnings=row.warnings or ("base declared, not proven",), base_proof="declared", probe="ok" if not dry_run else "unproven")
        return Registration(row=row, report=report, created=True, dry_run=dry_run)

    def submit(self, request: Request) -> Stream:
        row = None if request.model == self.base_name else self._find(request.model)
        return Stream(self, request, Target(request.model, row.id if row else None, row.alias if row else None))


def made_up(index: int) -> AdapterRow:
    """The adapter of that number; every one a little different."""
    tenant, name = TENANTS[index % len(TENANTS)], NAMES[(index * 3 + index // 8) % len(NAMES)]
    alias = f"{tenant}/{name}" + (f"-{index // 8 + 1}" if index >= 8 else "")
    if index == 11:
        alias = "meridian/huge-archive"
    rank = (8, 16, 16, 32, 16, 64, 8, 16)[index % 8]
    tier = ("device", "device", "device", "host", "device", "disk", "device", "host", "loading", "disk")[index % 10]
    pages = {8: 20, 16: 40, 32: 80, 64: 160}[rank]
    pinned = tier == "device" and index % 7 == 0
    busy = tier == "device" and index % 3 != 2
    warnings = ('alpha_pattern <img src=x onerror="document.title=\'owned\'"> is ignored',) if index == 3 else ()
    digest = hashlib.sha256(str(index).encode()).hexdigest()[:32]
    return AdapterRow(
        id=AdapterId(digest), alias=alias, tenant=TenantId(tenant), aliases=(alias,), tier=tier, pinned=pinned, pin_tier="device" if pinned or index == 13 else None,
        pin_until=time.time() + 8 * 3600 if pinned and index % 2 else None, leases=22 // (index + 1) if busy else 0, bytes=pages * PAGE, pages=pages, rank=rank,
        modules=("q", "k", "v", "o", "gate", "up", "down") if rank > 8 else ("q", "v"), num_matched=224 if rank > 8 else 64, warnings=warnings, source=f"/data/adapters/{alias}",
        requests=412 * 60 // (index + 1), requests_per_min=412 / (index + 1) if busy or index % 5 == 0 else 0.0, cold_starts=40 if index % 4 == 3 else 0, hits=200, loads=5,
        ttft_p95_s=(1.31 if index % 4 == 3 else 0.18) + index / 900 if busy or index % 5 == 0 else None, probe="ok" if index % 6 else "unproven",
        probe_fingerprint=digest[8:16] if index % 6 else "", synthetic=index % 9 == 0, registered_unix=time.time() - 86400 * 3, last_load=last_load(AdapterId(digest)) if index % 2 else None,
    )  # fmt: skip


def last_load(adapter: AdapterId) -> LoadRecord:
    """A cold start of 647 ms."""
    parts = (("load queue", 0.412, "9 ahead"), ("read", 0.058, "disk, 320 MiB"), ("verify", 0.161, "digest"), ("allocate", 0.003, "evicted 2"), ("copy", 0.007, "160 pages"), ("first use", 0.006, ""))
    phases, at = [], 0.0
    for name, duration, note in parts:
        phases.append(LoadPhase(name=name, start_s=at, duration_s=duration, note=note))
        at += duration
    return LoadRecord(adapter=adapter, from_tier="disk", asked_s=time.perf_counter() - 145, phases=tuple(phases), total_s=at, waiters=(RequestId("a"), RequestId("b"), RequestId("c")), waited_max_s=at, others_delay_s=0.0004, others_steps=2)
