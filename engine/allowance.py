"""How much a tenant or an API key may have. None is no limit."""

from __future__ import annotations

from dataclasses import dataclass


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
