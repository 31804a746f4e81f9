"""What the meters and the publisher promise to their readers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.events import AdapterEvicted, Event, RequestPreempted
from engine.ids import AdapterId, RequestId, TenantId
from engine.request import RequestRecord
from engine.snapshot import LoadPhase, LoadRecord
from engine.step_record import StepRecord, StepRow
from engine.telemetry.event_log import EVENTS_KEPT
from engine.telemetry.meters import Histogram, LabelCounter, RollingMeter
from engine.telemetry.publisher import Publisher


class HeldClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        """The time it was set to."""
        return self.time_s


RECORD = RequestRecord(
    id=RequestId("r1"),
    tenant=TenantId("default"),
    model="a",
    adapter=AdapterId("d1"),
    tier_at_arrival="host",
    prompt_tokens=10,
    cached_tokens=4,
    completion_tokens=5,
    finish_reason="stop",
    queue_s=0.1,
    adapter_load_s=0.2,
    prefill_s=0.05,
    decode_s=0.4,
    ttft_s=0.35,
    e2e_s=0.75,
    first_step=1,
    last_step=5,
    arrived_s=999.0,
    waits=(("adapter_loading", 0.2), ("batch_full", 0.1)),
)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 0.99, 1.0])
def test_rolling_percentiles_are_within_two_percent(share: float) -> None:
    """A percentile of the window is within 2 % of the exact nearest-rank one: the bins grow by 4 %."""
    meter = RollingMeter(window_s=60)
    values = sorted(random.Random(3).lognormvariate(-3, 1.5) for _ in range(2000))
    for value in values:
        meter.observe(value, now_s=100.0)
    exact = values[max(0, -(-int(share * 10000) * 2000 // 10000) - 1)]
    assert meter.percentile(share, now_s=100.0) == pytest.approx(exact, rel=0.021)


def test_rolling_window_forgets() -> None:
    """Values older than the window count for nothing, and without values there is no percentile."""
    meter = RollingMeter(window_s=60, slices=12)
    meter.observe(1.0, now_s=100.0)
    meter.observe(3.0, now_s=140.0)
    assert (meter.count(155.0), meter.total(155.0)) == (2, 4.0)
    assert (meter.count(165.0), meter.mean(165.0)) == (1, 3.0)
    assert meter.percentile(0.5, now_s=165.0) == pytest.approx(3.0, rel=0.021)
    assert (meter.count(300.0), meter.mean(300.0), meter.percentile(0.5, now_s=300.0)) == (0, None, None)


def test_histogram_bounds_are_inclusive() -> None:
    """A value equal to a bound falls under it, as Prometheus' ``le`` says."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.read().counts == (2, 1, 1)
    assert histogram.read().total == 6.0


def test_labels_past_the_cap_are_other() -> None:
    """A counter never holds more label values than its cap and ``other``; none ever falls."""
    counter = LabelCounter(cap=3)
    for number in range(10):
        counter.add(f"a{number}")
    counter.add("a1")
    assert counter.read() == {"a0": 1, "a1": 2, "a2": 1, "other": 7}


def test_event_ring_counts_its_losses() -> None:
    """A reader that was away too long learns how many events it missed."""
    publisher = Publisher(HeldClock())
    for number in range(EVENTS_KEPT + 10):
        publisher.record_event(Event(at_unix=float(number)))
    page = publisher.events(after=3, limit=2)
    assert (page.lost, page.newest) == (7, EVENTS_KEPT + 10)
    assert [number for number, _ in page.events] == [11, 12]
    assert page.events[0][1].at_unix == 10.0
    assert publisher.events(after=page.newest).events == ()
    assert publisher.events(after=page.newest + 5).lost == 0


def test_rates_are_unknown_without_traffic() -> None:
    """No traffic is None, not 0."""
    rates = Publisher(HeldClock()).rates(1000.0)
    assert (rates.ttft_p50_s, rates.itl_p95_s, rates.hit_rate, rates.queue_mean_s) == (None, None, None, None)


def test_a_finished_request_is_counted_everywhere() -> None:
    """Totals, rates, tenants and the adapter's own row all come from one record."""
    clock = HeldClock()
    publisher = Publisher(clock)
    clock.time_s = 1060.0
    publisher.record_request(RECORD)
    publisher.record_request(replace(RECORD, id=RequestId("r2"), tier_at_arrival="device", adapter_load_s=0.0, finish_reason="error"))
    totals = publisher.totals()
    assert (totals.requests, totals.errors, totals.prompt_tokens, totals.cached_prompt_tokens) == (2, 1, 20, 8)
    assert (totals.adapter_hits, totals.adapter_misses) == (1, 1)
    rates = publisher.rates(1060.0)
    assert (rates.requests, rates.hit_rate, rates.cold_starts_per_min, rates.errors) == (2, 0.5, 1.0, 1)
    assert rates.decode_per_token_s == pytest.approx(0.1)
    (tenant,) = publisher.tenants(1060.0)
    assert (tenant.requests, tenant.cold_share, tenant.ttft_p99_s) == (2, 0.5, None)
    assert tenant.wait_shares[0] == ("adapter_loading", pytest.approx(2 / 3))
    traffic = publisher.adapter(AdapterId("d1"), 1060.0)
    assert traffic is not None
    assert (traffic.requests, traffic.requests_per_min, traffic.hits, traffic.cold_starts) == (2, 2.0, 1, 1)
    assert traffic.ttft_p95_s == pytest.approx(0.35, rel=0.021)
    assert publisher.adapter(AdapterId("never"), 1060.0) is None
    assert publisher.records(after_s=999.5)
    assert not publisher.records(after_s=999.75)


