"""``python -m engine.bench mixed|flat|load|naive|fair|starve|evict|sched|registry [--json]``: measure and tell."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from engine.bench.evict import evict
from engine.bench.fair import fair
from engine.bench.figures import as_json, table
from engine.bench.flat import flat
from engine.bench.load import load
from engine.bench.machine import machine_facts
from engine.bench.mixed import mixed
from engine.bench.naive import naive
from engine.bench.options import parse_options
from engine.bench.peers import PeerMissing
from engine.bench.registry import registry
from engine.bench.rig import open_rig
from engine.bench.sched import sched
from engine.bench.starve import starve
from engine.errors import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.bench.figures import Figure
    from engine.bench.options import Mode, Options
    from engine.bench.rig import Rig

MODES: dict[Mode, Callable[[Rig], list[Figure]]] = {"mixed": mixed, "flat": flat, "load": load, "naive": naive}
WITHOUT_MODEL: dict[Mode, Callable[[int], list[Figure]]] = {"fair": fair, "starve": starve, "evict": evict, "sched": sched}
"""By seed; they need no base."""
WITH_OWN_BASE: dict[Mode, Callable[[Options], list[Figure]]] = {"registry": registry}


def main(arguments: Sequence[str]) -> int:
    """Run the modes in order. Returns 0, or 1 with the reason on standard error when something needed is missing."""
    options = parse_options(arguments)
    try:
        measure(options)
    except PeerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    except LoradeckError as refusal:
        print(refusal.message, file=sys.stderr)
        return 1
    return 0


def measure(options: Options) -> None:
    """A table a mode; with ``--json`` then one object: a single mode's figures at its top, or each mode's under its name."""
    rig = open_rig(options) if MODES.keys() & set(options.modes) else None
    machine = machine_facts()
    told: dict[str, dict[str, object]] = {}
    for mode in options.modes:
        figures = _figures(mode, options, rig)
        print(table(mode, figures), end="\n\n", flush=True)
        told[mode] = as_json(figures)
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    if options.json:
        run = {
            "seed": options.seed,
            "rows": options.rows,
            "prompt_tokens": options.prompt_tokens,
            "new_tokens": options.new_tokens,
            "repeats": options.repeats,
        }
        figures_of = {"mode": options.modes[0], **told[options.modes[0]]} if len(told) == 1 else told
        print(json.dumps({**figures_of, "run": run, "machine": machine}))


def _figures(mode: Mode, options: Options, rig: Rig | None) -> list[Figure]:
    if mode in WITHOUT_MODEL:
        return WITHOUT_MODEL[mode](options.seed)
    if mode in WITH_OWN_BASE:
        return WITH_OWN_BASE[mode](options)
    assert rig is not None, f"{mode} was asked for, and no rig was opened"
    return MODES[mode](rig)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
