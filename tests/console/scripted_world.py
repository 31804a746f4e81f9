"""A made-up world: adapters, tenants and traffic, plausible and never measured."""

from __future__ import annotations

import hashlib
import time

from engine import (
    AdapterId,
    AdapterRow,
    DisplacementRow,
    FairnessSnapshot,
    LoadPhase,
    LoadRecord,
    RatesSnapshot,
    RequestId,
    RequestsSnapshot,
    RunningRow,
    ShareRow,
    TenantId,
    TenantRow,
    WaitingRow,
)

MIB = 2**20
PAGE = 2 * MIB
TENANTS = ("novacart", "parcelwise", "meridian", "halden-legal", "quillpad", "clinica", "oakridge", "fjordline")
NAMES = (
    "product-copy",
    "track-reply",
    "kyc-summary",
    "contracts-de",
    "tone-formal",
    "discharge-note",
    "quote-mail",
    "faq-no",
    "returns",
    "search-intent",
)
WORDS = [
    "works",
    "on",
    "gas",
    "ceramic",
    "and",
    "induction",
    "the",
    "lid",
    "lifts",
    "off",
    "for",
    "filling",
    "and",
    "the",
    "wide",
    "spout",
    "cleans",
    "easily",
    "while",
    "the",
    "base",
    "is",
    "flat",
    "enough",
    "for",
    "any",
    "hob",
]


def rates(wave: float, *, moves: bool, trouble: bool) -> RatesSnapshot:
    """The last minute; nothing when nothing moves."""
    if not moves:
        return RatesSnapshot()
    load = 0.074 if trouble else 0.004
    return RatesSnapshot(
        requests=2_802,
        requests_per_s=46.7 + wave,
        output_tokens_per_s=9_810 + 300 * wave,
        prompt_tokens_per_s=21_400,
        ttft_p50_s=0.061,
        ttft_p95_s=(0.604 if trouble else 0.171) + 0.02 * wave,
        itl_p50_s=0.018,
        itl_p95_s=0.031 + 0.001 * wave,
        queue_mean_s=0.033 + 0.004 * wave,
        adapter_load_mean_s=load * (1 + 0.2 * wave),
        prefill_mean_s=0.041 + 0.001 * wave,
        decode_per_token_s=0.0182,
        hit_rate=0.912 if trouble else 0.991,
        cold_starts_per_min=246 if trouble else 4.2,
        errors=9 if trouble else 0,
    )


def requests(adapters: tuple[AdapterRow, ...], *, moves: bool, trouble: bool) -> RequestsSnapshot:
    """What runs and what waits."""
    if not moves:
        return RequestsSnapshot()
    age = time.time() % 9
    running = tuple(
        RunningRow(
            id=RequestId(f"req_{i:06x}a91c"),
            tenant=row.tenant,
            model=row.alias,
            adapter=row.id,
            prompt_tokens=512,
            output_tokens=int(age * 20) + i,
            phase="decode",
            running_s=age + i / 10,
        )
        for i, row in enumerate(adapters[:6])
    )
    reasons = ("adapter_loading", "adapter_loading", "kv_pages", "adapter_loading", "batch_full")
    waiting = tuple(
        WaitingRow(
            id=RequestId(f"req_{i:06x}77f0"),
            tenant=row.tenant,
            model=row.alias,
            adapter=row.id,
            reason=reasons[i],
            waited_s=(2.4 if trouble else 0.2) / (i + 1) + age / 50,
        )
        for i, row in enumerate(adapters[20 : 25 if trouble else 21])
    )
    return RequestsSnapshot(running=running, waiting=waiting)


def tenants(wave: float, *, moves: bool, trouble: bool) -> tuple[TenantRow, ...]:
    """Eight tenants, three of them in trouble when there is some."""
    if not moves:
        return ()
    shares = ((("adapter_loading", 0.83), ("kv_pages", 0.11), ("batch_full", 0.06)), (("batch_full", 0.64), ("kv_pages", 0.36)), ())
    rows = []
    for i, name in enumerate(TENANTS):
        bad = trouble and i in {2, 3, 5}
        p95 = 1.84 - i / 5 if bad else 0.236 - i / 50
        rows.append(
            TenantRow(
                tenant=TenantId(name),
                requests=400 - 45 * i,
                requests_per_s=18.4 / (i + 1),
                ttft_p50_s=0.088 - i / 200,
                ttft_p95_s=p95 + 0.01 * wave,
                ttft_p99_s=None if 400 - 45 * i < 100 else p95 * 1.7,
                cold_share=0.38 - i / 20 if bad else 0.021 / (i + 1),
                waiting=14 - i if bad else max(0, 2 - i),
                wait_shares=shares[0] if bad else shares[1] if i < 2 else shares[2],
            )
        )
    return tuple(rows)


