"""One registered version while the engine runs: what never changes, and where it is now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from engine.adapters.eviction import decayed
from engine.snapshot import LoadPhase

if TYPE_CHECKING:
    from torch import Tensor

    from engine.adapters.layout import ImageTable
    from engine.alias import AliasName
    from engine.desired import Pin
    from engine.ids import AdapterId, RequestId, Residency, TenantId, Tier, WaitReason
    from engine.version import VersionRecord

LoadStage = Literal["reading", "allocating", "copying", "probing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """An adapter's page images in host memory: ``pages`` is uint8 [num_pages, page_bytes], pinned on CUDA machines."""

    table: ImageTable
    pages: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.pages.numel()


@dataclass(slots=True, kw_only=True)
class Load:
    """A load under way. Owned by the engine thread."""

    asked_s: float
    from_tier: Tier
    to_tier: Tier = "device"
    stage: LoadStage = "reading"
    phases: list[LoadPhase] = field(default_factory=list)
    tenant: TenantId | None = None
    """Whose request it was first asked for; None: nobody's yet."""
    waiters: list[RequestId] = field(default_factory=list)
    evicted: list[AdapterId] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    stage_since_s: float = 0.0
    steps: list[float] = field(default_factory=list)
    """Durations of others' steps while it copied, seconds."""
    arrived_s: float | None = None

    def join(self, request: RequestId | None, tenant: TenantId | None, to_tier: Tier) -> WaitReason:
        """A tenant's request wants it too, or still: what it waits for."""
        self.tenant = self.tenant or tenant
        if to_tier == "device":
            self.to_tier = "device"
        if request is not None and request not in self.waiters:
            self.waiters.append(request)
        return "adapter_pages" if self.stage == "allocating" else "adapter_loading"

    def add_phase(self, name: str, since_s: float, until_s: float, *, note: str = "") -> None:
        """Record a phase between two clock readings."""
        self.phases.append(LoadPhase(name=name, start_s=since_s - self.asked_s, duration_s=until_s - since_s, note=note))


@dataclass(slots=True, kw_only=True)
class AdapterEntry:
    """A version's live state. Owned by the engine thread."""

    record: VersionRecord
    aliases: list[AliasName] = field(default_factory=list)
    canary_of: list[AliasName] = field(default_factory=list)
    on_device: bool = False
    pages: list[int] = field(default_factory=list)
    table: ImageTable | None = None
    slot: int | None = None
    leases: int = 0
    users: int = 0
    """Live sequences of it, waiting or running."""
    claims: int = 0
    """Registrations of it under way."""
    holds: int = 0
    """Names on their way to or from it; it leaves neither the device nor host memory meanwhile."""
    pin: Pin | None = None
    load: Load | None = None
    leave_to: Literal["host", "disk"] | None = None
    """Asked to leave the device once the last lease ends."""
    quarantined: bool = False
    retired: bool = False
    away: bool = False
    """Its image is at its origin and not on disk; the next read fetches it."""
    displaced_by: TenantId | None = None
    """Whose requests needed its pages when it last left the device."""
    unused: bool = False
    """Nothing ran with it since it came to the device."""
    probe: Literal["unproven", "ok", "mismatch"] = "unproven"
    recheck: bool = False
    last_used_s: float = 0.0
    last_used_unix: float | None = None
    frequency: float = 0.0
    frequency_s: float = 0.0
    loads: int = 0
    """Times it came to the device."""

    @property
    def alias(self) -> str:
        """Its first alias, else the id."""
        return self.aliases[0].name if self.aliases else self.record.id

    @property
    def is_pinned_to_device(self) -> bool:
        """Whether its pages stay on the device when nothing runs with it."""
        return self.pin is not None and self.pin.tier == "device"

    @property
    def is_idle(self) -> bool:
        """On the device, and nothing holds it there."""
        return self.on_device and not (self.leases or self.load or self.holds or (self.pin and self.pin.tier == "device"))

    def absolve(self) -> None:
        """Out of quarantine, to be proven anew; the copy that was at fault is to be gone."""
        assert not self.on_device
        self.quarantined = False
        self.probe = "unproven"
        self.record = replace(self.record, fingerprint=())

    def touch(self, now_s: float) -> None:
        """Count a use, for eviction."""
        self.frequency = decayed(self.frequency, now_s - self.frequency_s) + 1.0
        self.frequency_s = self.last_used_s = now_s

    def tier(self, *, in_host: bool) -> Tier:
        """Where a request that comes now finds its weights."""
        if self.on_device and self.load is None:
            return "device"
        return "host" if in_host else self._stored

    def residency(self, *, in_host: bool) -> Residency:
        """The tier, or the way to or from the device."""
        if self.load is not None:
            return "loading"
        if self.on_device:
            return "device" if self.leave_to is None else "draining"
        return "host" if in_host else self._stored

    @property
    def _stored(self) -> Literal["disk", "remote"]:
        return "remote" if self.away else "disk"
