"""Who looks at a page: proven again for each action, so that what was revoked no longer acts."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from nicegui import Client, ui

from engine import LOCAL

if TYPE_CHECKING:
    from engine import Caller, Engine, Session

COOKIE: Final = "loradeck_session"
LAST_WORD_S: Final = 0.2


class Visitor:
    """One open page's. Its cookie is read when the page is made."""

    def __init__(self, engine: Engine) -> None:
        self._access = engine.tenants.access
        self._token = ui.context.client.request.cookies.get(COOKIE, "")

    @property
    def caller(self) -> Caller:
        """With the rights of this moment. Raises Unauthorized once the session has ended."""
        return LOCAL if self._access.mode == "local" else self._access.by_session(self._token, "console")


def close_pages_of(session: Session, loop: asyncio.AbstractEventLoop) -> None:
    """A session ended: its pages go to the sign-in and hear nothing more. Any thread."""
    loop.call_soon_threadsafe(_close_pages, session.id)


def _close_pages(session: str) -> None:
    for client in list(Client.instances.values()):
        token = client.request.cookies.get(COOKIE, "")
        if hashlib.sha256(token.encode()).hexdigest() == session:
            client.run_javascript("location.href = '/login'")
            asyncio.get_running_loop().call_later(LAST_WORD_S, client.delete)
