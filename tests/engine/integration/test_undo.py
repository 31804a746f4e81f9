"""What the audit log tells of can be taken back from there, once, and with a line of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.alias import AliasName, AliasRecord
from engine.audit_record import AuditRecord
from engine.caller import SYSTEM
from engine.errors import AdapterNotFound, Conflict, Forbidden, RegistryUnavailable
from engine.ids import TenantId
from engine.report import Thresholds
from engine.versions.schedules import Wish
from engine.versions.thresholds import GateThresholds
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, until
from tests.tiny import AdapterRecipe


async def newest(served: Served, action: str) -> AuditRecord:
    """The last line of an action."""
    return (await asyncio.to_thread(lambda: served.engine.audit.lines(action=action, limit=1)))[0]


async def undo(served: Served, action: str) -> AuditRecord:
    """Take back the last of an action; the new line."""
    line = await newest(served, action)
    done = await asyncio.to_thread(lambda: served.engine.audit.undo(line.key))
    assert done.undo_of == line.key
    return done


async def test_each_reversible_action_is_taken_back(engine: Make) -> None:
    """Moves, canaries, drops, retirements, pins, schedules and thresholds: the state before is the state after, and so says the log."""
    served = engine()
    versions = served.engine.versions
    await served.add("x", AdapterRecipe(seed=1))
    await served.register(served.folder("new", AdapterRecipe(seed=2)), "x", replace=True)
    first, second = (number.id for number in served.host.catalog.lines["default", "x"].values())  # type: ignore[index]
    await undo(served, "adapter.register")
    assert served.engine.resolve("x").adapter == first
    await asyncio.to_thread(versions.names.canary, "x", "2", 0.5)
    await undo(served, "alias.canary")
    assert served.host.catalog.aliases["default", "x"].canary is None  # type: ignore[index]
    await served.unregister("x")
    await until(lambda: not served.host.residency.entries)
    await undo(served, "alias.drop")
    assert (served.engine.resolve("x").adapter, served.engine.resolve(second).adapter) == (first, second)
    dropped = await newest(served, "alias.drop")
    steps = await asyncio.to_thread(lambda: [one.action for one in served.engine.audit.lines() if one.undo_of == dropped.key])
    assert steps == ["alias.move"]
    await asyncio.to_thread(versions.retirement.retire, "x")
    await undo(served, "version.retire")
    assert served.engine.resolve("x").adapter == first
    await served.control("pin", "x")
    await undo(served, "version.pin")
    assert not (await served.row("x")).pinned
    await undo(served, "version.unpin")
    assert (await served.row("x")).pinned
    await asyncio.to_thread(served.engine.schedules.add, Wish(alias="x", at="08:00"))
    await undo(served, "schedule.put")
    assert not served.engine.schedules.every()
    await undo(served, "schedule.drop")
    assert [one.alias for one in served.engine.schedules.every()] == ["x"]
    await asyncio.to_thread(versions.thresholds.set, Thresholds(min_score=0.9))
    await undo(served, "gate.set")
    assert versions.thresholds.of(TenantId("default")).min_score is None
    assert len((await served.ask("x", max_tokens=3)).ids) == 3


async def test_what_cannot_be_taken_back_says_why(engine: Make) -> None:
    """Twice, after something else came between, without an opposite, of another tenant, below the role: each a typed refusal."""
    served = engine()
    names = served.engine.versions.names
    await served.add("x", AdapterRecipe(seed=1))
    await served.register(served.folder("new", AdapterRecipe(seed=2)), "x", replace=True)
    await asyncio.to_thread(names.rollback, "x")
    line = await newest(served, "alias.rollback")
    await asyncio.to_thread(names.rollback, "x")
    audit = served.engine.audit
    with pytest.raises(Conflict) as caught:
        await asyncio.to_thread(audit.undo, line.key)
    assert caught.value.code == "moved_on"
    line = await newest(served, "alias.rollback")
    await asyncio.to_thread(audit.undo, line.key)
    with pytest.raises(Conflict) as caught:
        await asyncio.to_thread(audit.undo, line.key)
    assert caught.value.code == "already_undone"
    await served.control("evict", "x")
    with pytest.raises(Conflict) as caught:
        await asyncio.to_thread(audit.undo, (await newest(served, "version.evict")).key)
    assert caught.value.code == "not_reversible"
    stranger = replace(SYSTEM, tenant=TenantId("other"))
    with pytest.raises(AdapterNotFound):
        await asyncio.to_thread(lambda: audit.undo(line.key, caller=stranger))
    assert await asyncio.to_thread(lambda: audit.lines(caller=stranger)) == []
    viewer = replace(SYSTEM, role="viewer")
    with pytest.raises(Forbidden):
        await asyncio.to_thread(lambda: audit.undo(line.key, caller=viewer))


@pytest.mark.parametrize("action", ["version.retire", "alias.drop"])
async def test_an_undo_that_fails_midway_can_be_tried_again(engine: Make, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """The version is ready again and a name is not: the line does not count as taken back, and the next try does what is left, once."""
    served = engine()
    versions, audit = served.engine.versions, served.engine.audit
    await served.add("x", AdapterRecipe(seed=1))
    record = versions.find.version("x", None)
    names = {"x"}
    if action == "version.retire":
        names.add("y")
        await asyncio.to_thread(versions.names.create, "y", record, tenant=record.tenant)
        await asyncio.to_thread(versions.retirement.retire, "x")
    else:
        await served.unregister("x")
    line = await newest(served, action)
    apply, tries = versions.moves.apply, itertools.count(2 - len(names))

    def fails_at_the_last_name(*given: Any, **more: Any) -> AliasRecord:
        if next(tries) == 1:
            raise RegistryUnavailable("The disk is full.")
        return apply(*given, **more)

    monkeypatch.setattr(versions.moves, "apply", fails_at_the_last_name)
    with pytest.raises(RegistryUnavailable):
        await asyncio.to_thread(audit.undo, line.key)
    assert await asyncio.to_thread(audit.undone, [line]) == {}
    assert versions.find.version(f"x@{record.number}", None).state == "ready"
    assert {alias.name for alias in served.host.catalog.aliases} == names - {max(names)}
    done = await asyncio.to_thread(audit.undo, line.key)
    assert await asyncio.to_thread(audit.undone, [line]) == {line.key: done.key}
    assert {alias.name for alias in served.host.catalog.aliases} == names
    with pytest.raises(Conflict) as caught:
        await asyncio.to_thread(audit.undo, line.key)
    assert caught.value.code == "already_undone"


@pytest.mark.parametrize("action", ["version.retire", "alias.drop"])
async def test_a_name_comes_back_with_its_canary(engine: Make, action: str) -> None:
    """And with the share that it had; while the canary cannot serve, nothing comes back, and the refusal names it."""
    served = engine()
    versions, audit, name = served.engine.versions, served.engine.audit, AliasName(TenantId("default"), "x")
    await served.add("x", AdapterRecipe(seed=1))
    await served.register(served.folder("new", AdapterRecipe(seed=2)), "x", replace=True)
    await served.register(served.folder("kept", AdapterRecipe(seed=3)), "y")
    await asyncio.to_thread(versions.names.canary, "x", versions.find.version("y", None).id, 0.25)
    before = served.host.catalog.aliases[name]

    async def leave() -> AuditRecord:
        await (asyncio.to_thread(versions.retirement.retire, "x") if action == "version.retire" else served.unregister("x"))
        assert name not in served.host.catalog.aliases
        return await newest(served, action)

    await leave()
    await undo(served, action)
    again = served.host.catalog.aliases[name]
    assert (again.version, again.canary_version, again.canary_share) == (before.version, before.canary_version, 0.25)
    line = await leave()
    await asyncio.to_thread(versions.retirement.retire, "y")
    with pytest.raises(Conflict, match="y@1 is retired"):
        await asyncio.to_thread(audit.undo, line.key)
    assert versions.find.version("x@2", None).state == "retired"
    await undo(served, "version.retire")
    await asyncio.to_thread(audit.undo, line.key)
    assert served.host.catalog.aliases[name].canary_share == 0.25


async def test_what_changed_since_is_not_undone(engine: Make) -> None:
    """A canary, a schedule and a threshold that somebody has set anew stay as they are when an older line is taken back."""
    served = engine()
    versions, audit, schedules = served.engine.versions, served.engine.audit, served.engine.schedules
    await served.add("x", AdapterRecipe(seed=1))
    for number in (2, 3):
        await served.register(served.folder(f"new{number}", AdapterRecipe(seed=number)), "x", replace=True)

    async def twice(action: str, first: Callable[[], object], then: Callable[[], object]) -> None:
        await asyncio.to_thread(first)
        line = await newest(served, action)
        await asyncio.to_thread(then)
        with pytest.raises(Conflict) as caught:
            await asyncio.to_thread(audit.undo, line.key)
        assert caught.value.code == "moved_on"

    await twice("alias.canary", lambda: versions.names.canary("x", "1", 0.1), lambda: versions.names.canary("x", "2", 0.5))
    assert served.host.catalog.aliases["default", "x"].canary_share == 0.5  # type: ignore[index]
    later = Wish(alias="x", at="09:00")
    await twice(
        "schedule.put", lambda: schedules.add(Wish(alias="x", at="08:00")), lambda: schedules.change(schedules.every()[0].key, later)
    )
    assert [one.minute for one in schedules.every()] == [9 * 60]
    thresholds = versions.thresholds
    await twice("gate.set", lambda: thresholds.set(Thresholds(min_score=0.5)), lambda: thresholds.set(Thresholds(min_score=0.9)))
    assert thresholds.of(TenantId("default")).min_score == 0.9


async def test_a_tenant_without_thresholds_follows_the_base_again(engine: Make) -> None:
    """Taking back a tenant's first thresholds leaves it those of the base, after a restart too, and not an open gate."""
    served, tenant = engine(), TenantId("acme")
    thresholds = served.engine.versions.thresholds
    await asyncio.to_thread(thresholds.set, Thresholds(min_score=0.9))
    await asyncio.to_thread(lambda: thresholds.set(Thresholds(min_score=0.1), tenant=tenant))
    await undo(served, "gate.set")
    assert thresholds.of(tenant).min_score == 0.9
    assert GateThresholds(served.host).of(tenant).min_score == 0.9
