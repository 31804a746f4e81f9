"""The bench's structure, keys and labels on TINY; never its timings."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.bench.__main__ import main
from engine.bench.equal_text import first_difference
from engine.bench.figures import Figure, as_json, ratio, table
from engine.bench.gaps import Gap, StepsAround, percentile, split
from engine.bench.options import parse_options
from engine.bench.stops import stops_of_machine
from engine.bench.timing import Contender, Outcome, Traffic, interleave

TRAFFIC = Traffic(seed=1, rows=2, prompt_tokens=5, new_tokens=8, vocab_size=320)
ROWS = 4

FAKE_VLLM = '''
"""Answers as vLLM would, with the row's adapter number as every token."""
from types import SimpleNamespace
__version__ = "0.0"
print("chatter on standard output")
class SamplingParams:
    def __init__(self, **options):
        self.max_tokens = options["max_tokens"]
class LLM:
    def __init__(self, **options):
        assert options["dtype"] == "float32" and options["enforce_eager"] and options["max_lora_rank"] == 64
    def generate(self, prompts, sampling, lora_request, use_tqdm):
        assert len(prompts) == len(lora_request)
        numbers = [0 if lora is None else lora.number for lora in lora_request]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=[n] * sampling.max_tokens)]) for n in numbers]
'''
FAKE_LORA = """
class LoRARequest:
    def __init__(self, name, number, path):
        self.number = number
"""


@pytest.fixture(scope="module")
def run_bench(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Runs the bench on TINY with four rows of four tokens; its lines."""
    data = tmp_path_factory.mktemp("bench")
    sizes = (
        "--memory 96MiB --threads 1 --prompt-tokens 12 --new-tokens 4 --repeats 1 --settle-s 0 --registered 9 --loads 2 --max-replicas 2"
    )

    def run(*arguments: str) -> list[str]:
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            code = main([*arguments, "--base", str(tiny_base), "--data", str(data), "--rows", str(ROWS), *sizes.split()])
        assert code == 0
        return told.getvalue().splitlines()

    return run


@pytest.fixture(scope="module")
def told(run_bench: Callable[..., list[str]]) -> dict[str, Any]:
    """The JSON of all modes in one run, peers included."""
    found: dict[str, Any] = json.loads(run_bench("mixed", "flat", "load", "naive", "--json")[-1])
    return found


def test_mixed_has_every_figure(told: dict[str, Any]) -> None:
    """The heavy mix lies at the top, the light one below, and what was not asked for is null."""
    mixed = told["mixed"]
    for mix in (mixed, mixed["light"]):
        assert mix["tokens_per_s"] > 0
        assert mix["ratio_vs_base"] == pytest.approx(mix["tokens_per_s"] / mix["base_tokens_per_s"])
        assert mix["ratio_vs_peft"] == pytest.approx(mix["tokens_per_s"] / mix["peft_tokens_per_s"])
        assert mix["vllm_tokens_per_s"] is None
        assert mix["ratio_vs_vllm"] is None
    assert mixed["ratio_base_vs_transformers"] == pytest.approx(mixed["base_tokens_per_s"] / mixed["transformers_tokens_per_s"])
    assert mixed["lora_off"]["cost"] == pytest.approx(1 - mixed["base_tokens_per_s"] / mixed["lora_off"]["bare_tokens_per_s"])


def test_mixed_says_what_the_peers_say(told: dict[str, Any]) -> None:
    """Greedy text of every row equals the peer's, or the call was close."""
    for compared in told["mixed"]["equal_text"].values():
        assert compared["rows"] == ROWS
        assert compared["close_calls_only"]


def test_flat_registers_them_all(told: dict[str, Any]) -> None:
    """Few are the traffic's adapters; many are as many as asked for."""
    assert (told["flat"]["few_registered"], told["flat"]["many_registered"]) == (ROWS, 9)
    assert told["flat"]["ratio"] > 0


def test_load_has_phases_and_gaps(told: dict[str, Any]) -> None:
    """A load from disk is read, verified and copied, one from host copied; gaps are counted beside both and in the quiet."""
    alone, beside = told["load"]["alone"], told["load"]["beside"]
    assert {"read_ms", "verify_ms", "copy_ms", "total_ms"} <= set(alone["disk"])
    assert {"copy_ms", "total_ms"} <= set(alone["host"])
    assert "read_ms" not in alone["host"]
    for kind in ("quiet", "host", "disk", "evict"):
        assert beside[kind]["gaps"] > 0
        assert beside[kind]["change_steps"] == pytest.approx(beside[kind]["max_gap_steps"] - 1)


def test_naive_tells_measured_from_computed(told: dict[str, Any]) -> None:
    """Two replicas ran; what all would take is arithmetic, and says so."""
    naive = told["naive"]
    assert naive["replicas"]["started"] == 2
    assert naive["replicas"]["bytes_all"] == naive["replicas"]["bytes_each"] * ROWS
    assert {key for key, how in naive["how"].items() if how == "computed"} == {
        f"replicas.{key}" for key in ("fit", "bytes_all", "bytes_ratio", "ratio")
    }
    for way in ("one_at_a_time", "merge"):
        assert naive[way]["ratio"] == pytest.approx(naive["tokens_per_s"] / naive[way]["tokens_per_s"])


def test_every_number_is_labelled(told: dict[str, Any]) -> None:
    """No figure without a word on how it is known."""

    def leaves(tree: dict[str, Any], at: str = "") -> Iterator[str]:
        for key, value in tree.items():
            yield from leaves(value, f"{at}{key}.") if isinstance(value, dict) else [f"{at}{key}"]

    for mode in ("mixed", "flat", "load", "naive"):
        figures = {key: value for key, value in told[mode].items() if key not in {"how", "spread"}}
        assert set(leaves(figures)) == set(told[mode]["how"])
        assert set(told[mode]["how"].values()) <= {"measured", "computed"}


def test_machine_facts(told: dict[str, Any]) -> None:
    """A figure comes with what it was measured on."""
    assert {"cpu", "threads", "torch", "date", "transformers", "peft"} <= set(told["machine"])
    assert told["run"]["rows"] == ROWS


def test_one_mode_against_vllm(run_bench: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mode's figures lie at the top of the JSON; vLLM answers in a process of its own and peers may be left out."""
    (tmp_path / "vllm" / "lora").mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").write_text(FAKE_VLLM)
    (tmp_path / "vllm" / "lora" / "request.py").write_text(FAKE_LORA)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lines = run_bench("mixed", "--json", "--no-peers", "--vllm-python", sys.executable)
    told = json.loads(lines[-1])
    assert told["mode"] == "mixed"
    assert told["vllm_version"] == "0.0"
    assert told["ratio_vs_vllm"] == pytest.approx(told["tokens_per_s"] / told["vllm_tokens_per_s"])
    assert told["light"]["vllm_tokens_per_s"] > 0
    assert told["peft_tokens_per_s"] is None


@pytest.mark.parametrize(("python", "words"), [("/nowhere/python", "cannot be run"), (sys.executable, "vLLM ended")])
def test_a_missing_vllm_is_said(tiny_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], python: str, words: str) -> None:
    """An interpreter that is not there or has no vLLM ends the run with a sentence, not a traceback."""
    small = "--memory 96MiB --threads 1 --rows 1 --prompt-tokens 4 --new-tokens 1 --settle-s 0"
    places = ["--base", str(tiny_base), "--data", str(tmp_path)]
    assert main(["mixed", "--no-peers", "--vllm-python", python, *places, *small.split()]) == 1
    assert words in capsys.readouterr().err


def test_contenders_take_turns() -> None:
    """Warm once, few tokens; then ours, peer, ours, peer, each repetition with prompts of its own, the same for both."""
    seen: list[tuple[str, int, int]] = []

    def contender(name: str) -> Contender:
        def run(traffic: Traffic) -> Outcome:
            seen.append((name, traffic.seed, traffic.new_tokens))
            return Outcome(seconds=2.0, tokens=((0,) * traffic.new_tokens,) * traffic.rows)

        return Contender(name=name, run=run)

    series = interleave(
        [contender("ours"), contender("peer")], traffic=lambda seed: dataclasses.replace(TRAFFIC, seed=seed), repeats=2, settle_s=0
    )
    turns = [("ours", 1), ("peer", 1), ("ours", 2), ("peer", 2)]
    assert seen == [call for name, repetition in turns for call in ((name, 0, 4), (name, repetition, 8))]
    assert series["ours"].tokens_per_s == 8.0


def test_fewer_tokens_are_not_timed() -> None:
    """A contender that stops early would look fast."""
    lazy = Contender(name="lazy", run=lambda traffic: Outcome(seconds=1.0, tokens=((0,),) * traffic.rows))
    with pytest.raises(AssertionError, match="lazy gave"):
        interleave([lazy], traffic=lambda _seed: TRAFFIC, repeats=1, settle_s=0)


def test_traffic_is_the_same_for_a_seed() -> None:
    """Everyone is asked the same; another repetition asks something else."""
    assert TRAFFIC.prompts() == TRAFFIC.prompts()
    assert TRAFFIC.prompts() != dataclasses.replace(TRAFFIC, seed=2).prompts()
    assert all(80 <= token < 240 for row in TRAFFIC.prompts() for token in row)


def test_gaps_are_split_by_windows() -> None:
    """A gap that shares a moment with a window is inside."""
    gaps = [Gap(since_s=float(start), until_s=start + 1.0) for start in range(4)]
    assert split(gaps, [(1.5, 1.6)]) == ([gaps[1]], [gaps[0], *gaps[2:]])
    assert split(gaps, []) == ([], gaps)


def test_a_step_is_that_of_its_time() -> None:
    """Where steps grow from 1 to 10 seconds, a gap twice as long as its neighbours is two steps, early and late."""
    quiet = [Gap(since_s=100.0 * number, until_s=100.0 * number + number) for number in range(1, 11)]
    around = StepsAround(quiet, near=3)
    for number in range(2, 10):
        assert around.steps(Gap(since_s=100.0 * number, until_s=102.0 * number)) == pytest.approx(2.0)
    assert StepsAround([], near=3).steps(quiet[0]) is None


def test_stops_of_the_machine_are_seen_from_outside() -> None:
    """What holds the other process is a stop, in our clock; that this one is busy is none."""
    with stops_of_machine() as stops:
        (watcher,) = (child for child in psutil.Process().children() if "stops.py" in child.cmdline()[-1])
        busy_s = (time.perf_counter(), time.perf_counter() + 0.3)
        while time.perf_counter() < busy_s[1]:
            pass
        watcher.suspend()
        held_s = time.perf_counter()
        time.sleep(0.2)
        freed_s = time.perf_counter()
        watcher.resume()
    assert any(since_s <= held_s + 0.01 and until_s >= freed_s for since_s, until_s in stops)
    assert sum(until_s - since_s for since_s, until_s in stops if until_s < busy_s[1]) < 0.3


def test_percentile_is_a_value_that_was_seen() -> None:
    """The smallest that so many do not exceed; none of none."""
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([3.0, 1.0], 0.99) == 3.0
    assert percentile([], 0.5) is None


def test_figures_nest_by_key() -> None:
    """A dot goes a level down; labels and ranges keep the whole key."""
    figures = [
        Figure(key="a", label="A", value=1.5, spread=(1.0, 2.0)),
        Figure(key="b.c", label="C", value=None, how="computed"),
    ]
    assert as_json(figures) == {"a": 1.5, "b": {"c": None}, "how": {"a": "measured", "b.c": "computed"}, "spread": {"a": [1.0, 2.0]}}
    assert "1.00 – 2.00" in table("title", figures)
    assert ratio(1.0, 0.0) is None


def test_first_difference() -> None:
    """Where two texts part; nowhere when they are one."""
    assert first_difference([1, 2, 3], [1, 5, 3]) == 1
    assert first_difference([1], [1]) is None


@pytest.mark.parametrize("arguments", [[], ["fast"], ["mixed", "--rows", "0"], ["mixed", "--rows", "x"]])
def test_bad_flags_show_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What it does not know ends with usage."""
    with pytest.raises(SystemExit):
        parse_options(arguments)
    assert "usage: python -m engine.bench" in capsys.readouterr().err
