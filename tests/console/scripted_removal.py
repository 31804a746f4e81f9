"""Archives that are deleted, over the scripted versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine import SYSTEM, Caller, Departure


@dataclass
class ScriptedRemoval:
    """``engine.versions.removal``; ``version`` finds one."""

    version: Callable[[str, Any], Any]

    def delete_archive(self, ref: str, *, tenant: Any = None, why: str = "", preview: bool = False, caller: Caller = SYSTEM) -> Departure:
        """For good."""
        caller.need("admin")
        one = self.version(ref, tenant)
        if not preview:
            one.archive, one.note = None, why
        return Departure(version=one.record(), preview=preview, message=f"Deleted the archive of {ref}.", bytes=50 * 2**20)
