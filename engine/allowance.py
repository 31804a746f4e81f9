"""How much a tenant or an API key may have. None is no limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from engine.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Limits of one tenant or one key; both hold where a request has both.

    ``max_running``, ``max_kv_pages`` and ``max_adapter_pages`` make requests wait (``tenant_limit``); the others refuse with 429.
    """

    weight: float = 1.0
    """Share of a contended engine relative to other tenants; of a key it means nothing."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt and output tokens."""
    max_running: int | None = None
    """Requests in the batch at once."""
    max_waiting: int | None = None
    """Requests that may wait at once."""
    max_kv_pages: int | None = None
    max_adapter_pages: int | None = None
    """Pages on the device of adapters that its running requests hold."""
    max_tokens: int | None = None
    """Output tokens of one request."""
    monthly_tokens: int | None = None
    """Prompt and output tokens of a calendar month, UTC."""


UNLIMITED = Allowance()


class Excess(NamedTuple):
    """What one request needs of a limit that it is over even when nothing else runs."""

    scope: str
    """``tenant acme`` or ``key 3f…``."""
    limit: Literal["max_kv_pages", "max_adapter_pages"]
    needed: int
    most: int

    def refusal(self) -> InvalidRequest:
        """It names the limit and both numbers: waiting does not help."""
        what = "keys and values" if self.limit == "max_kv_pages" else "its adapter"
        message = f"The request needs {self.needed} pages for {what}; {self.scope} may hold {self.most}."
        code = f"{self.limit.removeprefix('max_')}_over_limit"
        return InvalidRequest(message, code=code, param=self.limit, expected=f"at most {self.most}", found=self.needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What was counted against the limits of one tenant or one key."""

    requests_minute: int = 0
    tokens_minute: int = 0
    """With what calls under way may still take, as for the limit."""
    tokens_month: int = 0
    """Of calls that have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What is left of the limits by the minute, and when all of it will be. None is no limit."""

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None


def narrowest(rooms: Sequence[Headroom]) -> Headroom:
    """Of requests and of tokens the room with the least left."""
    by_requests = min((room for room in rooms if room.remaining_requests is not None), key=_requests_left, default=Headroom())
    by_tokens = min((room for room in rooms if room.remaining_tokens is not None), key=_tokens_left, default=Headroom())
    return replace(
        by_requests,
        limit_tokens=by_tokens.limit_tokens,
        remaining_tokens=by_tokens.remaining_tokens,
        reset_tokens_s=by_tokens.reset_tokens_s,
    )


def _requests_left(room: Headroom) -> int:
    return room.remaining_requests or 0


def _tokens_left(room: Headroom) -> int:
    return room.remaining_tokens or 0