def fairness(*, moves: bool, trouble: bool) -> FairnessSnapshot:
    """Heavy tenants push light ones off the device when there is trouble."""
    if not moves:
        return FairnessSnapshot()
    shares = tuple(
        ShareRow(
            tenant=TenantId(name),
            backlogged_s=9.0,
            is_counted=i < 5,
            slowdown=(3.4 if trouble else 1.1) / (1 + i / 4),
            requests=200 - 20 * i,
        )
        for i, name in enumerate(TENANTS)
    )
    pairs = (("meridian", "clinica", 12, 1_840.0), ("meridian", "halden-legal", 7, 960.0), ("meridian", "meridian", 4, 410.0),
             ("novacart", "clinica", 3, 220.0), ("halden-legal", "meridian", 1, 35.0), ("novacart", "quillpad", 2, 0.0))  # fmt: skip
    displaced = tuple(DisplacementRow(by=TenantId(by), of=TenantId(of), evictions=n, stalled_ms=ms) for by, of, n, ms in pairs if trouble)
    return FairnessSnapshot(jain=0.713 if trouble else 0.992, tenants=shares, displaced=displaced)


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
    warnings = ("alpha_pattern <img src=x onerror=\"document.title='owned'\"> is ignored",) if index == 3 else ()
    digest = hashlib.sha256(str(index).encode()).hexdigest()[:32]
    return AdapterRow(
        id=AdapterId(digest),
        alias=alias,
        tenant=TenantId(tenant),
        number=1 + index % 4,
        aliases=(alias,),
        tier=tier,
        pinned=pinned,
        pin_tier="device" if pinned or index == 13 else None,
        pin_until=time.time() + 8 * 3600 if pinned and index % 2 else None,
        leases=22 // (index + 1) if busy else 0,
        bytes=pages * PAGE,
        pages=pages,
        rank=rank,
        modules=("q", "k", "v", "o", "gate", "up", "down") if rank > 8 else ("q", "v"),
        num_matched=224 if rank > 8 else 64,
        warnings=warnings,
        source=f"/data/adapters/{alias}",
        requests=412 * 60 // (index + 1),
        requests_per_min=412 / (index + 1) if busy or index % 5 == 0 else 0.0,
        cold_starts=40 if index % 4 == 3 else 0,
        hits=200,
        loads=5,
        ttft_p95_s=(1.31 if index % 4 == 3 else 0.18) + index / 900 if busy or index % 5 == 0 else None,
        probe="ok" if index % 6 else "unproven",
        probe_fingerprint=digest[8:16] if index % 6 else "",
        synthetic=index % 9 == 0,
        registered_unix=time.time() - 86400 * 3,
        last_load=last_load(AdapterId(digest)) if index % 2 else None,
    )


def last_load(adapter: AdapterId) -> LoadRecord:
    """A cold start of 647 ms."""
    parts = (
        ("load queue", 0.412, "9 ahead"),
        ("read", 0.058, "disk, 320 MiB"),
        ("verify", 0.161, "digest"),
        ("allocate", 0.003, "evicted 2"),
        ("copy", 0.007, "160 pages"),
        ("first use", 0.006, ""),
    )
    phases, at = [], 0.0
    for name, duration, note in parts:
        phases.append(LoadPhase(name=name, start_s=at, duration_s=duration, note=note))
        at += duration
    return LoadRecord(
        adapter=adapter,
        from_tier="disk",
        asked_s=time.perf_counter() - 145,
        phases=tuple(phases),
        total_s=at,
        waiters=(RequestId("a"), RequestId("b"), RequestId("c")),
        waited_max_s=at,
        others_delay_s=0.0004,
        others_steps=2,
    )
