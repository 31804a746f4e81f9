"""Whoever guesses passwords is slowed down, however many tries come at once, and learns nothing of names."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import LoradeckError
from engine.gateway import passwords
from engine.gateway.gate import Gate
from engine.gateway.throttle import FREE_TRIES
from engine.settings import Settings
from engine.tenants.tenants import Tenants
from tests.accounts import open_accounts
from tests.fakes import FakeClock

PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test
NAMES = ("root", "nobody", "gone")
"""Known, unknown, and disabled."""


@pytest.fixture
def clock() -> FakeClock:
    """Stands still."""
    return FakeClock()


@pytest.fixture
def tenants(tmp_path: Path, clock: FakeClock) -> Tenants:
    """An admin, and somebody who is disabled."""
    accounts = open_accounts(Settings(data=tmp_path), Gate(clock), clock)
    for name in ("root", "gone"):
        accounts.users.add(name, PASSWORD, role="admin")
    accounts.users.disable("gone")
    return accounts


def told(tenants: Tenants, name: str, password: str = "wrong horse battery") -> str:  # noqa: S107 - a wrong one
    """What somebody hears who tries to sign in."""
    try:
        tenants.access.sign_in(name, password, "api")
    except LoradeckError as refusal:
        return refusal.code
    return "signed in"


@pytest.mark.parametrize("name", NAMES)
def test_tries_at_once_are_counted_before_they_are_looked_at(tenants: Tenants, name: str) -> None:
    """Of 20 at the same moment as many are looked at as of 20 in a row, whether or not there is such a person."""
    barrier = threading.Barrier(20)

    def one(_: int) -> str:
        barrier.wait()
        return told(tenants, name)

    with ThreadPoolExecutor(20) as threads:
        heard = Counter(threads.map(one, range(20)))
    assert heard == {"wrong_credentials": FREE_TRIES, "too_many_attempts": 20 - FREE_TRIES}


def test_waits_are_the_same_for_all_names(tenants: Tenants, clock: FakeClock) -> None:
    """Known, unknown and disabled with the right password: the same answers at the same times; a minute at most."""
    heard: dict[str, list[str]] = {name: [] for name in NAMES}
    for pause_s in (0.0,) * 6 + (0.9, 0.2, 1.0, 1.1, 60.0):
        clock.advance(pause_s)
        for name in NAMES:
            heard[name].append(told(tenants, name, PASSWORD if name == "gone" else "wrong horse battery"))
    assert heard["root"] == heard["nobody"] == heard["gone"]
    refused = [number for number, answer in enumerate(heard["root"]) if answer == "too_many_attempts"]
    assert refused == [5, 6, 8]


def test_the_right_password_forgets_what_went_before(tenants: Tenants) -> None:
    """Somebody who mistyped begins anew; refusals while one has to wait count for nothing."""
    for _ in range(2):
        assert [told(tenants, "root") for _ in range(FREE_TRIES - 1)] == ["wrong_credentials"] * (FREE_TRIES - 1)
        assert told(tenants, "root", PASSWORD) == "signed in"


def test_a_name_costs_the_same_work_known_or_not(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first try after a start on, which is where a hash for nobody is made."""
    done: list[str] = []

    class Counting:
        """The hasher, noting what it is asked."""

        def hash(self, password: str) -> str:
            done.append("hash")
            return hasher.hash(password)

        def verify(self, password_hash: str, password: str) -> bool:
            done.append("verify")
            return hasher.verify(password_hash, password)

    hasher = passwords._HASHER
    monkeypatch.setattr(passwords, "_HASHER", Counting())
    work = []
    for name in NAMES:
        passwords._nobody.cache_clear()
        done.clear()
        told(tenants, name)
        work.append(tuple(done))
    assert work == [("hash", "verify")] * len(NAMES)
