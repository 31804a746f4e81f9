"""The control plane's services where nothing is registered: lists are empty, and what is looked up is not there."""

from __future__ import annotations

from typing import Any

from engine.errors import AdapterNotFound
from engine.ids import TenantId
from engine.report import Thresholds


class NothingRegistered:
    """Stands for ``engine.versions``, ``engine.audit``, ``engine.schedules`` and the services below them."""

    served = ""

    def __getattr__(self, name: str) -> NothingRegistered:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, ref: object = "", *_args: object, **_options: object) -> Any:
        """Whatever it names is not there."""
        message = "No adapter of this name is registered."
        raise AdapterNotFound(message, param="ref", found=str(ref))

    def aliases(self, **_options: object) -> tuple[list[object], int]:
        """None."""
        return [], 0

    def every(self, **_options: object) -> list[object]:
        """None."""
        return []

    lines = stranded = every

    def of(self, _tenant: TenantId) -> Thresholds:
        """The defaults."""
        return Thresholds()
