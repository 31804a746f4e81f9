"""Two changes of one account at the same moment both hold: neither puts back what the other has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from engine.errors import Conflict, Forbidden, Unauthorized
from engine.gateway.gate import Gate
from engine.ids import TenantId
from engine.settings import Settings
from engine.tenants.tenants import Tenants
from tests.accounts import open_accounts
from tests.fakes import FakeClock

PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test
ACME = TenantId("acme")


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    """A tenant with a user."""
    accounts = open_accounts(Settings(data=tmp_path), Gate(FakeClock()))
    accounts.create(ACME)
    accounts.users.add("anna", PASSWORD, role="viewer", tenant=ACME)
    return accounts


def together(tenants: Tenants, *changes: Callable[[], object]) -> None:
    """Each is asked for before the registry has done any of them."""
    busy, free = threading.Event(), threading.Event()

    def hold(_session: object) -> None:
        busy.set()
        assert free.wait(20)

    def try_it(change: Callable[[], object]) -> None:
        with suppress(Conflict):
            change()

    store = tenants.directory.store
    with ThreadPoolExecutor(len(changes) + 1) as pool:
        pool.submit(store.write, hold)
        assert busy.wait(20)
        asked = []
        for number, change in enumerate(changes, start=1):
            asked.append(pool.submit(try_it, change))
            while len(store._waiting) < number:
                threading.Event().wait(0.001)
        free.set()
        for one in asked:
            one.result(20)


def test_a_revoked_key_stays_revoked_when_it_is_rotated_as_well(tenants: Tenants) -> None:
    """Its successor is refused, or holds alone."""
    made = tenants.keys.create("ci", tenant=ACME)
    key = made.record.id
    together(tenants, lambda: tenants.keys.revoke(key), lambda: tenants.keys.rotate(key, overlap_s=3600))
    with pytest.raises(Unauthorized):
        tenants.access.by_key(made.token)
    assert [one.id for one in tenants.keys.list()] == [key]


def test_a_disabled_user_stays_out_when_the_role_is_changed_as_well(tenants: Tenants) -> None:
    """The role is the new one and the account disabled."""
    together(tenants, lambda: tenants.users.disable("anna"), lambda: tenants.users.set_role("anna", role="operator", tenant=ACME))
    with pytest.raises(Unauthorized):
        tenants.access.sign_in("anna", PASSWORD, "api")
    assert [one.role for one in tenants.users.list()] == ["operator"]


def test_a_suspended_tenant_stays_suspended_when_it_is_renamed_as_well(tenants: Tenants) -> None:
    """Its keys call nothing under the new name."""
    made = tenants.keys.create("ci", tenant=ACME)
    together(tenants, lambda: tenants.suspend(ACME), lambda: tenants.rename(ACME, "Acme Ltd"))
    with pytest.raises(Forbidden):
        tenants.access.by_key(made.token)
    assert tenants.directory.tenants[ACME].name == "Acme Ltd"
