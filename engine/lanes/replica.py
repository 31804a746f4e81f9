"""A replica of its own: this program in a process that loads the base and one adapter, answers one request, and says when what was done.

``python -m engine.lanes.replica`` reads one line of JSON, writes lines of JSON, and ends with its last line or with its standard input,
so that it never outlives who started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import psutil

from engine.engine import Engine
from engine.errors import LoradeckError
from engine.ids import RequestId
from engine.request import Request, SamplingParams
from engine.settings import Settings

CHECKING, LOADING = "Checking the base's weights", "Loading the base"
"""What the engine calls the parts of its start after the kernels: proving the weights, and reading them."""


def main() -> int:
    """Answer the order on standard input. Returns 0, or 1 after a line that says what was refused."""
    say("imported")
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    engine = Engine(Settings(**{**order["settings"], "data": Path(order["settings"]["data"])}))
    try:
        engine.start(heard)
        say("ready")
        asyncio.run(answer(engine, order))
    except LoradeckError as refusal:
        say("refused", message=refusal.message)
        return 1
    finally:
        engine.stop()
    return 0


async def answer(engine: Engine, order: dict[str, Any]) -> None:
    """Greedy, to the end; the first token is said at once."""
    request = Request(
        id=RequestId("replica"),
        model=order["model"],
        prompt_ids=tuple(order["prompt_ids"]),
        sampling=SamplingParams(max_tokens=order["new_tokens"], temperature=0.0),
    )
    stream = engine.submit(request)
    token_ids: list[int] = []
    async for chunk in stream:
        if chunk.token_ids and not token_ids:
            say("token")
        token_ids += chunk.token_ids
    record = stream.record
    say(
        "done",
        token_ids=token_ids,
        prefill_s=record.prefill_s if record else None,
        process_bytes=psutil.Process().memory_info().rss,
    )


def heard(what: str, share: float | None) -> None:
    """The engine starts: its kernels are ready when it turns to the base, whose weights are read once their share is whole."""
    if what == CHECKING:
        say("kernels")
    if what == LOADING and share is not None and share >= 1.0:
        say("base")


def say(event: str, **facts: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Standard input ends when who started this process ends."""
    sys.stdin.read()
    os._exit(2)


if __name__ == "__main__":
    sys.exit(main())
