"""Which adapters are where, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console import theme

if TYPE_CHECKING:
    from console.feed import Feed
    from engine import Engine


def adapters_page(feed: Feed, engine: Engine, address: dict[str, Any]) -> None:
    """The table and the drawer."""
    with theme.frame("Adapters", feed):
        pass