def _step(number: int, started_s: float, *rows: StepRow) -> StepRecord:
    return StepRecord(step=number, started_s=started_s, duration_s=0.5, rows=rows, num_adapters=0)


def test_token_gaps_come_from_steps() -> None:
    """The gap of a choice is from the end of the step of one token to the end of the step of the next, whoever ran between."""
    publisher = Publisher(HeldClock())
    prefill = StepRow(request=RequestId("r1"), index=0, phase="prefill", tokens=8, adapter=None)
    decode = replace(prefill, phase="decode", tokens=1)
    publisher.record_step(_step(1, 0.0, prefill), output_tokens=1)
    publisher.record_step(_step(2, 2.0, decode), output_tokens=1)
    publisher.record_step(_step(3, 2.5), output_tokens=0)
    publisher.record_step(_step(4, 3.0, decode), output_tokens=1)
    reading = publisher.cumulative.inter_token_s.read()
    assert (reading.count, reading.total) == (2, 3.0)
    assert (publisher.totals().steps, publisher.totals().output_tokens) == (4, 3)
    assert publisher.rates(1000.0).prompt_tokens_per_s == 8.0
    assert [step.step for step in publisher.steps(after=2)] == [3, 4]


def test_a_gap_begins_with_a_token() -> None:
    """Chunks of a prompt that give none begin no gap; a token after a recompute ends the one that the recompute lies in."""
    publisher = Publisher(HeldClock())
    chunk = StepRow(request=RequestId("r1"), index=0, phase="prefill", tokens=8, adapter=None, samples=False)
    last, decode = replace(chunk, samples=True), replace(chunk, phase="decode", tokens=1, samples=True)
    for at_s, row in ((0.0, chunk), (10.0, last), (11.0, decode), (15.0, chunk), (16.0, last), (17.0, decode)):
        publisher.record_step(_step(int(at_s), at_s, row), output_tokens=int(row.samples))
    reading = publisher.cumulative.inter_token_s.read()
    assert (reading.count, reading.total) == (3, 1.0 + 5.0 + 1.0)


def test_marks_of_tokens_go_with_their_request() -> None:
    """What ended, in the step that is recorded or between two, is forgotten: a later request of the same id has gaps of its own."""
    publisher = Publisher(HeldClock())
    prefill = StepRow(request=RECORD.id, index=0, phase="prefill", tokens=8, adapter=None)
    decode = replace(prefill, phase="decode", tokens=1)
    publisher.record_step(_step(1, 0.0, prefill), output_tokens=1)
    publisher.record_request(RECORD)  # its last token came in the step that is recorded next
    publisher.record_step(_step(2, 1.0, decode), output_tokens=1)
    publisher.record_step(_step(3, 100.0, prefill), output_tokens=1)
    publisher.record_step(_step(4, 102.0, decode), output_tokens=1)
    publisher.record_request(RECORD)
    publisher.record_step(_step(5, 200.0), output_tokens=0)
    publisher.record_step(_step(6, 300.0, prefill), output_tokens=1)
    publisher.record_step(_step(7, 304.0, decode), output_tokens=1)
    assert (publisher.cumulative.inter_token_s.read().count, publisher.cumulative.inter_token_s.read().total) == (3, 1.0 + 2.0 + 4.0)


def test_loads_and_evictions_are_counted_by_cause() -> None:
    """A load is timed whole and by phase; an eviction counts under its reason."""
    publisher = Publisher(HeldClock())
    phases = (LoadPhase(name="read", start_s=0.0, duration_s=0.02), LoadPhase(name="copy", start_s=0.02, duration_s=0.03))
    load = LoadRecord(adapter=AdapterId("d1"), from_tier="disk", asked_s=0.0, phases=phases, total_s=0.05)
    publisher.record_load(load)
    publisher.record_load(replace(load, outcome="failed"))
    evicted = AdapterEvicted(
        at_unix=1.0, adapter=AdapterId("d1"), alias="a", tenant=TenantId("t"), from_tier="device", because="pages_needed", idle_s=3.0
    )
    publisher.record_event(evicted)
    publisher.record_event(RequestPreempted(at_unix=1.0, request=RequestId("r"), tenant=TenantId("t"), pages=2))
    totals = publisher.totals()
    assert (totals.loads, totals.evictions, totals.preemptions) == (1, 1, 1)
    assert publisher.cumulative.loads.read() == {"ok": 1, "failed": 1}
    assert publisher.cumulative.load_phase_s.read()["copy"].total == 0.03
