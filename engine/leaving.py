"""Weights leave the device, or host memory, because an operator said so. Engine thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import Conflict

if TYPE_CHECKING:
    from engine.adapters.entry import AdapterEntry
    from engine.ids import Tier
    from engine.model_host import ModelHost


def leave(host: ModelHost, entry: AdapterEntry, tier: Tier, *, preview: bool) -> str:
    """Now, or after the last request; what happened. Raises Conflict while it is being loaded."""
    if preview:
        return f"Would leave for {tier} after {entry.leases} running requests." if entry.leases else f"Would leave for {tier} now."
    if entry.load is not None:
        message = "It is being loaded; evict it once it has arrived."
        raise Conflict(message, code="loading", param="ref", expected="host, disk or device", found="loading")
    if entry.on_device:
        entry.leave_to = "disk" if tier == "disk" else "host"
        if entry.leases:
            host.lifecycle.changed(entry)
            return f"Leaves for {tier} after {entry.leases} running requests."
        host.residency.leave_device(entry, because="operator")
        return f"Left for {tier}."
    if tier == "disk":
        host.residency.host.drop(entry.record.id)
        host.lifecycle.changed(entry)
        return "Left host memory; its image is on disk."
    return "It was not on the device."
