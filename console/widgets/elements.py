"""Plain HTML elements: a box, a text, an icon, a button, a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nicegui.elements.html import Html
    from nicegui.elements.input import Input

ButtonKind = Literal["plain", "primary", "quiet", "danger", "destroy"]


class Text(TextElement):
    """Text in a tag; it is set as text, never as markup."""

    def __init__(self, text: str, tag: str) -> None:
        super().__init__(tag=tag, text=text)


def box(classes: str = "", tag: str = "div") -> Element:
    """An element to put others into."""
    element = Element(tag)
    return element.classes(classes) if classes else element


def text(value: str, classes: str = "", tag: str = "span") -> Text:
    """A piece of text."""
    element = Text(value, tag)
    return element.classes(classes) if classes else element


def say(element: TextElement, value: str) -> None:
    """Set a text; nothing is sent when it did not change."""
    element.text = value


def drawing(svg: str = "", classes: str = "", tag: str = "div") -> Html:
    """Markup made here from numbers and constants; never from anything a user wrote."""
    element = ui.html(svg, sanitize=False, tag=tag)
    return element.classes(classes) if classes else element


def icon_svg(name: str, classes: str = "") -> str:
    """The markup of an icon of ``static/icons.svg``."""
    return f'<svg class="i {classes}" aria-hidden="true"><use href="#i-{name}"/></svg>'


def icon(name: str, classes: str = "") -> Html:
    """An icon; the word beside it carries the meaning."""
    return drawing(icon_svg(name, classes), "ico", "span")


def button(
    label: str,
    on_click: Callable[[], Awaitable[None] | None] | None = None,
    *,
    kind: ButtonKind = "plain",
    glyph: str = "",
    small: bool = False,
    hint: str = "",
) -> Element:
    """A native button. Without a label, ``hint`` is its accessible name."""
    element = box(f"btn {kind}{' small' if small else ''}{'' if label else ' bare'}", "button")
    element.props["type"] = "button"
    if hint:
        element.props["title"] = hint
        element.props["aria-label"] = hint if not label else f"{label}: {hint}"
    with element:
        if glyph:
            icon(glyph)
        if label:
            text(label)
    if on_click is not None:
        element.on("click", on_click, args=[])
    return element


def enable(element: Element, enabled: bool, why_not: str = "") -> None:  # noqa: FBT001 - reads as a sentence
    """Switch a button or a field; when off it says why."""
    element.props.set_bool("disabled", not enabled)
    element.props.set_optional("title", why_not if not enabled and why_not else None)


def field(label: str, *, value: str = "", placeholder: str = "", on_change: Callable[[Any], Any] | None = None) -> Input:
    """A one-line field in our own frame; ``label`` is its accessible name."""
    element = ui.input(value=value, placeholder=placeholder, on_change=on_change)
    element.classes("field").props("borderless dense")
    element.props["aria-label"] = label
    return element


def choice(label: str, options: dict[str, str], chosen: str, on_choose: Callable[[str], Any] | None = None) -> Element:
    """A native list of options by key; ``label`` is its accessible name. ``props["value"]`` is what is chosen."""
    element = box("pick-one", "select")
    element.props["aria-label"] = label
    element.props["value"] = chosen
    with element:
        for key, word in options.items():
            option = text(word, "", "option")
            option.props["value"] = key
            option.props.set_bool("selected", key == chosen)

    def choose(key: str) -> None:
        element.props["value"] = key
        if on_choose is not None:
            on_choose(key)

    element.on("change", lambda e: choose(str(e.args)), js_handler="(e) => emit(e.target.value)")
    return element


def tabs(options: dict[str, str], chosen: str, on_choose: Callable[[str], None], label: str) -> Element:
    """Parts of one thing, one of them shown."""
    with box("tabs").props("role=tablist") as bar:
        bar.props["aria-label"] = label
        for key, word in options.items():
            with box("tab on" if key == chosen else "tab", "button").props("type=button role=tab") as tab:
                text(word)
            tab.props["aria-selected"] = "true" if key == chosen else "false"
            tab.on("click", lambda key=key: on_choose(key), args=[])
    return bar


def segments(options: dict[str, str], chosen: str, on_choose: Callable[[str], None], label: str) -> Element:
    """One choice of a few, side by side."""
    with box("segments").props(f'role=radiogroup aria-label="{label}"') as group:
        buttons = {key: box("", "button").props("type=button role=radio") for key in options}

    def mark(key: str) -> None:
        for name, element in buttons.items():
            element.classes(add="on" if name == key else "", remove="" if name == key else "on")
            element.props["aria-checked"] = "true" if name == key else "false"

    def choose(key: str) -> None:
        mark(key)
        on_choose(key)

    for key, word in options.items():
        with buttons[key].on("click", lambda key=key: choose(key), args=[]):
            text(word)
    mark(chosen)
    return group
