"""The sheet that lists the keys."""

from __future__ import annotations

from typing import Final

from console.navigation import PAGES
from console.widgets.elements import box, text

KEYS: Final = (
    ("/", "Filter"),
    ("j k", "Next and previous row"),
    ("Enter", "Open the row"),
    ("x", "Select the row"),
    ("Ctrl Enter", "Run the batch"),
    ("Esc", "Close, or stop the batch"),
    ("t", "Light or dark"),
    ("?", "This sheet"),
)


def keys_sheet() -> None:
    """A native dialog: it traps focus and closes with Esc by itself."""
    with box("dialog keys-sheet", "dialog").props('id=keys-dialog aria-label="Keys"'):
        text("Keys", "dialog-title", "h2")
        with box("key-list"):
            for key, what in (*((f"g {page.key}", page.name) for page in PAGES), *KEYS):
                text(key, "", "kbd")
                text(what)
        with box("dialog-foot", "form").props("method=dialog"), box("btn plain", "button"):
            text("Close")
