"""A tenant or key that holds all it may waits alone, and never holds one more."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.allowance import Allowance
from engine.ids import TenantId
from engine.memory.reclaim import Floors
from tests.engine.scheduler.simulation import Simulation, limits


def test_running_requests_of_a_tenant() -> None:
    """The third waits with ``tenant_limit`` while another tenant's later one runs; it enters when one ends."""
    sim = Simulation()
    sim.allow("a", max_running=2)
    mine = [sim.submit(3, max_tokens=3, tenant="a")[0] for _ in range(3)]
    (other,) = sim.submit(3, max_tokens=3, tenant="b")
    sim.step()
    assert [s.state for s in (*mine, other)] == ["running", "running", "waiting", "running"]
    assert mine[2].wait_reason == "tenant_limit"
    sim.run()
    assert set(mine[2].waits) == {"tenant_limit"}


def test_running_requests_of_a_key() -> None:
    """One key's limit holds for that key; another key of the same tenant goes on."""
    sim = Simulation()
    sim.scheduler.set_allowances(tenants={}, keys={"k": Allowance(max_running=1)})
    first, second, other = (sim.submit(3, max_tokens=3, tenant="a", key=key)[0] for key in ("k", "k", "l"))
    sim.step()
    assert (first.state, second.wait_reason, other.state) == ("running", "tenant_limit", "running")
    sim.run()


def test_pages_of_adapters() -> None:
    """A second adapter would be too much: it waits, more of the first does not."""
    sim = Simulation(sizes={"x": 4, "y": 4})
    sim.allow("a", max_adapter_pages=7)
    x, y, x_again = (sim.submit(3, max_tokens=3, tenant="a", adapter=name)[0] for name in ("x", "y", "x"))
    sim.step()
    sim.step()
    assert (x.state, y.wait_reason, x_again.state) == ("running", "tenant_limit", "running")
    sim.run()
    assert y.num_output == 3


def test_kv_pages_that_grow_over_the_limit_are_the_newest_ones() -> None:
    """Its own newest request gives way and comes back; the other tenant is left alone."""
    sim = Simulation()
    sim.allow("a", max_kv_pages=6)
    old, new = (sim.submit(8, max_tokens=12, tenant="a")[0] for _ in range(2))
    (other,) = sim.submit(8, max_tokens=12, tenant="b")
    preempted = [s for _ in range(14) for s, *_ in sim.step().preempted]
    assert set(preempted) == {new}
    assert (old.preemptions, other.preemptions) == (0, 0)
    sim.run()
    assert new.num_output == 12


def test_what_can_never_be_within_its_limit_ends() -> None:
    """A limit was lowered under it: it ends, waiting or running, and those behind it are served."""
    sim = Simulation(sizes={"x": 4}, bounds=limits(max_sequences=2))
    (running,) = sim.submit(8, max_tokens=40, tenant="a")
    sim.step()
    (waiting,) = sim.submit(40, max_tokens=2, tenant="a")
    (with_adapter,) = sim.submit(2, max_tokens=2, tenant="c", adapter="x")
    (behind,) = sim.submit(2, max_tokens=2, tenant="a")
    sim.allow("a", max_kv_pages=5)
    sim.allow("c", max_adapter_pages=3)
    stranded = [s for _ in range(40) for s in sim.step().stranded]
    assert set(stranded) == {running, waiting, with_adapter}
    assert behind.num_output == 2


def test_a_limit_that_is_lifted_lets_the_next_in() -> None:
    """New allowances hold from the next plan on."""
    sim = Simulation()
    sim.allow("a", max_running=0)
    (request,) = sim.submit(3, max_tokens=2, tenant="a")
    assert sim.step().is_empty
    sim.allow("a")
    sim.step()
    assert request.state == "running"
    assert sim.scheduler.allowances.most_kv_pages(TenantId("a"), None) is None


@settings(max_examples=60, deadline=None)
@given(
    max_running=st.integers(1, 3),
    max_kv_pages=st.integers(6, 14),
    max_adapter_pages=st.integers(5, 9),
    asks=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 12), st.integers(1, 10), st.sampled_from([None, "x", "y", "z"])), max_size=25
    ),
)
def test_never_one_over(max_running: int, max_kv_pages: int, max_adapter_pages: int, asks: list[tuple[str, int, int, str | None]]) -> None:
    """After every plan and step, whatever is asked; and everything finishes."""
    bounds = limits(max_adapters=3, drain_after_s=0.1)
    sim = Simulation(num_pages=40, sizes={"x": 3, "y": 4, "z": 5}, floors=Floors(kv=6, adapter=4), bounds=bounds)
    sim.allow("a", max_running=max_running, max_kv_pages=max_kv_pages, max_adapter_pages=max_adapter_pages)
    holding = sim.scheduler.allowances.tenant(TenantId("a"))
    for tenant, prompt, max_tokens, adapter in asks:
        sim.submit(prompt, max_tokens=max_tokens, tenant=tenant, adapter=adapter)
        sim.step()
        own = [s for s in sim.scheduler.running if s.tenant == "a"]
        assert len(own) <= max_running
        assert sum(len(s.pages) for s in own) <= max_kv_pages
        assert holding.adapter_pages <= max_adapter_pages
    sim.run()
    assert len(sim.finished) == len(asks)
