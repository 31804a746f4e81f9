"""Lines above a page that say in what mode it is."""

from __future__ import annotations

from console.widgets.elements import box, button, icon, text


def local_banner() -> None:
    """Says that no account guards this console; a visitor may put it away."""
    with box("banner local").props("id=local-banner role=note"):
        icon("lock")
        text("Local mode.", "name")
        text("Only this machine can connect. Whoever opens this page acts as admin; any API key, or none, is tenant default.", "rest")
        button("", kind="quiet", glyph="close", small=True, hint="Put away").props("data-do=dismiss-local")


def reconnect_banner() -> None:
    """Shown by the browser itself while the socket is gone; what was typed stays."""
    with box("banner lost").props("id=lost-banner role=status hidden"):
        icon("warn", "warn")
        text("Reconnecting.", "name")
        text("").props("id=lost-text")
        box("gap")
        button("Try now", kind="quiet", small=True).props("data-do=reconnect")
