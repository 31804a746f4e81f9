"""What pages say, computed from a snapshot: the memory that adds up, the verdict, the queries, the ways back."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from console.actions import Command, inverse
from console.changes import changes
from console.history import BUCKET_S, NUM_BUCKETS, Ring, spark_path
from console.memory import memory_view
from console.query import AdapterQuery, select
from console.shelf import Shelf, Shelves
from console.stored import OpenedRef, StoredVersion, opened_ref
from console.verdict import verdict
from console.views import FACETS, VIEWS
from console.widgets.refusal import bill_and_rule, rule_words
from console.widgets.steps_grid import lane_cells
from console.widgets.time_chart import ceiling
from engine import (
    AdapterEvicted,
    AdapterId,
    AdapterUnregistered,
    DeviceSnapshot,
    EngineSnapshot,
    MemorySnapshot,
    RequestId,
    StepRecord,
    StepRow,
    TenantId,
)
from tests.console.scripted_engine import ScriptedEngine


def shelf_of(world: ScriptedEngine) -> Shelf:
    """Its rows."""
    shelves = Shelves()
    shelves.update(world.adapters)
    return shelves.of(None)


@pytest.fixture
def world(tmp_path: Path) -> ScriptedEngine:
    """Sixty adapters, some in trouble."""
    return ScriptedEngine(tmp_path, trouble=True)


def test_the_memory_bar_adds_up(world: ScriptedEngine) -> None:
    """The parts of the bar are the total, byte for byte."""
    snapshot = world.snapshot()
    view = memory_view(snapshot.memory, snapshot.device)
    assert sum(part.bytes for part in view.parts) == view.total_bytes
    assert view.adds_up
    assert view.verdict == "adds up"
    assert [part.group for part in view.parts] == ["fixed"] * 2 + ["arena"] * 7 + ["outside"]


@pytest.mark.parametrize(("difference", "words"), [(3 * 2**20, "3 MiB unexplained"), (-3 * 2**20, "3 MiB counted twice")])
def test_a_remainder_is_shown_and_not_rounded_away(difference: int, words: str) -> None:
    """A ledger that leaks says by how much."""
    memory = MemorySnapshot(total_bytes=10 * 2**30 + difference, base_bytes=4 * 2**30, free_bytes=6 * 2**30)
    view = memory_view(memory, DeviceSnapshot())
    assert not view.adds_up
    assert view.verdict == words


def test_what_makes_room_buries_nobody() -> None:
    """Evictions by policy in a row are one line with how many; what somebody did is a line each. A version without a name is its digest."""
    room = [
        AdapterEvicted(
            at_unix=float(at),
            by="policy",
            adapter=AdapterId("a"),
            alias="b",
            tenant=TenantId("acme"),
            from_tier="device",
            because="pages_needed",
            idle_s=1.0,
        )
        for at in range(3)
    ]
    gone = AdapterUnregistered(at_unix=4.0, by="ana", adapter=AdapterId("e" * 64), alias="e7012d2c" * 8, tenant=TenantId("acme"))
    asked = dataclasses.replace(room[0], by="ana", because="operator")
    found = changes(enumerate([*room, gone, asked, asked]))
    assert [each.what.split(" from ")[0] for each in found[:2]] == ["Evicted b", "Evicted b"]
    assert found[2].what == "Withdrew version e7012d2c"
    assert [found[3].number, found[3].what.split(", since ")[0]] == [2, "Evicted 3 adapters to make room"]
    assert len(found) == 4


def test_the_verdict_names_the_worst(world: ScriptedEngine) -> None:
    """Trouble, calm, and a state that is not serving."""
    assert verdict(world.snapshot()).level == "warn"
    world.trouble = False
    assert verdict(world.snapshot()).sentence == "Serving normally"
    down = dataclasses.replace(world.snapshot(), state="down", state_reason="The step loop stopped.")
    assert (verdict(down).level, verdict(down).reason) == ("crit", "The step loop stopped.")
    assert verdict(EngineSnapshot(state="serving")).level == "ok"


def test_a_query_survives_its_address(world: ScriptedEngine) -> None:
    """What the address says is what the page shows."""
    query = AdapterQuery(
        view="hot",
        q="tenant:meridian rank:>8",
        facets=frozenset({"device", "pinned"}),
        sort="alias",
        descending=False,
        page=2,
        size=50,
        open="a/b",
    )
    assert (
        AdapterQuery.from_address(
            {"view": "hot", "q": query.q, "facets": "device,pinned", "sort": "alias", "page": "2", "size": "50", "open": "a/b"}
        )
        == query
    )
    assert AdapterQuery().address == "/adapters"
    assert "facets=device%2Cpinned" in query.address


@pytest.mark.parametrize("address", [{"page": "-3", "size": "7", "view": "nope", "sort": "-drop", "facets": "x,,"}, {"page": "1e9"}, {}])
def test_a_bad_address_is_the_default(address: dict[str, str]) -> None:
    """An address is what anyone types."""
    assert AdapterQuery.from_address(address) == AdapterQuery()


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("tenant:meridian", lambda row: row.tenant == "meridian"),
        ("rank:>16", lambda row: row.rank > 16),
        ("rank:16", lambda row: row.rank == 16),
        ("pinned:true tier:device", lambda row: row.pinned and row.tier == "device"),
        ("kyc", lambda row: "kyc" in row.alias),
        ("idle:>7d", lambda row: False),
        ("rank:>banana", lambda row: False),
    ],
)
def test_filter_words(world: ScriptedEngine, words: str, fits: object) -> None:
    """Each word narrows; what cannot be read finds nothing."""
    found = select(shelf_of(world), AdapterQuery(q=words, size=50))
    assert found.found == sum(1 for row in world.adapters if fits(row))  # type: ignore[operator]


def test_pages_cut_and_clamp(world: ScriptedEngine) -> None:
    """Sixty rows are three pages; the ninth page is the third."""
    found = select(shelf_of(world), AdapterQuery(page=9))
    assert (found.page, found.pages, len(found.rows), found.found) == (3, 3, 10, 60)


def test_the_shelf_follows_its_rows(world: ScriptedEngine) -> None:
    """Counts, pages and names after rows changed, came, went and were renamed are those of a shelf made anew."""
    shelves, rows = Shelves(), list(world.adapters)
    assert shelves.update(tuple(rows))
    rows[3] = dataclasses.replace(rows[3], tier="remote", pinned=True)
    del rows[7]
    rows[10] = dataclasses.replace(rows[10], alias="zz/renamed", aliases=("zz/renamed",))
    rows.append(dataclasses.replace(rows[0], id=AdapterId("f" * 32), alias="aa/new", aliases=("aa/new",), tenant=TenantId("aa")))
    assert shelves.update(tuple(rows))
    assert not shelves.update(tuple(rows))
    anew = Shelves()
    anew.update(tuple(rows))
    for view, facet in itertools.product(VIEWS, FACETS):
        assert shelves.of(None).count(view, facet) == anew.of(None).count(view, facet)
        for tenant in anew.tenants:
            assert shelves.of(tenant).count(view, facet) == anew.of(tenant).count(view, facet)
    for query in (AdapterQuery(sort="alias", descending=False, size=50), AdapterQuery(facets=frozenset({"remote", "disk", "pinned"}))):
        assert select(shelves.of(None), query) == select(anew.of(None), query)
    assert shelves.find("zz/renamed") is rows[10]
    assert shelves.find(world.adapters[7].id) is None
    assert shelves.find("aa/new") is rows[-1]


@pytest.mark.parametrize("text", ["", "acme/support", "acme:support", "acme:support@x", ":support@1", "acme:@1"])
def test_a_version_in_the_address_is_whole_or_none(text: str) -> None:
    """``tenant:line@number`` comes back as it went in; anything else is a version id or an alias."""
    assert opened_ref(text) is None
    place = OpenedRef(TenantId("acme"), "a:b@c/d", 12)
    assert opened_ref(place.text) == place


def test_every_command_has_its_way_back(world: ScriptedEngine) -> None:
    """A pin is undone by an unpin, an unpin by the same pin, a warm by an evict."""
    pinned = next(row for row in world.adapters if row.pinned)
    on_disk = next(row for row in world.adapters if row.tier == "disk")
    back = [
        inverse(Command(verb=verb, ref=row.id), row)
        for verb, row in (("unpin", pinned), ("pin", on_disk), ("warm", on_disk), ("evict", pinned))
    ]
    assert [[command.verb for command in commands] for commands in back] == [["pin"], ["unpin"], ["evict"], ["warm"]]
    assert back[0][0].until_unix == pinned.pin_until
    assert inverse(Command(verb="warm", ref=pinned.id), pinned) == []


def test_a_pin_shows_two_sums(world: ScriptedEngine) -> None:
    """What moves, and the rule that decides."""
    row = next(row for row in world.adapters if row.tier == "disk")
    bill, rule = bill_and_rule(world.control("pin", row.id, preview=True).result().arithmetic)
    assert (bill[0][0], bill[-1][0]) == ("Free now", "Free after")
    assert sum(pages for _, pages in bill[:-1]) == bill[-1][1]
    assert rule_words(rule)[1].endswith("left")


def test_sparklines_keep_gaps_and_do_not_shift() -> None:
    """A bucket that is full never changes; nothing known is no line."""
    ring = Ring()
    for value in [1.0] * BUCKET_S + [None] * BUCKET_S + [2.0] * BUCKET_S:
        ring.append(value)
    assert ring.buckets()[-3:] == [1.0, None, 2.0]
    ring.append(4.0)
    assert ring.buckets()[-4:] == [1.0, None, 2.0, 4.0]
    assert len(ring.buckets()) == NUM_BUCKETS
    assert spark_path([None] * NUM_BUCKETS, 118, 22) == ""
    assert spark_path(ring.buckets(), 118, 22).count("M") == 3, "two stretches and a dot"


@pytest.mark.parametrize(("value", "top"), [(0.2, 4), (3, 4), (74, 80), (148, 200), (610, 800), (9_001, 10_000)])
def test_axes_end_on_round_numbers(value: float, top: float) -> None:
    """Four ticks divide the axis into whole numbers."""
    assert ceiling(value) == top


def test_a_lane_loads_computes_and_ends() -> None:
    """Cells of a lane: loading until its first step, then its phases, then a line."""
    from console.batch import LaneRun  # noqa: PLC0415 - kept beside its use

    def step(number: int, *phases: str) -> StepRecord:
        rows = tuple(StepRow(request=RequestId("mine"), index=0, phase=phase, tokens=1, adapter=None) for phase in phases)  # type: ignore[arg-type]
        return StepRecord(step=number, started_s=0.0, duration_s=0.02, rows=rows, num_adapters=0)

    steps = [step(1), step(2, "prefill"), step(3, "decode"), step(4)]
    lane = LaneRun(model="a/b", prompt="", request=RequestId("mine"), tier_at_arrival="disk", state="finished")
    assert lane_cells(lane, steps) == ["load", "prefill", "decode", "done"]
    lane.tier_at_arrival = None
    assert lane_cells(lane, steps)[0] == "out"


def test_what_the_registry_answers_is_read(world: ScriptedEngine) -> None:
    """Every stored version, rejected ones too, keeps its checks, its reason and its place."""
    for state in ("ready", "rejected"):
        facts, _ = world.versions.stored([state])
        version = StoredVersion.of(facts[0])
        assert [check.name for check in version.checks] == ["schema", "base", "numbers", "effect", "score", "replaced_score"]
        assert bool(version.reason) == (state == "rejected")
        assert opened_ref(version.place.text) == version.place
