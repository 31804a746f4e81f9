"""What is idle is known without looking: kept as leases, loads, pins and names come and go."""

from __future__ import annotations

import dataclasses
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.adapters.entry import AdapterEntry, Load
from engine.adapters.idle import IdleSet
from engine.bench.simulated import World, version
from engine.desired import Pin
from engine.ids import AdapterId
from engine.memory.reclaim import Floors
from engine.scheduler.budget import Limits

NAMES = tuple(AdapterId(f"a{number}") for number in range(4))
HOLDS = ("lease", "load", "name", "pin", "host pin")
PIN = Pin(tier="device", until_unix=None, reason="", by="")
LIMITS = Limits(max_sequences=4, max_step_tokens=64, prefill_chunk=64, max_adapters=4, page_tokens=16, drain_after_s=1.0)


def held(entry: AdapterEntry, by: str, *, begins: bool) -> None:
    """One way to hold an adapter begins or ends."""
    if by == "lease":
        entry.leases = int(begins)
    elif by == "load":
        entry.load = Load(asked_s=0.0, from_tier="host") if begins else None
    elif by == "name":
        entry.holds = int(begins)
    else:
        entry.pin = dataclasses.replace(PIN, tier="device" if by == "pin" else "host") if begins else None


@given(changes=st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from([*HOLDS, "device"]), st.booleans())))
def test_it_is_what_looking_at_all_would_find(changes: list[tuple[int, str, bool]]) -> None:
    """After every change that it is told of, and whoever comes to be idle is counted once."""
    entries = [AdapterEntry(record=version(name, number + 1)) for number, name in enumerate(NAMES)]
    idle, joined = IdleSet(), 0
    for number, what, begins in changes:
        entry = entries[number]
        was_idle = entry.is_idle
        if what == "device":
            entry.on_device, entry.pages = begins, list(range(number + 1)) if begins else entry.pages
        else:
            held(entry, what, begins=begins)
        idle.review(entry)
        joined += entry.is_idle and not was_idle
        found = [each for each in entries if each.on_device and not (each.leases or each.load or each.holds or each.is_pinned_to_device)]
        assert sorted(each.record.id for each in idle) == [each.record.id for each in found]
        assert idle.num_pages == sum(len(each.pages) for each in found)
        assert [idle.pages_of(name) for name in NAMES] == [len(each.pages) if each in found else 0 for each in entries]
        assert idle.num_joined == joined
        idle.check(entries)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_residency_tells_it_of_every_change(seed: int) -> None:
    """Loads, leases, pins and evictions in any order leave it right."""
    chance = random.Random(seed)
    world = World(
        num_pages=12, sizes={name: 1 + number for number, name in enumerate(NAMES)}, limits=LIMITS, floors=Floors(kv=2, adapter=0)
    )
    residency = world.residency
    for _ in range(60):
        name = chance.choice(NAMES)
        entry = residency.entry(name)
        match chance.choice(["want", "arrive", "lease", "lease", "release", "pin", "evict", "pass"]):
            case "want" if not entry.on_device:
                residency.want(name, world.clock.seconds)
            case "arrive":
                world.bring()
            case "lease" if residency.state(name) == "device":
                residency.lease(name)
            case "release" if entry.leases:
                residency.release(name)
            case "pin":
                residency.set_pin(entry, chance.choice([None, PIN]))
            case "evict" if residency.is_evictable(name):
                residency.evict_for_room([name])
            case _:
                world.clock.seconds += 1e-3
        residency.check()
        evictable = residency.evictable()
        assert residency.evictable_pages() == sum(each.pages for each in evictable)
        assert residency.evictable_pages(besides=name) == sum(each.pages for each in evictable if each.adapter != name)
