"""Where a request's time went, for the client's headers and for the log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.api.trace import trace_of

if TYPE_CHECKING:
    from fastapi import Request

    from engine.api.generation import Generation
    from engine.request import RequestRecord


def server_timing(records: list[RequestRecord]) -> dict[str, str]:
    """``Server-Timing`` in milliseconds; of several prompts, the longest of each phase."""
    if not records:
        return {}
    phases = (
        _longest("queue", [record.queue_s for record in records]),
        _longest("adapter_load", [record.adapter_load_s for record in records]),
        _longest("prefill", [record.prefill_s for record in records]),
        _longest("decode", [record.decode_s for record in records]),
    )
    return {"Server-Timing": ", ".join(filter(None, phases))}


def _longest(name: str, times_s: Sequence[float | None]) -> str:
    known_s = [seconds for seconds in times_s if seconds is not None]
    return f"{name};dur={max(known_s) * 1000:.1f}" if known_s else ""


def answer_headers(generation: Generation) -> dict[str, str]:
    """What is known when the answer is whole: where its time went, and which version gave it."""
    return {**generation.headers, **server_timing(generation.records), **version_header(generation)}


def streaming_headers(request: Request, generation: Generation) -> dict[str, str]:
    """What is known when the first token goes out: how long that took, and which version answers."""
    waited_s = time.perf_counter() - trace_of(request).begun_s
    return {**generation.headers, "Server-Timing": f"first_token;dur={waited_s * 1000:.1f}", **version_header(generation)}


def version_header(generation: Generation) -> dict[str, str]:
    """``X-Loradeck-Version``: which version answers, also where ``model`` is an alias with a canary; none for the base."""
    return {"X-Loradeck-Version": ", ".join(generation.versions)} if generation.versions else {}


def note_outcome(request: Request, generation: Generation) -> None:
    """Put what was served into the request's log line."""
    usage = generation.usage()
    trace_of(request).notes.update(
        tenant=generation.call.caller.home,
        model=generation.model,
        version=generation.fingerprint,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
    )
