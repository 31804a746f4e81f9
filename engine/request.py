"""What a tenant asked, and what comes back. Frozen values; tokens are ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.ids import DEFAULT_TENANT, AdapterId, RequestId, TenantId, Tier

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen; ranges are checked by ``engine.api``, and again by ``Engine.submit``."""

    max_tokens: int = 16
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all."""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    """None: none. k: the chosen token's and the k best, from the unscaled distribution."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    ignore_eos: bool = False
    n: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. ``model`` is an alias, a version id or the base's name; the router resolves it."""

    id: RequestId
    model: str
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams = SamplingParams()
    tenant: TenantId = DEFAULT_TENANT
    key: str | None = None
    """Public id of the API key it came with."""
    reach: Literal["own", "all"] = "own"
    """Whose names ``model`` may be: the tenant's and the shared ones, or every tenant's."""
    priority: int = 0
    """Among its tenant's requests: the lower goes first."""
    echo_logprobs: bool = False
    """Also score the prompt's tokens (completions ``echo`` with ``logprobs``)."""
    prefix_cache: Literal["use", "bypass"] = "use"
    """``bypass`` computes every prompt token anew and leaves no page for others: a prefill that is measured is then a real one."""

    @property
    def scope(self) -> TenantId | None:
        """Whose names count, as ``Engine.resolve`` takes it."""
        return None if self.reach == "all" else self.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One position's natural-log probabilities."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """The k best (token id, logprob), best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChunk:
    """What one step gave one choice. Chunks of a choice come in order; the last has a ``finish_reason``.

    ``text`` never ends inside a character and never holds part of a matched stop string, so it may be empty while
    ``token_ids`` is not, and the reverse on the last chunk.
    """

    index: int
    token_ids: tuple[int, ...] = ()
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Of the prompt's tokens from the second on, whole, on a choice's first chunk; only with ``Request.echo_logprobs``."""
    finish_reason: FinishReason | None = None
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One finished request, measured. Times are seconds; None is not known (never reached)."""

    id: RequestId
    tenant: TenantId
    model: str
    adapter: AdapterId | None
    tier_at_arrival: Tier | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reason: FinishReason
    queue_s: float
    """Arrival to first scheduled step, less ``adapter_load_s``."""
    adapter_load_s: float
    """Time waited for this request's adapter to come to the device."""
    prefill_s: float | None
    """First scheduled step to first token."""
    decode_s: float | None
    ttft_s: float | None
    e2e_s: float
    first_step: int
    last_step: int
    arrived_s: float
    """Monotonic seconds, comparable with ``EngineSnapshot.taken_s``."""
    waits: tuple[tuple[str, float], ...] = ()
    """(reason code, seconds waited for it), largest first."""
    preemptions: int = 0
