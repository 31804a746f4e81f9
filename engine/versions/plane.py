"""The services of versions, put together over one host."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.caller import SYSTEM
from engine.control import ControlCall
from engine.registration import Registrar
from engine.versions.bases import Bases
from engine.versions.find import missing
from engine.versions.placements import Placements
from engine.versions.schedules import Schedules
from engine.versions.service import Versions
from engine.versions.ways_back import WaysBack

if TYPE_CHECKING:
    from engine.control import Control
    from engine.ids import TenantId, Tier
    from engine.loop import EngineLoop
    from engine.model_host import ModelHost

SCHEDULED_WARM_S = 120.0
"""How long a schedule waits for its alias to come near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """What registers, names, places and schedules."""

    placements: Placements
    versions: Versions
    registrar: Registrar
    schedules: Schedules

    def start(self) -> None:
        """Begin to bring back what was warm, and to look at the clock; the engine serves already."""
        self.placements.start()
        self.schedules.start()

    def stop(self) -> None:
        """End while the engine still serves."""
        self.schedules.stop()
        self.placements.stop()


def open_plane(host: ModelHost, loop: EngineLoop, control: Control) -> Plane:
    """All of them; nothing runs yet."""
    placements = Placements(host, loop, control, now_unix=time.time)
    versions = Versions(host, placements)
    registrar = Registrar(host, host.parts.settings, versions)
    versions.bases = Bases(host)

    def warm(tenant: TenantId, alias: str, tier: Tier) -> None:
        found = host.catalog.resolve(alias, tenant)
        if found is None:
            raise missing(alias)
        call = ControlCall(verb="warm", adapter=found.adapter, tier=tier, reason="schedule", by=SYSTEM.name)
        placements.run(call, caller=SYSTEM).result(timeout=SCHEDULED_WARM_S)

    schedules = Schedules(host, warm=warm)
    WaysBack(versions, schedules)
    return Plane(placements=placements, versions=versions, registrar=registrar, schedules=schedules)
