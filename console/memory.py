"""The device's memory as the console draws it: parts in bar order, and whether they add up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from console import format as fmt

if TYPE_CHECKING:
    from engine import DeviceSnapshot, MemorySnapshot

Group = Literal["fixed", "arena", "outside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the bar."""

    key: str
    name: str
    group: Group
    bytes: int
    fact: str
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """The bar, its total and the remainder that no part explains."""

    parts: tuple[Part, ...]
    total_bytes: int
    unit: str

    @property
    def remainder_bytes(self) -> int:
        """Total less the sum of the parts; 0 when the ledger is whole."""
        return self.total_bytes - sum(part.bytes for part in self.parts)

    @property
    def adds_up(self) -> bool:
        """Whether every byte is accounted for exactly once."""
        return self.remainder_bytes == 0

    @property
    def arena_bytes(self) -> int:
        """What adapters and KV share."""
        return sum(part.bytes for part in self.parts if part.group == "arena")

    @property
    def verdict(self) -> str:
        """The mark beside the total, in words."""
        if self.adds_up:
            return "adds up"
        missing = self.remainder_bytes
        return f"{fmt.size(abs(missing))} {'unexplained' if missing > 0 else 'counted twice'}"


PARTS: Final[tuple[tuple[str, str, Group, str], ...]] = (
    ("base", "Base", "fixed", ""),
    ("workspace", "Workspace", "fixed", ""),
    ("adapters_pinned", "Adapters pinned", "arena", "/adapters?facets=pinned"),
    ("adapters_leased", "Adapters leased", "arena", "/adapters?q=leased:true"),
    ("adapters_cached", "Adapters cached", "arena", "/adapters?facets=device"),
    ("kv_used", "KV in use", "arena", ""),
    ("kv_prefix", "KV prefix", "arena", ""),
    ("kv_reserved", "KV reserved", "arena", ""),
    ("free", "Free", "arena", ""),
    ("other", "Other", "outside", ""),
)


def memory_view(memory: MemorySnapshot, device: DeviceSnapshot) -> MemoryView:
    """The parts of a snapshot, each with its one fact."""
    facts = {
        "base": f"{fmt.parameters(device.num_parameters)}, {fmt.precision(device.dtype)}" if device.num_parameters else "weights",
        "workspace": "activations",
        "adapters_pinned": fmt.plural(memory.adapters_pinned, "adapter"),
        "adapters_leased": f"{memory.adapters_leased:,} running",
        "adapters_cached": fmt.plural(memory.adapters_cached, "adapter"),
        "kv_used": f"{memory.kv_used_tokens:,} tok",
        "kv_prefix": f"{memory.kv_prefix_tokens:,} tok",
        "kv_reserved": "floor",
        "free": fmt.plural(memory.free_pages, "page"),
        "other": "processes",
    }
    amounts = memory.parts
    parts = tuple(Part(key=key, name=name, group=group, bytes=amounts[key], fact=facts[key], link=link) for key, name, group, link in PARTS)
    return MemoryView(parts=parts, total_bytes=memory.total_bytes, unit=fmt.unit_of(memory.total_bytes))


def on_demand_bytes(memory: MemorySnapshot) -> int:
    """What is given up when asked for: idle adapters and cached prefixes."""
    return memory.adapters_cached_bytes + memory.kv_prefix_bytes
