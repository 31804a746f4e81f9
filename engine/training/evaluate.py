"""``python -m engine.training.evaluate --all | FOLDER… | --at URL ALIAS…``: base and adapters answer evaluation sets; both scores."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import LoradeckError
from engine.settings import Settings
from engine.training.exam import Marks, exam_engine, examine
from engine.training.served import Served
from engine.voices.shelf import demo_voices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m engine.training.evaluate", description=__doc__)
    parser.add_argument("adapters", nargs="*", metavar="FOLDER", help="adapter folders that carry an evaluation set; with --at, aliases")
    parser.add_argument("--at", metavar="URL", help="a running Loradeck, whose registered adapters are asked")
    parser.add_argument("--all", action="store_true", help="the demo adapters")
    parser.add_argument("--base", default="demo", help="folder of the base, or 'demo'")
    parser.add_argument("--data", type=Path, help="Loradeck's data folder")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args(arguments)
    if not options.adapters and not options.all:
        parser.error("name an adapter's folder, or --all")
    try:
        marks = _at(options) if options.at else _here(options)
    except LoradeckError as error:
        print(error.message, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([each.as_json() for each in marks]))
    return 0


def _here(options: argparse.Namespace) -> list[Marks]:
    """By an engine of our own."""
    folders = {Path(folder).resolve().name: Path(folder) for folder in options.adapters}
    if options.all:
        folders |= {voice.alias: voice.folder for voice in demo_voices()}
    settings = Settings(base=options.base, **({"data": options.data} if options.data else {}))
    with exam_engine(settings) as engine:
        return _table(partial(examine, engine, folder, name) for name, folder in folders.items())


def _at(options: argparse.Namespace) -> list[Marks]:
    """By a running one."""
    served = Served(options.at)
    aliases = options.adapters + ([voice.alias for voice in demo_voices()] if options.all else [])
    return _table(partial(served.examine, alias) for alias in aliases)


def _table(exams: Iterable[Callable[[], Marks]]) -> list[Marks]:
    """Run one after the other, and print each row as soon as it is known."""
    print(HEAD)
    marks = []
    for exam in exams:
        marks.append(exam())
        print(row_of(marks[-1]), flush=True)
    return marks


HEAD = f"{'adapter':<20} {'rank':>4} {'MB':>6} {'metric':<9} {'rows':>4} {'base':>6} {'adapter':>8}  modules"


def row_of(marks: Marks) -> str:
    """A row of the table."""
    scores = f"{marks.base_score:>6.0%} {marks.adapter_score:>8.0%}"
    row = f"{marks.adapter:<20} {marks.rank:>4} {marks.megabytes:>6.2f} {marks.metric:<9} {marks.rows:>4} {scores}"
    return f"{row}  {' '.join(module.removesuffix('_proj') for module in marks.modules)}"


if __name__ == "__main__":
    raise SystemExit(main())
