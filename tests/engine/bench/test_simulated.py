"""The figures that need no model, in small: the same scheduler, pages and eviction, on a simulated clock."""

from __future__ import annotations

import json
import random

import pytest

from engine.adapters.entry import AdapterEntry
from engine.adapters.listener import LeftBecause, ResidencyListener
from engine.bench.__main__ import main
from engine.bench.evict import Popularity, evict
from engine.bench.fair import Crowd, fair
from engine.bench.figures import Figure, as_json
from engine.bench.sched import Queue
from engine.bench.simulated import Ask, World
from engine.bench.starve import Places, starve
from engine.memory.reclaim import Floors
from engine.scheduler.budget import Limits


def told(figures: list[Figure]) -> dict[str, float]:
    """Values by key."""
    return {figure.key: figure.value for figure in figures if isinstance(figure.value, float | int)}


def test_light_tenants_are_served_at_once() -> None:
    """A flood of one tenant does not reach the others, and nothing is lost by it; the same seed gives the same figures."""
    small = Crowd(seconds=8.0, seats=8, light_rate=3.5)
    figures = told(fair(3, small))
    assert figures["ratio"] < 0.2
    assert figures["tokens_ratio"] == pytest.approx(1.0, abs=0.03)
    assert figures == told(fair(3, small))


def test_rare_adapters_get_their_turn() -> None:
    """Draining serves them within its bound and costs next to nothing."""
    figures = told(starve(3, Places(seconds=20.0, rare_rate=0.2, drain_after_s=0.5)))
    assert figures["ratio"] < 0.5
    assert figures["tokens_ratio"] == pytest.approx(1.0, abs=0.05)


def test_no_load_is_for_nothing() -> None:
    """What came for a request that still waits is not evicted for another one's, however many adapters wait for few pages."""
    limits = Limits(max_sequences=16, max_step_tokens=64, prefill_chunk=32, max_adapters=16, page_tokens=16, drain_after_s=1e9)
    sizes = {f"a{number}": 4 for number in range(60)}
    world = World(num_pages=16 * 8, sizes=sizes, limits=limits, floors=Floors(kv=16 * 4, adapter=16 * 4))
    wasted: list[AdapterEntry] = []
    world.residency.listener = Departures(wasted)
    draw = random.Random(1)
    chosen = [draw.randrange(60) for _ in range(400)]
    asks = [Ask(at_s=0.001 * n, tenant=f"t{a % 5}", prompt_tokens=20, new_tokens=20, adapter=f"a{a}") for n, a in enumerate(chosen)]
    world.run(asks, until_s=4.0)
    assert sum(sequence.state == "finished" for sequence in world.sequences) == 400
    assert not wasted


class Departures(ResidencyListener):
    """Keeps who left the device unused while requests waited for it."""

    def __init__(self, wasted: list[AdapterEntry]) -> None:
        self._wasted = wasted

    def left_device(self, entry: AdapterEntry, because: LeftBecause) -> None:
        """It was waited for, or not."""
        del because
        if entry.unused and entry.users:
            self._wasted.append(entry)


def test_pages_and_frequency_beat_slots() -> None:
    """In the same bytes, more small adapters stay."""
    figures = told(evict(3, Popularity(adapters=100, slots=3, requests=1500, warm_up=500)))
    assert figures["pages_gdsf_hit_rate"] > figures["pages_lru_hit_rate"] > figures["slots_lru_hit_rate"]


def test_every_step_is_timed() -> None:
    """So many steps, each of which took time, with all seats taken."""
    costs, running = Queue(seats=4, waiting=10, settle=4, steps=5).step_ms(tenants=3, adapters=3)
    assert len(costs) == 5
    assert min(running) == 4
    assert all(cost > 0 for cost in costs)


def test_no_base_is_opened(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """These modes run where no model is; the last line is JSON with the seed."""
    monkeypatch.setattr("engine.bench.__main__.open_rig", None)
    monkeypatch.setattr("engine.bench.__main__.WITHOUT_MODEL", {"fair": lambda seed: [Figure(key="seed", label="", value=seed)]})
    assert main(["fair", "--json", "--seed", "5"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["mode"], line["seed"], line["run"]["seed"]) == ("fair", 5, 5)
    assert as_json([Figure(key="a.b", label="", value=1)])["a"] == {"b": 1}
