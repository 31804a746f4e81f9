"""A tenant goes once all it had is retired; what tells of it stays under an id that nobody else gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from engine.errors import Conflict, LoradeckError, NotFound
from engine.ids import TenantId
from engine.versions.schedules import Wish
from tests import tiny
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import PASSWORD
from tests.engine.integration.serving import Served, until

ACME = TenantId("acme")


async def settled(served: Served) -> str:
    """Acme with something of everything; the id of its key."""
    doors = served.engine
    doors.tenants.create(ACME)
    await served.add("bot", tiny.AdapterRecipe(seed=1), tenant=ACME)
    await served.register(served.folder("next", tiny.AdapterRecipe(seed=2)), "bot", tenant=ACME, replace=True)
    doors.schedules.add(Wish(alias="bot", trigger="sign_in"), tenant=ACME)
    doors.tenants.users.add("ana", PASSWORD, role="viewer", tenant=ACME)
    return str(doors.tenants.keys.create("k", tenant=ACME).record.id)


async def test_what_is_in_the_way_is_said_and_can_be_cleared(engine: Make) -> None:
    """Each thing with its number; once all of it is retired, dropped or revoked the tenant goes."""
    served = engine()
    key = await settled(served)
    doors = served.engine
    steps: list[tuple[str, Callable[[], object]]] = [
        ("versions that are not retired (2)", lambda: doors.versions.retirement.retire("bot@1", tenant=ACME)),
        ("versions that are not retired (1)", lambda: doors.versions.retirement.retire("bot@2", tenant=ACME)),
        ("schedules (1)", lambda: doors.schedules.drop(doors.schedules.every(tenant=ACME)[0].key)),
        ("users (1)", lambda: doors.tenants.users.delete("ana")),
        ("keys that are not revoked (1)", lambda: doors.tenants.keys.revoke(key)),
    ]
    for number, (what, step) in enumerate(steps):
        with pytest.raises(Conflict) as refusal:
            await asyncio.to_thread(doors.tenants.delete, ACME)
        assert (refusal.value.code, what in refusal.value.message) == ("tenant_owns", True), refusal.value.message
        assert ("aliases (1)" in refusal.value.message) == (number < 2)
        await asyncio.to_thread(step)
    await asyncio.to_thread(doors.tenants.delete, ACME)
    assert ACME not in {each.id for each in doors.tenants.visible()}


async def test_what_tells_of_it_stays_and_nobody_gets_its_id(engine: Make) -> None:
    """Its log is read by who sees all tenants; making it, registering for it and restoring what it had are refused, after a restart too."""
    served = engine()
    key = await settled(served)
    doors = served.engine
    for number in (1, 2):
        await asyncio.to_thread(doors.versions.retirement.retire, f"bot@{number}", tenant=ACME)
    await asyncio.to_thread(doors.versions.retirement.archive, "bot@2", tenant=ACME)
    doors.schedules.drop(doors.schedules.every(tenant=ACME)[0].key)
    doors.tenants.users.delete("ana")
    doors.tenants.keys.revoke(key)
    assert doors.events(tenant=ACME).newest > doors.events(tenant=TenantId("nobody")).newest
    doors.tenants.delete(ACME)
    assert doors.events(tenant=ACME) == doors.events(tenant=TenantId("nobody"))
    await nothing_opens(served)
    served.engine.stop()
    served = engine()
    await nothing_opens(served)
    removed = await asyncio.to_thread(served.engine.versions.removal.delete_archive, "bot@2", tenant=ACME)
    assert not removed.preview


async def nothing_opens(served: Served) -> None:
    """The log is there, and each way to give acme something is refused."""
    doors, folder = served.engine, str(served.folder("bot"))
    assert {"adapter.register", "tenant.create", "tenant.delete"} <= {line.action for line in doors.audit.lines(tenant=ACME)}
    restore = doors.versions.retirement.restore
    ways: list[Callable[[], object]] = [
        lambda: doors.tenants.create(ACME),
        *[partial(doors.register, folder, alias=alias, tenant=ACME) for alias in ("bot", "new")],
        *[partial(restore, f"bot@{number}", tenant=ACME) for number in (1, 2)],
        lambda: doors.schedules.add(Wish(alias="bot", trigger="sign_in"), tenant=ACME),
    ]
    assert [await refused(way) for way in ways] == ["tenant_was_deleted"] * len(ways)
    with pytest.raises(NotFound):
        doors.tenants.keys.create("k", tenant=ACME)
    await until(lambda: not doors.snapshot().adapters)


async def refused(way: Callable[[], object]) -> str:
    """The code of a refusal."""
    try:
        await asyncio.to_thread(way)
    except LoradeckError as refusal:
        return refusal.code
    return ""
