"""Operations without an engine: the roles are the real ones, and there is no operation."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from engine.caller import Caller, Role
from engine.errors import InvalidRequest, OperationNotFound
from engine.intake.staging import Staging
from engine.intake.uploads import Uploads
from engine.registry.store import Store
from engine.settings import Settings


class ScriptedOperations:
    """The doors of ``engine.operations``."""

    def __init__(self, settings: Settings) -> None:
        self.uploads = Uploads(Staging(settings.data / "staging", max_weights_bytes=1), cast("Store", None), max_bytes=settings.max_upload)

    def page(self, *, caller: Caller, **_: Any) -> list[Any]:
        """None."""
        caller.need("viewer")
        return []

    def get(self, operation: str, *, caller: Caller, role: Role = "viewer", **_: Any) -> NoReturn:
        """There is none."""
        caller.need(role)
        raise OperationNotFound(f"There is no operation {operation!r}.", param="id", found=operation)

    rows = errors_csv = get

    def cancel(self, operation: str, *, caller: Caller) -> NoReturn:
        """There is none."""
        self.get(operation, caller=caller, role="operator")

    resume = retry = cancel

    def start(self, _request: object, *, caller: Caller, **_: Any) -> NoReturn:
        """Nothing is taken in."""
        caller.need("operator")
        raise InvalidRequest("There is no adapter to register.", code="nothing_found", param="source")

    dry_run = start
