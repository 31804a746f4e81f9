"""Limits hold to the last request and token, however many come at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.allowance import Allowance, Use
from engine.errors import InvalidRequest, LoradeckError, Overloaded
from engine.gateway.gate import Gate, Ticket, reserve
from engine.ids import RequestId, TenantId
from engine.request import Request, RequestRecord, SamplingParams

ACME, OTHER = TenantId("acme"), TenantId("other")


@dataclass
class Time:
    """Both clocks, moved by hand."""

    s: float = 1000.0
    unix: float = field(default_factory=lambda: datetime(2026, 11, 30, 23, 59, 0, tzinfo=UTC).timestamp())

    def now_s(self) -> float:
        """Monotonic."""
        return self.s

    def go(self, seconds: float) -> None:
        """Later."""
        self.s += seconds
        self.unix += seconds


def ask(*, tenant: TenantId = ACME, key: str | None = None, prompt: int = 10, output: int = 10, n: int = 1) -> Request:
    """A request of so many tokens."""
    sampling = SamplingParams(max_tokens=output, n=n)
    return Request(id=RequestId("r"), model="m", prompt_ids=(1,) * prompt, sampling=sampling, tenant=tenant, key=key)


def record(prompt: int, output: int) -> RequestRecord:
    """What a request really took."""
    return RequestRecord(
        id=RequestId("r"), tenant=ACME, model="m", adapter=None, tier_at_arrival=None, prompt_tokens=prompt, cached_tokens=0,
        completion_tokens=output, finish_reason="stop", queue_s=0.0, adapter_load_s=0.0, prefill_s=None, decode_s=None, ttft_s=None,
        e2e_s=0.0, first_step=1, last_step=1, arrived_s=0.0,
    )  # fmt: skip


def gate_of(time: Time, tenants: dict[str, Allowance] | None = None, keys: dict[str, Allowance] | None = None) -> Gate:
    """A gate with these limits."""
    gate = Gate(time, unix=lambda: time.unix)
    gate.set_allowances(tenants or {}, keys or {})
    return gate


def one(gate: Gate, request: Request) -> Ticket:
    """The ticket of one request."""
    return gate.admit([request])[0]


def refused(gate: Gate, request: Request) -> LoradeckError:
    """Why it may not come in."""
    with pytest.raises(LoradeckError) as refusal:
        gate.admit([request])
    return refusal.value


def test_requests_slide() -> None:
    """A place is free again 60 s after it was taken, not at the turn of a minute, and the refusal says when."""
    time = Time()
    gate = gate_of(time, {ACME: Allowance(requests_per_minute=2)})
    one(gate, ask())
    time.go(20)
    one(gate, ask())
    time.go(15)
    refusal = refused(gate, ask())
    assert isinstance(refusal, Overloaded)
    assert (refusal.code, refusal.param, refusal.scope) == ("rate_limit_exceeded", "requests_per_minute", "tenant acme")
    assert refusal.retry_after_s == pytest.approx(25)
    time.go(refusal.retry_after_s)
    one(gate, ask())
    assert isinstance(refused(gate, ask()), Overloaded)


def test_tokens_are_reserved_then_settled() -> None:
    """Prompt and longest output of every choice count at once; what was not used comes back when the request ends."""
    time = Time()
    gate = gate_of(time, {ACME: Allowance(tokens_per_minute=100)})
    ticket = one(gate, ask(prompt=10, output=20, n=3))
    assert gate.headroom(ACME, None).remaining_tokens == 30
    assert refused(gate, ask(prompt=11, output=20)).param == "tokens_per_minute"
    ticket.begin()
    ticket.settle(record(10, 5))
    assert gate.headroom(ACME, None).remaining_tokens == 85
    ticket.settle(record(10, 5))
    ticket.void()
    assert gate.headroom(ACME, None).remaining_tokens == 85
    time.go(60)
    assert gate.headroom(ACME, None).remaining_tokens == 100


def test_settling_after_the_minute_changes_nothing() -> None:
    """A request that outlasts its minute neither gives back nor takes from the next."""
    time = Time()
    gate = gate_of(time, {ACME: Allowance(tokens_per_minute=100)})
    ticket = one(gate, ask(prompt=10, output=50))
    ticket.begin()
    time.go(61)
    one(gate, ask(prompt=10, output=10))
    ticket.settle(record(10, 50))
    assert gate.headroom(ACME, None).remaining_tokens == 80


def test_a_request_that_never_ran_used_no_tokens() -> None:
    """Cancelled in the queue it counts as a request; refused after it was let in, as nothing."""
    gate = gate_of(Time(), {ACME: Allowance(requests_per_minute=9, tokens_per_minute=100)})
    one(gate, ask()).settle(record(10, 0))
    room = gate.headroom(ACME, None)
    assert (room.remaining_requests, room.remaining_tokens) == (8, 100)
    one(gate, ask()).void()
    assert gate.headroom(ACME, None) == room


def test_what_can_never_fit_is_a_bad_request() -> None:
    """More than a whole minute's tokens, or than one request may have, is refused by field, since waiting would not help."""
    gate = gate_of(Time(), {ACME: Allowance(tokens_per_minute=100)}, {"k": Allowance(max_tokens=5)})
    too_many = refused(gate, ask(prompt=50, output=51))
    too_long = refused(gate, ask(key="k", output=6))
    assert isinstance(too_many, InvalidRequest)
    assert isinstance(too_long, InvalidRequest)
    assert (too_many.code, too_many.param) == ("tokens_over_limit", "max_tokens")
    assert (too_long.code, too_long.expected) == ("max_tokens_over_limit", "at most 5")
    assert "key k" in too_long.message
    assert gate.most_output(ACME, "k", prompt_tokens=10, choices=1) == 5
    assert gate.most_output(ACME, None, prompt_tokens=10, choices=3) == 30
    assert gate.most_output(OTHER, None, prompt_tokens=10, choices=1) is None


