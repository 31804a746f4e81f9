"""What is registered: one transaction for version, alias and audit line, and memory that follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from engine.alias import AliasName
from engine.errors import RegistryUnavailable
from engine.ids import SHARED_TENANT, AdapterId, TenantId
from engine.registry import aliases, audit
from engine.registry.catalog import Catalog, NewVersion, Registered
from engine.registry.store import Store
from engine.version import VersionRecord
from tests.engine.registry.conftest import SQLITE

Open = Callable[[], Store]
ACME, GLOBEX = TenantId("acme"), TenantId("globex")
BASE = "b" * 64


def version(content: str, tenant: TenantId = ACME, **more: object) -> VersionRecord:
    """A version of made-up weights."""
    facts: dict[str, object] = {
        "id": AdapterId(content), "digest": content, "tenant": tenant, "source": f"/{content}", "base_digest": BASE, "rank": 8,
        "modules": ("q_proj", "v_proj"), "num_matched": 4, "num_pages": 2, "bytes": 4096, "base_proof": "declared", "registered_unix": 1.5,
    }  # fmt: skip
    return VersionRecord(**facts | more)  # type: ignore[arg-type]


def register(catalog: Catalog, content: str, name: str = "x", tenant: TenantId = ACME, **more: object) -> Registered:
    """Register and name it."""
    (done,) = catalog.register(NewVersion(record=version(content, tenant, **more), alias=AliasName(tenant, name)))
    return done


def same(first: Catalog, second: Catalog) -> None:
    """Two catalogs say the same."""
    for name in ("records", "lines", "versions", "aliases"):
        assert getattr(first, name) == getattr(second, name), name
    assert dict(first.holders) == dict(second.holders)


def test_memory_is_what_a_restart_reads(open_store: Open) -> None:
    """After any changes, what is in memory is what the next process finds."""
    catalog = Catalog(open_store(), base_digest=BASE)
    register(catalog, "one", fingerprint=(0.1, 2.0), warnings=("w",))
    register(catalog, "two")
    register(catalog, "one", tenant=GLOBEX)
    register(catalog, "three", name="y", base_digest="other")
    register(catalog, "one", name="z")
    catalog.prove(AdapterId("two"), (1.25, -3.0))
    catalog.drop_alias(AliasName(ACME, "y"), retiring=list(catalog.lines[AliasName(ACME, "y")].values()))
    same(catalog, Catalog(open_store(), base_digest=BASE))
    assert set(catalog.versions) == {"one", "two"}


def test_versions_of_a_line_are_numbered(store: Store) -> None:
    """New content under an alias is the next version of its line; content that was there before keeps its number."""
    catalog = Catalog(store, base_digest=BASE)
    numbers = [register(catalog, content).record.number for content in ("one", "two", "one", "three")]
    assert numbers == [1, 2, 1, 3]
    assert register(catalog, "one", tenant=GLOBEX).record.number == 1
    assert {number: record.id for number, record in catalog.lines[AliasName(ACME, "x")].items()} == {1: "one", 2: "two", 3: "three"}


def test_an_alias_has_a_history(store: Store) -> None:
    """Every move says from which version to which; naming the same again is no move. It outlasts the alias."""
    catalog = Catalog(store, base_digest=BASE)
    one, two = register(catalog, "one").record.key, register(catalog, "two").record.key
    register(catalog, "two")
    catalog.drop_alias(AliasName(ACME, "x"), why="no longer needed")
    moves = store.read(lambda session: aliases.moves(session, AliasName(ACME, "x")))
    assert [(move.kind, move.before, move.after) for move in moves] == [("drop", two, None), ("move", one, two), ("create", None, one)]
    assert moves[0].why == "no longer needed"


def test_a_registration_is_in_the_audit_log(store: Store) -> None:
    """One line for what changed, none for what was so already."""
    catalog = Catalog(store, base_digest=BASE)
    register(catalog, "one")
    register(catalog, "one")
    register(catalog, "two")
    newest, first = store.read(audit.page)
    assert (first.action, first.object, first.tenant, first.before) == ("adapter.register", "x", ACME, None)
    assert newest.before == {"adapter": "one", "version": 1, "canary": None, "canary_version": None, "canary_share": 0.0}
    assert newest.after is not None
    assert (newest.after["adapter"], newest.after["number"]) == ("two", 2)


def test_many_are_registered_whole_or_not_at_all(store: Store) -> None:
    """One that cannot be stored undoes them all, in the database and in memory."""
    catalog = Catalog(store, base_digest=BASE)
    good = NewVersion(record=version("one"), alias=AliasName(ACME, "x"))
    bad = dataclasses.replace(good, record=version("two", source="\ud800"), alias=AliasName(ACME, "y"))
    with pytest.raises(Exception, match="cannot be stored"):
        catalog.register(good, bad)
    assert not catalog.aliases
    assert not catalog.versions
    assert store.read(audit.page) == []
    assert len(catalog.register(good, dataclasses.replace(bad, record=version("two")))) == 2


@SQLITE
def test_a_failed_commit_changes_nothing_in_memory(store: Store) -> None:
    """What is served stays as it was when the database does not take a change."""
    catalog = Catalog(store, base_digest=BASE)
    register(catalog, "one")
    store.database.file.rename(store.database.file.with_suffix(".away"))  # type: ignore[union-attr]
    with pytest.raises(RegistryUnavailable):
        register(catalog, "two")
    with pytest.raises(RegistryUnavailable):
        catalog.drop_alias(AliasName(ACME, "x"))
    assert catalog.aliases[AliasName(ACME, "x")].adapter == "one"
    assert set(catalog.versions) == {"one"}


def test_a_tenant_sees_its_own_and_what_all_share(store: Store) -> None:
    """Its alias comes before the shared one of the same name; another tenant's is not there."""
    catalog = Catalog(store, base_digest=BASE)
    register(catalog, "shared", tenant=SHARED_TENANT)
    register(catalog, "own")
    register(catalog, "secret", name="s", tenant=GLOBEX)
    found = [catalog.resolve(name, tenant) for name, tenant in (("x", ACME), ("x", GLOBEX), ("s", ACME), ("X", ACME))]
    assert [alias and alias.adapter for alias in found] == ["own", "shared", None, None]
    assert catalog.holds(AdapterId("shared"), {ACME, SHARED_TENANT})
    assert catalog.holds(AdapterId("secret"), None)
    assert [alias and alias.adapter for alias in (catalog.resolve("s", None), catalog.resolve("x", None))] == ["secret", "shared"]
    assert not catalog.holds(AdapterId("secret"), {ACME, SHARED_TENANT})


def test_nothing_of_another_base_serves(store: Store) -> None:
    """A version of another base is listed and never among what may serve, also after it is registered again for this one."""
    catalog = Catalog(store, base_digest=BASE)
    register(catalog, "one", base_digest="other")
    assert not catalog.versions
    assert len(catalog.records) == 1
    register(catalog, "one")
    assert set(catalog.versions) == {"one"}
