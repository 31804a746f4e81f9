"""What is left of a caller's limits, in the headers that OpenAI's clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.allowance import Headroom

MINUTE_S = 60


def limit_headers(room: Headroom) -> dict[str, str]:
    """``x-ratelimit-limit-requests``, ``-remaining-``, ``-reset-``, and the same for tokens; nothing for what has no limit."""
    headers: dict[str, str] = {}
    for kind, limit, remaining, reset_s in (
        ("requests", room.limit_requests, room.remaining_requests, room.reset_requests_s),
        ("tokens", room.limit_tokens, room.remaining_tokens, room.reset_tokens_s),
    ):
        if limit is not None and reset_s is not None:
            headers[f"x-ratelimit-limit-{kind}"] = str(limit)
            headers[f"x-ratelimit-remaining-{kind}"] = str(remaining)
            headers[f"x-ratelimit-reset-{kind}"] = duration(reset_s)
    return headers


def duration(seconds: float) -> str:
    """``250ms``, ``12.5s``, ``6m0s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    minutes, rest = divmod(round(seconds, 3), MINUTE_S)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
