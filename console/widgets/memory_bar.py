"""Device memory as one bar whose parts add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console import format as fmt
from console.memory import MemoryView, Part, memory_view
from console.widgets.elements import box, drawing, icon_svg, say, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nicegui.element import Element

    from console.live import Live
    from console.memory import Group
    from console.widgets.elements import Text

GROUPS: Final[tuple[Group, ...]] = ("fixed", "arena", "outside")


def memory_card(live: Live) -> None:
    """The card of the overview: title, meters, bracket, bar, legend, total."""
    with box("card memory", "section").props('aria-label="Device memory"'):
        with box("memory-title"):
            text("Device memory", "card-title", "h2")
            device = text("", "sub")
            box("gap")
            _pattern_key()
            meters = _meters()
        bar = memory_bar(live, bracket=True)
        legend = _Legend()

    def update() -> None:
        snapshot = live.feed.snapshot
        view = memory_view(snapshot.memory, snapshot.device)
        say(device, device_words(live))
        for name, (used, budget) in _places(live).items():
            meters[name](used, budget)
        legend.show(view)
        bar.set_visibility(view.total_bytes > 0)

    live.every(update)


def device_words(live: Live) -> str:
    """What the device is; on CPU it says that it is a budget."""
    device = live.feed.snapshot.device
    where = "budget of host memory" if device.kind == "cpu" else device.name
    return " · ".join(part for part in (where, f"{device.base} {fmt.precision(device.dtype)}".strip()) if part)


def memory_bar(live: Live, *, bracket: bool) -> Element:
    """The bar: flex weights in bytes, so that widths are shares. Returns its box."""
    with box("membar bracketed" if bracket else "membar").props('role=img aria-label="Device memory by owner"') as bar:
        groups = {name: box(f"group {name}") for name in GROUPS}
        captions = [*_caption(groups["fixed"], 1), *_caption(groups["arena"], 3)] if bracket else []
        parts: dict[str, tuple[Element, Text | None]] = {}

    def update() -> None:
        snapshot = live.feed.snapshot
        view = memory_view(snapshot.memory, snapshot.device)
        if not parts:
            parts.update({part.key: _part(groups[part.group], part, hover=bracket) for part in view.parts})
        for part in view.parts:
            element, hint = parts[part.key]
            _weigh(element, part.bytes)
            if hint is not None:
                say(hint, hover_words(part, view))
        for name, group in groups.items():
            _weigh(group, sum(part.bytes for part in view.parts if part.group == name))
        for caption, words in zip(captions, ("fixed", *_arena_words(live, view)), strict=False):
            say(caption, words)

    live.every(update)
    return bar


def _caption(group: Element, num_pieces: int) -> list[Text]:
    """Pieces of a caption: as many are seen as the group is wide enough for."""
    with group, box("span-label"), box("pieces"):
        return [text("") for _ in range(num_pieces)]


def _part(group: Element, part: Part, *, hover: bool) -> tuple[Element, Text | None]:
    with group, box(f"part p-{part.key}", "a" if part.link and hover else "div") as element:
        if part.link and hover:
            element.props["href"] = part.link
            element.props["aria-label"] = f"{part.name}: list them"
        if not hover:
            return element, None
        with ui.tooltip().classes("tip"):
            return element, text("", "lines")


def _weigh(element: Element, num_bytes: int) -> None:
    megabytes = round(num_bytes / fmt.MIB, 2)
    if element.style.get("flex-grow") == str(megabytes):
        return
    element.style(f"flex-grow:{megabytes}")
    element.classes(add="" if num_bytes else "nothing", remove="nothing" if num_bytes else "")


def hover_words(part: Part, view: MemoryView) -> str:
    """Name, share, MiB and fact of a part, as lines."""
    share = fmt.percent(part.bytes / view.total_bytes if view.total_bytes else None)
    return f"{part.name} · {share} %\n{fmt.memory(part.bytes, 'MiB')} MiB\n{part.fact}"


def _arena_words(live: Live, view: MemoryView) -> tuple[str, str, str]:
    memory = live.feed.snapshot.memory
    pages = f"· {memory.arena_pages:,} pages of {fmt.size(memory.page_bytes)}"
    return f"arena {fmt.memory(view.arena_bytes, view.unit)} {view.unit}", pages, "· shared by adapters and KV"


def _pattern_key() -> None:
    with box("keys desk-only"):
        for cls, words in (("held", "held"), ("cached", "cache, given up on demand"), ("empty", "empty")):
            with box("key"):
                box(f"swatch k-{cls}", "span")
                text(words)


def _places(live: Live) -> dict[str, tuple[int, int]]:
    memory = live.feed.snapshot.memory
    return {"host": (memory.host_used_bytes, memory.host_budget_bytes), "disk": (memory.disk_used_bytes, 0)}


def _meters() -> dict[str, Meter]:
    with box("meters"):
        return {"host": Meter("host"), "disk": Meter("disk")}


class Meter:
    """A thin bar of one place outside the device; without a budget it is a number only."""

    def __init__(self, name: str) -> None:
        self._name = name
        with box("meter"):
            text(name)
            with box("track desk-only") as self._track:
                self._fill = box("fill")
            self._value = text("", "value")
            self._rest = text("")

    def __call__(self, used: int, budget: int) -> None:
        """Show ``used`` of ``budget`` bytes; 0 is no budget."""
        self._track.set_visibility(budget > 0)
        if budget:
            width = f"{min(100.0, 100 * used / budget):.1f}%"
            if self._fill.style.get("width") != width:
                self._fill.style(f"width:{width}")
        say(self._value, fmt.size(used) if self._name == "host" else fmt.decimal_size(used))
        say(self._rest, f"of {fmt.size(budget)}" if budget else "")


class _Legend:
    """Swatch, name, amount and one fact a part, in bar order; the last column is the total."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[Text, Text, Text]] = {}
        self._box = box("legend")
        self._verdict: Text | None = None

    def show(self, view: MemoryView) -> None:
        """Show the amounts and whether they add up."""
        if not self._columns:
            self._create(view.parts)
        for part in view.parts:
            amount, unit, fact = self._columns[part.key]
            say(amount, fmt.memory(part.bytes, view.unit))
            say(unit, view.unit)
            say(fact, part.fact)
        amount, unit, verdict = self._columns["total"]
        say(amount, fmt.memory(view.total_bytes, view.unit))
        say(unit, view.unit)
        say(verdict, view.verdict)
        self._mark.content = icon_svg("check", "ok") if view.adds_up else icon_svg("warn", "warn")

    def _create(self, parts: Iterable[Part]) -> None:
        with self._box:
            for part in parts:
                with box("entry"):
                    with box("entry-name"):
                        box(f"swatch p-{part.key}", "span")
                        text(part.name)
                    self._columns[part.key] = (*_amount(), text("", "fact"))
            with box("entry total"):
                text("Total", "entry-name")
                amount = _amount()
                with box("fact"):
                    self._mark = drawing("", "ico", "span")
                    self._columns["total"] = (*amount, text(""))


def _amount() -> tuple[Text, Text]:
    with box("amount"):
        return text("", "big"), text("", "unit")
