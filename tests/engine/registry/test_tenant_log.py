"""A tenant reads its lines of the log by their own numbers, and a tenant that is deleted leaves its id."""

from __future__ import annotations

import pytest

from engine.audit_record import Subject
from engine.caller import SYSTEM
from engine.errors import Conflict
from engine.ids import TenantId
from engine.registry import audit, tenant_log, tenants
from engine.registry.store import Store

ACME, RIVAL = TenantId("acme"), TenantId("rival")


def note(store: Store, tenant: TenantId | None, **more: object) -> int:
    """A line about something of a tenant's."""
    return store.write(lambda session: audit.append(session, SYSTEM, "a.b", Subject("a", "x", tenant), **more))  # type: ignore[arg-type]


def test_numbers_are_of_the_tenants_own_lines(store: Store) -> None:
    """From 1 without gaps, there and back, whatever lies between; what a line took back is told so too, and others' lines not at all."""
    mine = []
    for number in range(6):
        for tenant in (RIVAL, None, ACME):
            undo_of = mine[0] if tenant == ACME and number == 3 else None
            key = note(store, tenant, undo_of=undo_of, before={"version": 999, "retired": [999]})
            mine += [key] if tenant == ACME else []
    assert store.read(lambda session: tenant_log.numbers(session, ACME, range(100))) == {key: n for n, key in enumerate(mine, start=1)}
    assert store.read(lambda session: tenant_log.keys(session, ACME, [0, 2, 6, 7])) == {2: mine[1], 6: mine[5]}
    lines = store.read(lambda session: tenant_log.narrow_lines(session, ACME, audit.page(session, tenant=ACME, limit=4)))
    assert [line.key for line in lines] == [6, 5, 4, 3]
    assert [line.undo_of for line in lines] == [None, None, 1, None]
    assert {line.hash for line in lines} == {""}
    assert lines[0].before == {"version": None, "retired": [None]}


def test_a_deleted_tenant_leaves_its_id(store: Store) -> None:
    """It is listed no more, nothing can be made for it, and its keys are gone; what stands in the way is counted."""
    store.write(lambda session: tenants.ensure(session, ACME, by="ann"))
    assert store.read(lambda session: tenants.stands(session, ACME)) == {}
    store.write(lambda session: tenants.delete(session, ACME, at_unix=1.0))
    assert ACME not in {one.id for one in store.read(tenants.every)}
    with pytest.raises(Conflict) as refusal:
        store.write(lambda session: tenants.ensure(session, ACME, by="ann"))
    assert refusal.value.code == "tenant_was_deleted"
