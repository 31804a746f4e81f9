"""Somebody who may do everything is always left, and whoever loses a right loses what it opened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import Conflict, InvalidRequest, LoradeckError, Unauthorized
from engine.gateway.gate import Gate
from engine.ids import TenantId
from engine.settings import Settings
from engine.tenants.tenants import Tenants
from tests.accounts import open_accounts
from tests.fakes import FakeClock

PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test
ACME = TenantId("acme")
WAIT_S = 20.0


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    """An admin, and accounts that are none: of one tenant, of a lower role, disabled."""
    accounts = open_accounts(Settings(data=tmp_path), Gate(FakeClock()))
    accounts.create(ACME)
    accounts.users.add("root", PASSWORD, role="admin")
    accounts.users.add("anna", PASSWORD, role="admin", tenant=ACME)
    accounts.users.add("olaf", PASSWORD, role="operator")
    accounts.users.add("gone", PASSWORD, role="admin")
    accounts.users.disable("gone")
    return accounts


WAYS: dict[str, Callable[[Tenants, str], object]] = {
    "delete": lambda tenants, name: tenants.users.delete(name),
    "disable": lambda tenants, name: tenants.users.disable(name),
    "demote": lambda tenants, name: tenants.users.set_role(name, role="operator"),
    "confine": lambda tenants, name: tenants.users.set_role(name, role="admin", tenant=ACME),
}


def test_a_taken_name_tells_nothing_of_others(tenants: Tenants) -> None:
    """An admin of one tenant may use any name, whoever has it elsewhere: it is one within the tenant, and taken only there."""
    tenants.create(TenantId("zorn"))
    tenants.users.add("zoe", PASSWORD, role="viewer", tenant=TenantId("zorn"))
    anna = tenants.directory.users["anna"].caller()
    made = [tenants.users.add(name, PASSWORD, role="viewer", tenant=ACME, caller=anna).name for name in ("zoe", "nobody", "root", "z@zorn")]
    assert made == ["zoe@acme", "nobody@acme", "root@acme", "z@zorn@acme"]
    assert tenants.access.by_session(tenants.access.sign_in("zoe@acme", PASSWORD, "api"), "api").tenant == ACME
    for name in ("zoe", "zoe@acme"):
        with pytest.raises(Conflict) as refusal:
            tenants.users.add(name, PASSWORD, role="viewer", tenant=ACME, caller=anna)
        assert refusal.value.code == "user_exists"
    with pytest.raises(InvalidRequest) as taken:
        tenants.users.add("new@acme", PASSWORD, role="viewer", tenant=TenantId("zorn"))
    assert taken.value.code == "name_of_a_tenant"
    assert tenants.users.add("ana@example.com", PASSWORD, role="viewer").name == "ana@example.com"


@pytest.mark.parametrize("way", WAYS)
def test_the_last_admin_stays(tenants: Tenants, way: str) -> None:
    """Neither deleted, disabled, demoted nor confined to a tenant; with another one it goes."""
    before = tenants.users.list()
    with pytest.raises(Conflict) as refusal:
        WAYS[way](tenants, "root")
    assert (refusal.value.code, refusal.value.param) == ("last_admin", "user")
    assert tenants.users.list() == before
    assert tenants.access.sign_in("root", PASSWORD, "api")
    tenants.users.enable("gone")
    WAYS[way](tenants, "root")


@pytest.mark.parametrize("way", WAYS)
def test_two_admins_cannot_end_each_other(tenants: Tenants, way: str) -> None:
    """Both asked at the same moment, while the registry was busy: one is left."""
    tenants.users.enable("gone")
    begun, go_on, both = threading.Event(), threading.Event(), ThreadPoolExecutor(3)
    held = both.submit(tenants.directory.store.write, lambda _: begun.set() or go_on.wait(WAIT_S))
    assert begun.wait(WAIT_S)
    asked = [both.submit(WAYS[way], tenants, name) for name in ("root", "gone")]
    waited_to_s = time.monotonic() + WAIT_S
    while len(tenants.directory.store._waiting) < 2 and time.monotonic() < waited_to_s:
        begun.wait(0.001)
    go_on.set()
    assert held.result()
    refused = [error for one in asked if (error := one.exception()) is not None]
    assert [error.code for error in refused if isinstance(error, LoradeckError)] == ["last_admin"]
    assert len([user for user in tenants.users.list() if (user.role, user.tenant, user.disabled_unix) == ("admin", None, None)]) == 1


def test_a_session_ends_when_its_right_does(tmp_path: Path) -> None:
    """Suspended tenants, changed accounts and time end sessions, and whoever listens is told of each once."""
    clock = FakeClock()
    accounts = open_accounts(Settings(data=tmp_path), Gate(clock), clock)
    accounts.create(ACME)
    accounts.users.add("root", PASSWORD, role="admin")
    ended: list[str] = []
    accounts.sessions.on_end.append(lambda session: ended.append(session.user))
    ways: dict[str, Callable[[str], object]] = {
        "suspended": lambda _: accounts.suspend(ACME),
        "disabled": accounts.users.disable,
        "deleted": accounts.users.delete,
        "another": lambda name: accounts.users.set_role(name, role="operator", tenant=ACME),
        "reset": lambda name: accounts.users.reset(name, "another horse battery"),
    }
    kept = accounts.access.sign_in("root", PASSWORD, "console")
    for name, end in ways.items():
        accounts.resume(ACME)
        accounts.users.add(name, PASSWORD, role="viewer", tenant=ACME)
        token = accounts.access.sign_in(name, PASSWORD, "console")
        assert accounts.access.by_session(token, "console").name == name
        end(name)
        accounts.resume(ACME)
        with pytest.raises(Unauthorized):
            accounts.access.by_session(token, "console")
        assert ended == [name]
        ended.clear()
    clock.advance(12 * 3600 - 1.0)
    accounts.sessions.end_old()
    assert accounts.access.by_session(kept, "console").name == "root"
    clock.advance(1.0)
    accounts.sessions.end_old()
    assert ended == ["root"]
    assert len(accounts.sessions) == 0
