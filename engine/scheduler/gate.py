"""What the scheduler asks of residency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine.ids import AdapterId, RequestId, Residency, TenantId, WaitReason


class AdapterGate(Protocol):
    """Where adapters are, and leases on them. Calls return at once."""

    def state(self, adapter: AdapterId) -> Residency:
        """Only ``device`` can be leased."""
        ...

    @property
    def resident(self) -> Collection[AdapterId]:
        """All whose pages are on the device, those that leave included."""
        ...

    def pages(self, adapter: AdapterId) -> int:
        """Arena pages it needs or holds."""
        ...

    def is_pinned(self, adapter: AdapterId) -> bool:
        """Whether its pages stay on the device when nothing runs with it."""
        ...

    def want(self, adapter: AdapterId, now_s: float, *, request: RequestId | None = None, tenant: TenantId | None = None) -> WaitReason:
        """Start its load or go on with it, for a tenant's request; why that waits: ``adapter_loading``, ``adapter_pages``, ``draining``."""
        ...

    def displaced_by(self, adapter: AdapterId) -> TenantId | None:
        """Whose requests needed its pages when it last left the device; None: it left for nobody's, or was never there."""
        ...

    def lease(self, adapter: AdapterId) -> None:
        """Hold it on the device and in a slot; leases count."""
        ...

    def release(self, adapter: AdapterId) -> None:
        """Give one lease back."""
        ...

    def slot(self, adapter: AdapterId) -> int:
        """The table slot of a leased adapter."""
        ...
