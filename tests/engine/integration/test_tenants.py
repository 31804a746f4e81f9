"""Whose an adapter is decides who can name it."""

from __future__ import annotations

import pytest

from engine.caller import Caller, Role
from engine.errors import AdapterNotFound, Forbidden, LoradeckError, ModelNotFound
from engine.ids import SHARED_TENANT, TenantId
from tests import tiny
from tests.engine.integration.conftest import Make

ACME, OTHER = TenantId("acme"), TenantId("other")


def member(tenant: TenantId | None, role: Role | None = "operator") -> Caller:
    """Somebody with a role in one tenant, or in all."""
    return Caller(name="ana", kind="user", role=role, tenant=tenant)


def words(error: pytest.ExceptionInfo[LoradeckError], name: str) -> tuple[str, str, str]:
    """What a refusal says, without the name that was asked for."""
    return error.value.code, str(error.value.message).replace(name, "?"), str(error.value.param)


async def test_names_of_others_do_not_exist(engine: Make) -> None:
    """A tenant finds its own names and the shared ones; another's name and version id are refused as an unknown name is."""
    served = engine()
    for name, tenant in (("mine", ACME), ("theirs", OTHER), ("everyones", SHARED_TENANT)):
        await served.add(name, tiny.AdapterRecipe(seed=len(name)), tenant=tenant)
    doors, theirs = served.engine, served.entry("theirs").record.id
    assert [card.id for card in doors.models(ACME)] == [doors.base_name, "mine", "everyones"]
    assert doors.resolve("mine", ACME).alias == "mine"
    assert doors.resolve("everyones", ACME).alias == "everyones"
    assert doors.resolve(served.entry("mine").record.id, ACME).adapter == served.entry("mine").record.id
    told = set()
    for name in ("theirs", theirs, "nobody"):
        with pytest.raises(ModelNotFound) as refusal:
            doors.resolve(name, ACME)
        told.add(words(refusal, name))
        with pytest.raises(ModelNotFound):
            served.submit(name, tenant=ACME, reach="own")
    assert len(told) == 1
    assert {card.id for card in doors.models()} >= {"mine", "theirs", "everyones"}


async def test_commands_stay_within_their_tenant(engine: Make) -> None:
    """An operator of one tenant moves, registers and withdraws its own; a viewer nothing; an operator of all, everything."""
    served = engine()
    folder = await served.add("theirs", tenant=OTHER)
    doors = served.engine
    for ref in ("theirs", served.entry("theirs").record.id, "nobody"):
        with pytest.raises(AdapterNotFound):
            doors.control("evict", ref, caller=member(ACME), tenant=OTHER)
        with pytest.raises(ModelNotFound):
            doors.unregister(ref, caller=member(ACME), tenant=OTHER)
    for tenant in (OTHER, TenantId("nobody")):
        with pytest.raises(Forbidden, match="This needs a role for that tenant"):
            doors.register(str(folder), alias="x", tenant=tenant, caller=member(ACME))
    for role in ("viewer", None):
        with pytest.raises(Forbidden):
            doors.control("evict", "theirs", caller=member(OTHER, role))
        with pytest.raises(Forbidden):
            doors.register(str(folder), alias="x", caller=member(OTHER, role))
    assert doors.control("evict", "theirs", caller=member(OTHER)).result(20).applied
    assert doors.control("warm", "theirs", caller=member(None)).result(20).applied
    doors.unregister("theirs", caller=member(OTHER))
