"""Fields with their hints, and a refusal shown at the field that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from console.widgets.elements import box, field, say, text
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicegui.elements.input import Input
    from nicegui.elements.mixins.text_element import TextElement

    from console.desk import Desk

T = TypeVar("T")


class Form:
    """Faults by field; what belongs to no field stands under ``foot``. Belongs to one dialog or card."""

    def __init__(self) -> None:
        self._faults: dict[str, tuple[TextElement, TextElement | None]] = {}
        self._rest: TextElement | None = None

    def line(self, name: str, label: str, placeholder: str = "", hint: str = "", *, value: str = "", secret: bool = False) -> Input:
        """A labelled field; ``name`` is what the service calls it."""
        text(label, "label")
        with box("form-field"):
            element = field(label, value=value, placeholder=placeholder, on_change=lambda _: self.fault(name, ""))
            if secret:
                element.props("type=password autocomplete=new-password")
            self.under(name, hint)
        return element

    def under(self, name: str, hint: str = "") -> None:
        """Where a fault of ``name`` is shown, in the place of its hint."""
        below = text(hint, "faint small") if hint else None
        fault = text("", "fault").props("role=alert")
        self._faults[name] = (fault, below)

    def foot(self) -> None:
        """Where a fault that names no field is shown."""
        self._rest = text("", "fault", "p").props("role=alert")

    def fault(self, name: str, message: str) -> None:
        """Say what is wrong with a field; with an empty message nothing is."""
        fault, below = self._faults[name]
        say(fault, message)
        if below is not None:
            below.set_visibility(not message)

    def clear(self) -> None:
        """Nothing is wrong any more."""
        for name in self._faults:
            self.fault(name, "")
        if self._rest is not None:
            say(self._rest, "")

    async def send(self, desk: Desk, method: Callable[..., T], *args: Any, **fields: Any) -> tuple[T] | None:  # noqa: ANN401 - the service's own arguments
        """Call a service; its refusal stands at the field at fault, and the answer is None."""
        self.clear()
        try:
            return (await desk.ask(method, *args, **fields),)
        except LoradeckError as error:
            self.refuse(error)
            return None

    def refuse(self, error: LoradeckError) -> None:
        """Show a refusal where it belongs."""
        if error.param in self._faults:
            self.fault(error.param, error.message)
        elif self._rest is not None:
            say(self._rest, error.message)
        else:
            self.fault(next(iter(self._faults)), error.message)
