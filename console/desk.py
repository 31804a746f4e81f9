"""Calls of the engine's services for whoever looks at a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from nicegui import run

from console.visitor import Visitor
from console.widgets.refusal import show_refusal
from engine import LoradeckError, NotReady

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.widgets.toast import Toasts
    from engine import Caller, Engine, Role

T = TypeVar("T")


class Desk:
    """One a page. Every call carries the caller, so that the service refuses what the page should not have offered."""

    def __init__(self, engine: Engine, toasts: Toasts) -> None:
        self.engine = engine
        self.toasts = toasts
        self._visitor = Visitor(engine)

    @property
    def caller(self) -> Caller:
        """Who looks, with the rights of this moment. Raises Unauthorized once their session has ended."""
        return self._visitor.caller

    @property
    def is_open(self) -> bool:
        """Whether whoever looks may still look."""
        try:
            return self.caller.may("viewer")
        except LoradeckError:
            return False

    def why_not(self, role: Role, verb: str = "", *, everywhere: bool = False) -> str:
        """Why whoever looks may not do what needs ``role``, for a switched-off button; empty when they may. The service refuses too."""
        if not self.caller.may(role):
            return f"{verb}: needs {role}" if verb else f"Needs {role}"
        return "Needs a role for all tenants" if everywhere and self.caller.tenant is not None else ""

    async def ask(self, method: Callable[..., T], *args: Any, **fields: Any) -> T:  # noqa: ANN401 - the service's own arguments
        """Call a service off the loop. Raises LoradeckError."""
        caller = self.caller
        answer: tuple[T] | None = await run.io_bound(lambda: (method(*args, **fields, caller=caller),))
        if answer is None:
            raise NotReady("The console is stopping; nothing was done.")
        return answer[0]

    async def do(
        self,
        otherwise: str,
        method: Callable[..., T],
        *args: Any,  # noqa: ANN401 - the service's own arguments
        said: str = "",
        undo: Callable[[], Awaitable[None]] | None = None,
        **fields: Any,  # noqa: ANN401 - likewise
    ) -> tuple[T] | None:
        """Call a service and say that it is done; a refusal is shown under the headline ``otherwise``, and the answer is None."""
        try:
            answer = await self.ask(method, *args, **fields)
        except LoradeckError as error:
            show_refusal(otherwise, error)
            return None
        if said:
            self.toasts.show(said, undo=undo)
        return (answer,)
