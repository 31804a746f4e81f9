"""Many adapters, one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import theme

if TYPE_CHECKING:
    from console.feed import Feed
    from engine import Engine


def playground_page(feed: Feed, engine: Engine) -> None:
    """Lanes and their shared steps."""
    with theme.frame("Playground", feed):
        pass
