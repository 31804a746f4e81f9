"""What a run of the bench may choose: flags, read once."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from engine.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Mode = Literal["mixed", "flat", "load", "naive", "fair", "starve", "evict", "sched", "registry"]

ROWS, LISTED = 16, 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run. Defaults are those that published figures use."""

    modes: tuple[Mode, ...]
    json: bool
    base: str
    data: Path
    memory: str
    threads: int
    rows: int
    """Requests at once."""
    listed: int
    """Rows of the registry's list."""
    adapters: int
    prompt_tokens: int
    new_tokens: int
    repeats: int
    peers: bool
    vllm_python: Path | None
    registered: int
    loads: int
    max_replicas: int
    seed: int
    settle_s: float


def parse_options(arguments: Sequence[str]) -> Options:
    """Flags to options; exits with usage on what it does not know."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench", description="Measure on the CPU, against peers, in one run.")
    parser.add_argument("modes", nargs="+", choices=get_args(Mode), metavar="|".join(get_args(Mode)), help="what to measure, in this order")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    _add_engine(parser)
    _add_traffic(parser)
    parser.add_argument("--seed", type=_at_least(0), default=7, help="fair, starve, evict: of the arrivals (default: %(default)s)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave out transformers and peft")
    parser.add_argument("--vllm-python", type=Path, help="interpreter of an environment with vLLM for CPU, to measure against it too")
    given = vars(parser.parse_args(arguments))
    rows = given["rows"]
    given |= {"modes": tuple(dict.fromkeys(given["modes"])), "rows": rows or ROWS, "listed": rows or LISTED}
    return Options(**given)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    data = Settings.model_fields["data"].get_default(call_default_factory=True, validated_data={})
    parser.add_argument("--base", default="demo", help="folder of a Hugging Face decoder, or 'demo' (default)")
    parser.add_argument("--data", type=Path, default=data, help="where models are; the bench keeps its own below DIR/bench (%(default)s)")
    parser.add_argument("--memory", default="4GiB", help="device budget of each engine (default: %(default)s)")
    parser.add_argument("--threads", type=_at_least(0), default=0, help="of torch, for all contenders; 0: all cores (default)")


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    rows = f"requests at once, each with its own adapter (default: {ROWS}); registry: rows of the list (default: {LISTED})"
    parser.add_argument("--rows", type=_at_least(1), help=rows)
    parser.add_argument("--prompt-tokens", type=_at_least(1), default=64, help="(default: %(default)s)")
    parser.add_argument("--new-tokens", type=_at_least(1), default=64, help="(default: %(default)s)")
    parser.add_argument("--repeats", type=_at_least(1), default=3, help="turns of each contender; medians count (default: %(default)s)")
    parser.add_argument("--registered", type=_at_least(1), default=2000, help="flat: adapters of the full engine (default: %(default)s)")
    parser.add_argument("--adapters", type=_at_least(1), default=5000, help="registry: adapters of the operation (default: %(default)s)")
    parser.add_argument("--loads", type=_at_least(1), default=8, help="load: loads timed from each tier (default: %(default)s)")
    parser.add_argument("--max-replicas", type=_at_least(1), default=4, help="naive: replicas started at most (default: %(default)s)")
    parser.add_argument("--settle-s", type=float, default=0.5, help="pause before each timed run (default: %(default)s)")


def _at_least(least: int) -> Callable[[str], int]:
    """A reader of whole numbers that are not smaller."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            message = f"{text!r} is not a whole number from {least} on"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return read