def test_the_queue_is_bounded() -> None:
    """A request waits until its first step; those that wait are at most as many as allowed, each prompt for itself."""
    gate = gate_of(Time(), {ACME: Allowance(max_waiting=2)})
    first, _ = gate.admit([ask(), ask()])
    assert refused(gate, ask()).code == "queue_full"
    first.begin()
    first.begin()
    with pytest.raises(Overloaded):
        gate.admit([ask(), ask()])
    one(gate, ask())
    assert gate.num_waiting(ACME) == 2
    first.settle(record(1, 1))
    assert gate.num_waiting(ACME) == 2


def test_where_none_may_run_none_waits() -> None:
    """A limit of no running request is a refusal, and counts nothing; what is hours away is told in days."""
    early = datetime(2026, 11, 3, tzinfo=UTC).timestamp()
    gate = gate_of(Time(unix=early), {ACME: Allowance(max_running=0, requests_per_minute=1)})
    refusal = refused(gate, ask())
    assert isinstance(refusal, Overloaded)
    assert (refusal.code, refusal.param) == ("rate_limit_exceeded", "max_running")
    gate.set_allowances({ACME: Allowance(requests_per_minute=1)}, {})
    one(gate, ask())
    gate.set_allowances({ACME: Allowance(monthly_tokens=1)}, {})
    assert refused(gate, ask()).message.endswith(" days.")


def test_a_month_ends() -> None:
    """The budget counts what was used before a restart and what is under way, and begins anew with the month."""
    time = Time()
    gate = gate_of(time, {ACME: Allowance(monthly_tokens=1000)})
    gate.restore_month({ACME: 900}, {})
    ticket = one(gate, ask(prompt=10, output=70))
    refusal = refused(gate, ask(prompt=10, output=11))
    assert isinstance(refusal, Overloaded)
    assert (refusal.code, refusal.param, refusal.retry_after_s) == ("insufficient_quota", "monthly_tokens", 60.0)
    ticket.begin()
    ticket.settle(record(10, 20))
    one(gate, ask(prompt=10, output=60))
    time.go(60)
    one(gate, ask(prompt=10, output=900))


