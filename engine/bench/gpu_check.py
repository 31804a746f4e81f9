"""``python -m engine.bench.gpu_check``: on a machine with CUDA, a mixed batch against solo runs, step times and graph captures."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from engine.bench.adapters import write_mix
from engine.bench.options import parse_options
from engine.bench.rig import bring, open_rig, register, run_rows
from engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.bench.rig import Rig
    from engine.step_record import StepRecord

ROWS, PROMPT_TOKENS, NEW_TOKENS = 16, 64, 64


def main(arguments: Sequence[str]) -> int:
    """Print the figures, and write them to ``--out``. Returns 1 when a solo run disagrees, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench.gpu_check", description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the figures here")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.stdout.write("no CUDA device\n")
        return 2
    rig = open_rig(dataclasses.replace(parse_options(["mixed"]), rows=ROWS, prompt_tokens=PROMPT_TOKENS, new_tokens=NEW_TOKENS))
    lines, same = check(rig)
    text = "\n".join([torch.cuda.get_device_name(), *lines]) + "\n"
    sys.stdout.write(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return 0 if same else 1


def check(rig: Rig) -> tuple[list[str], bool]:
    """Figures by line, and whether every row of the mixed batch gave its solo tokens."""
    sources = write_mix(rig.folder / "sources", rig.spec, "heavy", ROWS)
    engine = Engine(rig.settings("gpu").model_copy(update={"device": "cuda", "memory": 0}))
    engine.start()
    try:
        register(engine, sources)
        bring(engine, sources)
        models = [source.alias for source in sources]
        prompts = rig.traffic(0).prompts()
        mixed = run_rows([engine] * ROWS, models, prompts, NEW_TOKENS)
        solo = [run_rows([engine], [model], [prompt], NEW_TOKENS).tokens[0] for model, prompt in zip(models, prompts, strict=True)]
        same = sum(a == b for a, b in zip(mixed.tokens, solo, strict=True))
        mark = engine.snapshot().step
        again = run_rows([engine] * ROWS, models, prompts, NEW_TOKENS)
        base_mark = engine.snapshot().step
        base = run_rows([engine] * ROWS, [engine.base_name] * ROWS, prompts, NEW_TOKENS)
        lines = [
            f"mixed equals solo: {same} of {ROWS} rows",
            f"mixed {ROWS * NEW_TOKENS / again.seconds:.0f} tok/s, base {ROWS * NEW_TOKENS / base.seconds:.0f} tok/s",
            f"decode step, median: mixed {decode_ms(engine.steps(mark)):.2f} ms, base {decode_ms(engine.steps(base_mark)):.2f} ms",
            *captures(engine),
        ]
    finally:
        engine.stop()
    return lines, same == ROWS


def decode_ms(steps: Sequence[StepRecord]) -> float:
    """Median duration of the full decode steps."""
    full = [step.duration_s for step in steps if len(step.rows) == ROWS and all(row.phase == "decode" for row in step.rows)]
    return 1e3 * statistics.median(full) if full else float("nan")


def captures(engine: Engine) -> list[str]:
    """A line for each captured graph."""
    return [
        f"graph of {size} rows{' with adapters' if with_adapters else ''}: captured in {taken_s:.2f} s"
        for (size, with_adapters), taken_s in sorted(engine.graph_capture_s.items())
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
