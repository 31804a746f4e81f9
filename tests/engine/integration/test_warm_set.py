"""What operators want warm is warm again after a restart, and on time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from engine.errors import Conflict, InvalidRequest
from engine.events import ScheduleRan, WarmSetReturned
from engine.ids import TenantId
from engine.registry.store import Store
from engine.versions.schedules import Schedules, Wish
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, serve, until
from tests.tiny import AdapterRecipe


def returned(served: Served) -> list[WarmSetReturned]:
    """What came back after the start."""
    return [event for _, event in served.engine.events().events if isinstance(event, WarmSetReturned)]


async def test_pins_and_the_warm_set_come_back_in_order(tiny_base: Path, tmp_path: Path) -> None:
    """After a restart pins come first, then what was used last; an ended pin does not; the engine serves before they are there."""
    with serve(tiny_base, tmp_path) as served:
        for number, name in enumerate(("cold", "old", "hot", "pinned", "brief")):
            await served.add(name, AdapterRecipe(seed=1 + number))
        for name in ("old", "hot"):
            await served.ask(name, max_tokens=1)
        await served.control("evict", "cold", tier="disk")
        await asyncio.wrap_future(served.engine.control("pin", "pinned", reason="contract"))
        await asyncio.wrap_future(served.engine.control("pin", "brief", until_unix=time.time() + 0.2))
        await until(lambda: served.entry("brief").pin is None)
        await served.control("evict", "brief", tier="disk")
    with serve(tiny_base, tmp_path) as served:
        await until(lambda: bool(returned(served)))
        rows = {name: await served.row(name) for name in ("cold", "old", "hot", "pinned", "brief")}
        assert (rows["pinned"].pinned, rows["pinned"].pin_reason, rows["pinned"].pin_tier) == (True, "contract", "device")
        assert [rows[name].tier for name in ("pinned", "hot", "old", "cold", "brief")] == ["device", "device", "device", "disk", "disk"]
        assert not rows["brief"].pinned
        order = [event.alias for _, event in served.engine.events().events if type(event).__name__ == "AdapterLoaded"]
        assert order == ["pinned", "hot", "old"]
        await served.control("unpin", "pinned")
    with serve(tiny_base, tmp_path) as served:
        await until(lambda: bool(returned(served)))
        assert not (await served.row("pinned")).pinned


async def test_a_pin_that_cannot_be_stored_is_taken_back(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the database away a pin is a 503 and not in memory either; serving goes on."""
    served = engine()
    await served.add("x")
    monkeypatch.setattr(Store, "write", lambda *_args, **_more: (_ for _ in ()).throw(Conflict("away", code="registry_unavailable")))
    with pytest.raises(Conflict):
        await served.control("pin", "x")
    monkeypatch.undo()
    assert not (await served.row("x")).pinned
    assert len((await served.ask("x", max_tokens=4)).ids) == 4


async def test_schedules_run_when_they_are_due(engine: Make) -> None:
    """By the clock, at the tenant's first request of the day and at a sign-in: once each, and the event says how it went."""
    served = engine()
    await served.add("x")
    now = [1_790_000_000.0]
    asked: list[str] = []

    def warm(_tenant: str, alias: str, _tier: str) -> None:
        asked.append(alias)
        if alias == "refused":
            raise InvalidRequest("No.", param="x")

    schedules = Schedules(served.host, warm=warm, now_unix=lambda: now[0])
    await asyncio.to_thread(lambda: [schedules.add(Wish(alias=alias, trigger=trigger, at=at)) for alias, trigger, at in WISHES])
    schedules.start()
    schedules.run_due()
    for _ in range(3):
        schedules.signed_in("default")  # type: ignore[arg-type]
        schedules.requested("default")  # type: ignore[arg-type]
        schedules.requested("other")  # type: ignore[arg-type]
    await until(lambda: len(asked) == 2)
    now[0] += 86_400
    for _ in range(3):
        schedules.run_due()
        schedules.requested("default")  # type: ignore[arg-type]
    await until(lambda: len(asked) == 5)
    schedules.stop()
    assert asked[:2] == ["signed", "first"]
    assert sorted(asked[2:]) == ["daily", "first", "refused"]
    ran = {event.alias: event.message for _, event in served.engine.events().events if isinstance(event, ScheduleRan)}
    assert ran == {"signed": "", "first": "", "daily": "", "refused": "No."}
    again = Schedules(served.host, warm=warm, now_unix=lambda: now[0])
    await until(lambda: all(one.ran_unix is not None for one in Schedules(served.host, warm=warm).every()))
    again.run_due()
    assert len(asked) == 5


async def test_a_sign_in_warms_what_its_tenant_wished(engine: Make) -> None:
    """The first person of a tenant who signs in brings its adapter to the device."""
    served = engine()
    await served.add("x")
    await served.control("evict", "x", tier="disk")
    home, password = TenantId("default"), "a long enough password"
    await asyncio.to_thread(lambda: served.engine.schedules.add(Wish(alias="x", trigger="sign_in", at=None)))
    await asyncio.to_thread(lambda: served.engine.tenants.users.add("ana", password, role="viewer", tenant=home))
    await asyncio.to_thread(lambda: served.engine.tenants.access.sign_in("ana", password, "api"))
    await until(lambda: any(isinstance(event, ScheduleRan) for _, event in served.engine.events().events))
    assert (await served.row("x")).tier == "device"


WISHES = (("daily", "time", "08:00"), ("refused", "time", "08:00"), ("signed", "sign_in", None), ("first", "first_request", None))


async def test_an_engines_schedule_warms_its_alias(engine: Make) -> None:
    """The first request of the day of a tenant brings another of its adapters to the device."""
    served = engine()
    await served.add("x")
    await served.add("y", AdapterRecipe(seed=2))
    await served.control("evict", "y", tier="disk")
    await asyncio.to_thread(served.engine.schedules.add, Wish(alias="y", trigger="first_request"))
    await served.ask("x", max_tokens=2)
    await until(lambda: served.entry("y").on_device)