def test_what_is_used_is_told() -> None:
    """A call under way counts as reserved, by the minute only; ended, as what it took; a minute later by the month only."""
    time = Time()
    gate = gate_of(time)
    assert gate.used_by(ACME) == Use()
    ticket = one(gate, ask(prompt=10, output=10))
    assert gate.used_by(ACME) == Use(requests_minute=1, tokens_minute=20, tokens_month=0)
    ticket.begin()
    ticket.settle(record(10, 4))
    assert gate.used_by(ACME) == Use(requests_minute=1, tokens_minute=14, tokens_month=14)
    assert gate.used_by(OTHER) == Use()
    time.go(59.0)
    time.s += 2
    assert gate.used_by(ACME) == Use(tokens_month=14)


def test_a_refusal_by_one_scope_charges_none() -> None:
    """Tenant and key hold together: what the key refuses costs the tenant nothing, and the other way round."""
    gate = gate_of(
        Time(), {ACME: Allowance(requests_per_minute=3)}, {"a": Allowance(requests_per_minute=1), "b": Allowance(requests_per_minute=9)}
    )
    one(gate, ask(key="a"))
    for _ in range(5):
        refusal = refused(gate, ask(key="a"))
        assert isinstance(refusal, Overloaded)
        assert refusal.scope == "key a"
        assert refusal.headroom is not None
        assert refusal.headroom.remaining_requests == 0
    assert gate.headroom(ACME, None).remaining_requests == 2
    for _ in range(2):
        one(gate, ask(key="b"))
    for _ in range(5):
        assert "tenant acme" in refused(gate, ask(key="b")).message
    assert gate.headroom(OTHER, "b").remaining_requests == 7
    one(gate, ask(tenant=OTHER))


def test_limits_change_at_once() -> None:
    """What was counted under the old limit counts under the new one."""
    gate = gate_of(Time())
    for _ in range(3):
        one(gate, ask())
    gate.set_allowances({ACME: Allowance(requests_per_minute=3)}, {})
    assert isinstance(refused(gate, ask()), Overloaded)
    gate.set_allowances({ACME: Allowance(requests_per_minute=4)}, {})
    one(gate, ask())
    gate.set_allowances({}, {})
    one(gate, ask())


def test_exact_under_threads() -> None:
    """40 threads over two keys of a tenant: exactly the allowed number gets in, and each token is counted once."""
    allowance = Allowance(requests_per_minute=100, tokens_per_minute=1500)
    gate = gate_of(Time(), {ACME: allowance}, {"a": replace(allowance, requests_per_minute=30)})
    barrier = threading.Barrier(40)

    def press(number: int) -> list[Ticket]:
        barrier.wait()
        got = []
        for _ in range(10):
            try:
                got.append(one(gate, ask(key="ab"[number % 2], prompt=5, output=10)))
            except Overloaded:
                continue
        return got

    with ThreadPoolExecutor(40) as threads:
        tickets = [ticket for got in threads.map(press, range(40)) for ticket in got]
        assert len(tickets) == 100
        assert gate.headroom(ACME, None).remaining_tokens == 0
        list(threads.map(lambda ticket: (ticket.begin(), ticket.settle(record(5, 1))), tickets))
    assert gate.headroom(ACME, None).remaining_tokens == 1500 - 100 * 6
    assert gate.num_waiting(ACME) == 0
    assert (gate.headroom(OTHER, "a").remaining_requests or 0) >= 0


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(1, 30), st.integers(1, 30), st.booleans()), max_size=60))
def test_no_minute_holds_more(calls: list[tuple[float, int, int, bool]]) -> None:
    """Wherever a minute begins, the requests let in during it, and their tokens, are at most as many as allowed."""
    time = Time()
    gate = gate_of(time, {ACME: Allowance(requests_per_minute=4, tokens_per_minute=90)})
    let_in: list[tuple[float, int]] = []
    for pause_s, prompt, output, short in calls:
        time.go(pause_s)
        request = ask(prompt=prompt, output=output)
        used = prompt + (1 if short else output)
        inside = [tokens for at_s, tokens in let_in if at_s + 60 > time.s]
        fits = len(inside) < 4 and sum(inside) + reserve(request) <= 90
        if not fits:
            assert refused(gate, request).code == "rate_limit_exceeded"
            continue
        ticket = one(gate, request)
        ticket.begin()
        ticket.settle(record(prompt, used - prompt))
        let_in.append((time.s, used))
