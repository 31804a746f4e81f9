"""The registry's bench at a small size: its keys and counts, never its timings."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from engine.bench import registry
from engine.bench.__main__ import main
from engine.bench.listing import WHOLE, Listing, pages, restart
from engine.bench.tiny_base import write_tiny_base
from engine.settings import Settings
from engine.tokenizing.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON of a run with a few adapters. The start without rows, of which nothing is looked at, is in this process."""
    text, fresh = io.StringIO(), registry._fresh

    def half(settings: Settings, *, repeats: int = 0) -> Listing:
        return fresh(settings, repeats=3) if repeats else restart(settings, tenant="", repeats=0)

    with contextlib.redirect_stdout(text), patch.object(registry, "_fresh", half):
        sizes = ["--adapters", "5", "--rows", "130", "--threads", "1", "--data", str(tmp_path_factory.mktemp("bench"))]
        assert main(["registry", "--json", *sizes]) == 0
    found: dict[str, Any] = json.loads(text.getvalue().splitlines()[-1])
    return found


def test_every_figure_is_there(told: dict[str, Any]) -> None:
    """As many rows as asked for, a p50 and a p95 of every page, and answers that name every row."""
    assert (told["adapters"], told["rows"]) == (5, 130)
    assert told["per_s"] == pytest.approx(5 / told["seconds"])
    assert set(told["page"]) == {*pages(130, "t"), "slowest", "slowest_p95_ms"}
    assert told["page"]["slowest_p95_ms"] == max(told["page"][name]["p95_ms"] for name in pages(130, "t"))
    assert all(0 < told["page"][name]["p50_ms"] <= told["page"][name]["p95_ms"] for name in pages(130, "t"))
    assert set(told["whole"]) == set(WHOLE)
    assert told["start"]["seconds"] > 0


def test_its_base_is_one(tmp_path: Path) -> None:
    """Its tokenizer gives text back, and a folder that is there is kept."""
    folder = write_tiny_base(tmp_path / "base")
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.decode(tokenizer.encode("Ärger, 100 %")) == "Ärger, 100 %"
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert write_tiny_base(folder) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
