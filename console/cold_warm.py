"""A comparison of lanes in words and on a scale. Pure."""

from __future__ import annotations

import hashlib
import math
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from console import format as fmt

if TYPE_CHECKING:
    from engine import AdapterRow, ColdWarmState, LaneName, LaneResult, LaneRun, PhaseKind

NAMES: Final[dict[LaneName, str]] = {
    "pinned": "Pinned on device",
    "host": "Warm in host",
    "disk": "On disk",
    "remote": "Remote artifact",
    "merge": "Merge and reload",
    "replica": "Full replica",
}
KINDS: Final[dict[PhaseKind, str]] = {
    "start": "queue, start",
    "adapter": "adapter",
    "base": "base weights",
    "warm_up": "build",
    "prefill": "prefill",
}
"""In the order of the legend."""
SLOW_WORDS: Final[tuple[tuple[LaneName, str], ...]] = (
    ("replica", "Starting its own replica takes"),
    ("merge", "Merging it into a copy of the base takes"),
    ("remote", "Fetching it first takes"),
    ("disk", "From disk it takes"),
    ("host", "From host memory it takes"),
)
FAST: Final = frozenset({"pinned", "host", "disk", "remote"})
DIVISIONS: Final = 4
LEFT_SHARE: Final = 0.74
BREAK_SHARE: Final = 0.03
STEPS: Final = (1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Seconds to a share of the track: linear to ``left_s``, then a break, then linear to ``right_s``; without ``right_s`` no break."""

    left_s: float
    right_s: float | None = None

    def at(self, seconds: float) -> float:
        """Where a moment lies, 0 to 1."""
        if self.right_s is None:
            return min(seconds / self.left_s, 1.0)
        if seconds <= self.left_s:
            return LEFT_SHARE * seconds / self.left_s
        begin = LEFT_SHARE + BREAK_SHARE
        return begin + (1 - begin) * min((seconds - self.left_s) / (self.right_s - self.left_s), 1.0)

    def spans(self, start_s: float, end_s: float) -> list[tuple[float, float]]:
        """(left, width) of an interval; two where it crosses the break."""
        if self.right_s is None or end_s <= self.left_s or start_s >= self.left_s:
            begin = self.at(start_s) if start_s != self.left_s or self.right_s is None else LEFT_SHARE + BREAK_SHARE
            return [(begin, max(self.at(end_s) - begin, 0.0))]
        begin = LEFT_SHARE + BREAK_SHARE
        return [(self.at(start_s), LEFT_SHARE - self.at(start_s)), (begin, self.at(end_s) - begin)]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(share, label); the first label of each part has the unit."""
        unit, factor = ("s", 1.0) if self.left_s >= DIVISIONS else ("ms", 1000.0)
        left = [self.left_s * i / DIVISIONS for i in range(DIVISIONS + 1)]
        found = [(self.at(s), f"{s * factor:,.4g}" + (f" {unit}" if not i else "")) for i, s in enumerate(left)]
        if self.right_s is not None:
            step = nice(self.right_s / 3)
            right = [step * i for i in range(1, 8) if self.left_s * 1.5 < step * i <= self.right_s]
            found += [(self.at(s), f"{s:,.4g}" + (" s" if not i else "")) for i, s in enumerate(right)]
        return found


def scale_of(state: ColdWarmState) -> Scale | None:
    """A scale on which every run that counts fits; None before the first."""
    longest = {result.lane: result.range_s[1] for result in state.results if result.range_s is not None}
    if not longest:
        return None
    near = max((s for lane, s in longest.items() if lane in FAST), default=0.0)
    far = max(longest.values())
    left_s = DIVISIONS * nice((near or far) / DIVISIONS)
    if far <= left_s:
        return Scale(left_s=left_s)
    step = nice(far / 3)
    return Scale(left_s=left_s, right_s=step * math.ceil(far / step))


def nice(value: float) -> float:
    """The least of 1, 2, 2.5, 3, 4, 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in STEPS if step * power >= value * (1 - 1e-9))


def headline(state: ColdWarmState) -> str:
    """A sentence made from the medians there are."""
    pinned = state.of("pinned").median_s if any(result.lane == "pinned" for result in state.results) else None
    if pinned is None:
        return "How long until the first token?"
    first = f"A pinned adapter answers in {fmt.latency_text(pinned)}."
    measured = {result.lane: result.median_s for result in state.results}
    for lane, words in SLOW_WORDS:
        if (median_s := measured.get(lane)) is not None:
            return f"{first} {words} {fmt.latency_text(median_s)}."
    return first


def lane_line(lane: LaneName, row: AdapterRow | None, bytes_per_s: int) -> str:
    """What the lane has to do."""
    size = fmt.size(row.bytes) if row is not None else ""
    return {
        "pinned": "nothing to load",
        "host": f"copy {size}".strip(),
        "disk": "read, verify, copy",
        "remote": f"download {size} at {fmt.size(bytes_per_s)}/s",
        "merge": "a merged copy of the base",
        "replica": "its own process and base",
    }[lane]


def page_cache_words(result: LaneResult) -> str:
    """That a disk lane was not cold, where it was not; empty elsewhere."""
    states = [run.start.page_cache for run in result.counted if run.start is not None and run.start.page_cache is not None]
    if not states or all(state == "dropped" for state in states):
        return ""
    return "page cache warm" if "warm" in states else "page cache unknown"


def against(result: LaneResult, pinned: LaneResult) -> str:
    """The median over the pinned one's, three figures."""
    if result.median_s is None or not pinned.median_s:
        return fmt.DASH
    value = result.median_s / pinned.median_s
    if value >= 100:  # noqa: PLR2004 - three figures
        return f"{float(f'{value:.3g}'):,.0f}×"
    return f"{value:.3g}×"


def range_words(result: LaneResult) -> str:
    """As in "11 to 15 ms"; the unit once where both have it."""
    if result.range_s is None:
        return ""
    if len(result.times_s) == 1:
        return "one run"
    (low, low_unit), (high, high_unit) = (fmt.latency(seconds) for seconds in result.range_s)
    return f"{low} to {high} {high_unit}" if low_unit == high_unit else f"{low} {low_unit} to {high} {high_unit}"


def median_words(state: ColdWarmState) -> str:
    """Of how many runs the medians on the page are: those that were measured and count, not those that were asked for."""
    counts = {len(result.times_s) for result in state.results if result.times_s}
    if not counts:
        return "median"
    return f"median of {max(counts)}" if len(counts) == 1 else f"median of {min(counts)} to {max(counts)}"


def progress_words(state: ColdWarmState) -> str:
    """What is under way, or when it ended."""
    if state.options is None:
        return "not measured yet"
    if state.phase == "restoring":
        return "putting the adapter back"
    if state.phase == "running":
        if state.now is None:
            return "preparing"
        lane, number = state.now
        return f"{NAMES[lane]}, run {number} of {state.options.repeats}"
    done = min((len(result.runs) for result in state.results if not result.skipped), default=0)
    ended = time.strftime("%H:%M", time.localtime(state.ended_unix)) if state.ended_unix else ""
    return f"{done} of {state.options.repeats} runs, {ended}" + (", stopped" if state.stopped else "")


def differences_words(state: ColdWarmState) -> str:
    """Which lane says something else, and where; empty when none does."""
    if not state.differences:
        return ""
    first = state.differences[0]
    more = f", and {len(state.differences) - 1} more runs" if len(state.differences) > 1 else ""
    return f"{NAMES[first.lane]}, run {first.number}, differs at token {first.token + 1}{more}"


def token_digest(run: LaneRun) -> str:
    """Eight digits that stand for the tokens of a run."""
    digest = hashlib.sha256(",".join(map(str, run.token_ids)).encode()).hexdigest()
    return f"{digest[:4]} {digest[4:8]}"


def checks(state: ColdWarmState) -> list[tuple[bool, str]]:
    """(holds, words) of what was looked at before and during the runs."""
    runs = [run for result in state.results for run in result.runs]
    tiers = [run for run in runs if run.lane in FAST]
    right = sum(run.start is not None and run.start.holds for run in tiers)
    found = [(right == len(tiers), f"adapter is in the tier named, {right} of {len(tiers)}")]
    disk = [run for run in runs if run.lane == "disk"]
    if disk:
        dropped = sum(run.start is not None and run.start.page_cache == "dropped" for run in disk)
        found.append((dropped == len(disk), f"page cache of the image dropped, {dropped} of {len(disk)}"))
    fresh = sum(run.counts for run in tiers)
    found.append((fresh == len(tiers), f"prompt computed anew, nothing reused, {fresh} of {len(tiers)}"))
    busy = sum(run.others > 0 for run in runs)
    found.append((not busy, f"other requests ran beside {busy} of {len(runs)} runs" if busy else "no other traffic in any run"))
    return found


def resident_bytes(state: ColdWarmState) -> int | None:
    """Resident memory of a replica's process, the median of its runs; None before the first."""
    sizes = [run.process_bytes for run in state.counted if run.process_bytes is not None]
    return round(statistics.median(sizes)) if sizes else None


def measured_lanes(state: ColdWarmState) -> int:
    """Lanes with at least one run that counts."""
    return sum(bool(result.counted) for result in state.results)
