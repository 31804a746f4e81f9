"""Limits that an operator sets reach the batch."""

from __future__ import annotations

import asyncio

import pytest

from engine.allowance import Allowance
from engine.errors import InvalidRequest, LoradeckError
from engine.ids import TenantId
from tests import tiny
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Answer, Served, read

PROMPT = tuple(range(3, 23))
"""Two pages from the start."""


async def crowd(served: Served) -> tuple[list[Answer], dict[str, set[str]]]:
    """Four requests of acme, half of them with each adapter, and four of others; and which ran together with which, by step."""
    asked = {f"{tenant}-{n}": (("x", "y")[n % 2], tenant) for n in range(4) for tenant in ("acme", "other")}
    streams = [served.submit(model, PROMPT, tenant=tenant, request_id=name, max_tokens=12) for name, (model, tenant) in asked.items()]
    answers = await asyncio.gather(*[read(stream) for stream in streams])
    steps = {str(step.step): {str(row.request) for row in step.rows} for step in served.engine.steps()}
    return answers, steps


@pytest.mark.parametrize("limit", ["max_running", "max_kv_pages", "max_adapter_pages"])
async def test_never_one_over(engine: Make, limit: str) -> None:
    """Set through the service: acme waits with ``tenant_limit`` and never has more in a step; others are none the wiser."""
    served = engine()
    for seed, name in enumerate(("x", "y"), start=1):
        await served.add(name, tiny.AdapterRecipe(seed=seed))
        await served.control("warm", name)
    served.engine.tenants.create("acme")
    pages = served.entry("x").record.num_pages
    allowance = {"max_running": Allowance(max_running=2), "max_kv_pages": Allowance(max_kv_pages=4)}
    served.engine.tenants.set_limits("acme", allowance.get(limit, Allowance(max_adapter_pages=pages)))
    answers, steps = await crowd(served)
    together = [{name for name in names if name.startswith("acme")} for names in steps.values()]
    if limit == "max_adapter_pages":
        assert max(len({int(name[-1]) % 2 for name in names}) for names in together) == 1
    else:
        assert max(map(len, together)) == 2
    waits = {answer.record.id: dict(answer.record.waits) for answer in answers}
    assert any("tenant_limit" in waited for name, waited in waits.items() if name.startswith("acme"))
    assert not any("tenant_limit" in waited for name, waited in waits.items() if name.startswith("other"))
    served.engine.tenants.set_limits("acme", Allowance())
    answers, _ = await crowd(served)
    assert not any("tenant_limit" in dict(answer.record.waits) for answer in answers)


async def test_limits_hold_from_the_start(engine: Make) -> None:
    """They are stored: the next engine on the same data begins with them."""
    served = engine()
    served.engine.tenants.create("acme")
    served.engine.tenants.set_limits("acme", Allowance(max_running=1, weight=3.0))
    served.engine.stop()
    served = engine()
    streams = [served.submit(None, PROMPT, tenant="acme", max_tokens=6) for _ in range(2)]
    answers = await asyncio.gather(*[read(stream) for stream in streams])
    assert [code for code, _ in answers[1].record.waits] == ["tenant_limit"]
    assert await served.inside(lambda: [each.weight for each in served.host.scheduler.shares if each.tenant == "acme"]) == [3.0]


@pytest.mark.parametrize(
    ("allowance", "code", "most"),
    [
        (Allowance(max_kv_pages=0), "kv_pages_over_limit", 0),
        (Allowance(max_kv_pages=1), "kv_pages_over_limit", 1),
        (Allowance(max_adapter_pages=0), "adapter_pages_over_limit", 0),
        (Allowance(max_adapter_pages=0, max_kv_pages=9), "adapter_pages_over_limit", 0),
    ],
)
@pytest.mark.parametrize("scope", ["tenant", "key"])
async def test_what_no_waiting_would_bring_within_a_limit_names_it(
    engine: Make, allowance: Allowance, code: str, most: int, scope: str
) -> None:
    """Refused before it is queued, or ended when the limit comes later, by the name of the limit, with needed and allowed."""
    served = engine()
    await served.add("x")
    tenants = served.engine.tenants
    tenants.create("acme")
    key = tenants.keys.create("k", tenant=TenantId("acme")).record.id
    pages = {"kv_pages_over_limit": 2, "adapter_pages_over_limit": served.entry("x").record.num_pages}

    def limit(allowance: Allowance) -> None:
        if scope == "tenant":
            tenants.set_limits("acme", allowance)
        else:
            tenants.keys.set_limits(key, allowance)

    def told(refusal: LoradeckError) -> tuple[str, str | None, object, object]:
        assert f"{scope} {'acme' if scope == 'tenant' else key}" in refusal.message
        return refusal.code, refusal.param, refusal.expected, refusal.found

    expected = (code, f"max_{code.removesuffix('_over_limit')}", f"at most {most}", pages[code])
    limit(Allowance(max_running=1))
    running = served.submit("x", PROMPT, tenant="acme", key=key, max_tokens=200)
    waiting = served.submit("x", PROMPT, tenant="acme", key=key, max_tokens=5)
    limit(allowance)
    with pytest.raises(InvalidRequest) as ended:
        await read(waiting)
    assert told(ended.value) == expected
    running.cancel()
    with pytest.raises(InvalidRequest) as refused:
        served.submit("x", PROMPT, tenant="acme", key=key)
    assert told(refused.value) == expected
    if code == "adapter_pages_over_limit":
        await served.ask(None, PROMPT, tenant="acme", key=key)
