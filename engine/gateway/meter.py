"""One tenant or one key against its allowance. Its owner holds the gate's lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.allowance import UNLIMITED, Allowance, Headroom, Use
from engine.errors import InvalidRequest, Overloaded
from engine.gateway.month import Month, month_left_s
from engine.gateway.window import SPAN_S, Entry, Window

if TYPE_CHECKING:
    from engine.errors import LoradeckError

FULL_QUEUE_S = 1.0
"""After how long it makes sense to try a full queue again."""
DAY_S, SHOWN_IN_DAYS_S = 86400.0, 999.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """One moment by both clocks."""

    s: float
    """Monotonic."""
    unix: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a call asks for before it is let in."""

    prompts: int
    """Requests that it puts into the queue."""
    tokens: int
    """Prompts and all output that it may make."""
    most_output: int
    """Output tokens of one choice."""


class Meter:
    """``refusal`` looks, ``take`` counts: between the two nobody else comes."""

    def __init__(self, scope: str, allowance: Allowance = UNLIMITED) -> None:
        self.scope = scope
        """``tenant acme`` or ``key 3f…``, as refusals name it."""
        self.allowance = allowance
        self.month = Month()
        self.waiting = 0
        self._window = Window()

    def refusal(self, demand: Demand, now: Now) -> LoradeckError | None:
        """Why this call may not come in now; None when it may. Changes nothing but what time has changed."""
        self._window.pass_time(now.s)
        self.month.pass_time(now.unix)
        checks = (self._most_output, self._running, self._queue, self._requests, self._tokens, self._monthly)
        return next((refusal for check in checks if (refusal := check(demand, now)) is not None), None)

    def take(self, demand: Demand, now: Now) -> Entry:
        """Count the call."""
        entry = Entry(at_s=now.s, requests=1, tokens=demand.tokens)
        self._window.add(entry)
        self.waiting += demand.prompts
        self.month.reserved += demand.tokens
        return entry

    def settle(self, entry: Entry, *, requests: int, tokens: int) -> None:
        """Count the call for so much more, or with negative numbers for less."""
        self._window.change(entry, requests=entry.requests + requests, tokens=entry.tokens + tokens)

    def use(self, *, reserved: int, used: int, now: Now) -> None:
        """Of the month: what was reserved is free again, and what was used is gone."""
        self.month.pass_time(now.unix)
        self.month.reserved -= reserved
        self.month.used += used

    def headroom(self, now: Now) -> Headroom:
        """What is left of the limits by the minute."""
        self._window.pass_time(now.s)
        window, allowance = self._window, self.allowance
        requests, tokens = allowance.requests_per_minute, allowance.tokens_per_minute
        return Headroom(
            limit_requests=requests,
            remaining_requests=None if requests is None else max(0, requests - window.requests),
            reset_requests_s=None if requests is None else window.empty_in_s(now.s, part=_requests_of),
            limit_tokens=tokens,
            remaining_tokens=None if tokens is None else max(0, tokens - window.tokens),
            reset_tokens_s=None if tokens is None else window.empty_in_s(now.s, part=_tokens_of),
        )

    def used(self, now: Now) -> Use:
        """What counts against the limits by the minute and by the month."""
        self._window.pass_time(now.s)
        self.month.pass_time(now.unix)
        return Use(requests_minute=self._window.requests, tokens_minute=self._window.tokens, tokens_month=self.month.used)

    def _most_output(self, demand: Demand, _now: Now) -> LoradeckError | None:
        most = self.allowance.max_tokens
        if most is None or demand.most_output <= most:
            return None
        message = f"{demand.most_output} output tokens were asked for; {self.scope} may ask for {most} in one request."
        return InvalidRequest(
            message, code="max_tokens_over_limit", param="max_tokens", expected=f"at most {most}", found=demand.most_output
        )

    def _running(self, _demand: Demand, _now: Now) -> LoradeckError | None:
        if self.allowance.max_running != 0:
            return None
        return self._refuse("rate_limit_exceeded", "max_running", "none may run, so this would wait for ever", SPAN_S)

    def _queue(self, demand: Demand, _now: Now) -> LoradeckError | None:
        most = self.allowance.max_waiting
        if most is None or self.waiting + demand.prompts <= most:
            return None
        return self._refuse("queue_full", "max_waiting", f"{self.waiting} requests wait and {most} may", FULL_QUEUE_S)

    def _requests(self, _demand: Demand, now: Now) -> LoradeckError | None:
        most = self.allowance.requests_per_minute
        if most is None or self._window.requests < most:
            return None
        wait_s = self._window.wait_s(now.s, excess=self._window.requests + 1 - most, part=_requests_of)
        return self._refuse("rate_limit_exceeded", "requests_per_minute", f"{most} requests a minute are allowed", wait_s)

    def _tokens(self, demand: Demand, now: Now) -> LoradeckError | None:
        most = self.allowance.tokens_per_minute
        if most is None or self._window.tokens + demand.tokens <= most:
            return None
        if demand.tokens > most:
            message = f"Prompt and output may be {demand.tokens} tokens and {self.scope} has {most} a minute; ask for fewer 'max_tokens'."
            return InvalidRequest(
                message, code="tokens_over_limit", param="max_tokens", expected=f"at most {most} in all", found=demand.tokens
            )
        wait_s = self._window.wait_s(now.s, excess=self._window.tokens + demand.tokens - most, part=_tokens_of)
        what = f"{most} tokens a minute are allowed, {most - self._window.tokens} are left and this may take {demand.tokens}"
        return self._refuse("rate_limit_exceeded", "tokens_per_minute", what, wait_s)

    def _monthly(self, demand: Demand, now: Now) -> LoradeckError | None:
        most = self.allowance.monthly_tokens
        taken = self.month.used + self.month.reserved
        if most is None or taken + demand.tokens <= most:
            return None
        what = f"{most} tokens a month are allowed, {max(0, most - taken)} are left and this may take {demand.tokens}"
        return self._refuse("insufficient_quota", "monthly_tokens", what, month_left_s(now.unix))

    def _refuse(self, code: str, param: str, what: str, wait_s: float) -> Overloaded:
        message = f"The limit of {self.scope} is reached: {what}. Try again in {_shown(wait_s)}."
        return Overloaded(message, code=code, param=param, retry_after_s=wait_s, scope=self.scope)


def _shown(wait_s: float) -> str:
    return f"{wait_s:.3g} s" if wait_s < SHOWN_IN_DAYS_S else f"{wait_s / DAY_S:.1f} days"


def _requests_of(entry: Entry) -> int:
    return entry.requests


def _tokens_of(entry: Entry) -> int:
    return entry.tokens
