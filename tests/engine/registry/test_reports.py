"""Versions by their state: counted, and a page at a time."""

from __future__ import annotations

from engine.alias import AliasName
from engine.ids import TenantId
from engine.registry import reports
from engine.registry.store import Store

ACME, ZETA = TenantId("acme"), TenantId("zeta")


def reject(store: Store, tenant: TenantId, line: str) -> None:
    """One refusal."""
    report = {"checks": [], "code": "no_effect", "message": "It changes nothing."}
    store.write(
        lambda session: reports.reject(
            session, AliasName(tenant, line), content=None, source=f"/data/{line}", base_digest="b", report=report, by="ann"
        )
    )


def test_versions_are_counted_and_paged_by_state(store: Store) -> None:
    """Newest first, cut by tenant and by part of the name, in which a wildcard is a letter like others."""
    for line in ("a", "b_1", "bx1"):
        reject(store, ACME, line)
    reject(store, ZETA, "b_2")
    assert store.read(lambda session: reports.tally(session, None)) == {"rejected": 4}
    assert store.read(lambda session: reports.tally(session, ZETA)) == {"rejected": 1}

    def page(**asked: object) -> tuple[list[str], int]:
        wanted = {"tenant": None, "text": "", "limit": 10, "offset": 0, **asked}
        rows, found = store.read(lambda session: reports.in_states(session, ["rejected"], **wanted))  # type: ignore[arg-type]
        return [row["line"] for row in rows], found

    assert page(limit=2) == (["b_2", "bx1"], 4)
    assert page(limit=2, offset=2) == (["b_1", "a"], 4)
    assert page(tenant=ACME, text="B_") == (["b_1"], 1)
    assert store.read(lambda session: reports.in_states(session, ["retired"], tenant=None, text="", limit=5, offset=0)) == ([], 0)
