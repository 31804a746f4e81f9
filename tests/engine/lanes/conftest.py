"""An engine on TINY with one adapter, and a comparison on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.lanes.cold_warm import ColdWarm
from engine.lanes.results import LANES, ColdWarmOptions, ColdWarmState
from tests.engine.integration.serving import PROMPT, Served, serve
from tests.tiny import MODULES, AdapterRecipe

END_S = 120.0


@dataclass(slots=True, kw_only=True)
class Bench:
    """A served adapter ``x`` and a comparison of it."""

    served: Served
    cold_warm: ColdWarm

    def begin(self, **options: object) -> None:
        """Start; three of TINY's tokens a run, two repeats, unless told otherwise."""
        fields: dict[str, object] = {"adapter": "x", "prompt_ids": PROMPT, "repeats": 2, "new_tokens": 8, "lanes": LANES} | options
        self.cold_warm.start(ColdWarmOptions(**fields))  # type: ignore[arg-type]

    def until(self, holds: Callable[[ColdWarmState], bool]) -> ColdWarmState:
        """Wait until the comparison's state is as wanted."""
        end_s = time.monotonic() + END_S
        while not holds(state := self.cold_warm.state):
            assert time.monotonic() < end_s, state
            time.sleep(0.01)
        return state

    def run(self, **options: object) -> ColdWarmState:
        """A whole comparison."""
        self.begin(**options)
        return self.until(lambda state: state.phase == "idle")


@pytest.fixture
def bench(tiny_base: Path, tmp_path: Path) -> Iterator[Bench]:
    """One adapter on all modules, registered as ``x`` and on disk."""
    with ExitStack() as running:
        served = running.enter_context(serve(tiny_base, tmp_path / "data"))
        folder = served.folder("x", AdapterRecipe(seed=21, rank=20, modules=MODULES))
        served.engine.register(str(folder), alias="x")
        served.engine.control("evict", "x", tier="disk").result(20)
        yield Bench(served=served, cold_warm=ColdWarm(served.engine))
