"""What residency tells: arrivals, failures, departures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine.adapters.entry import AdapterEntry, Load
    from engine.errors import LoradeckError

LeftBecause = Literal["pages_needed", "host_budget", "operator", "retired", "quarantined"]


class ResidencyListener:
    """Hears what residency does; the model host records it. Every method may be left as it is."""

    def changed(self, entry: AdapterEntry) -> None:
        """Something an operator sees changed."""

    def needs_probe(self, entry: AdapterEntry) -> None:
        """It is on the device and was never proven."""

    def arrived(self, entry: AdapterEntry, load: Load) -> None:
        """A load ended well."""

    def failed(self, entry: AdapterEntry, error: LoradeckError) -> None:
        """A load ended badly."""

    def left_device(self, entry: AdapterEntry, because: LeftBecause) -> None:
        """It left the device."""

    def left_host(self, entry: AdapterEntry) -> None:
        """Its host copy was dropped for the budget."""
