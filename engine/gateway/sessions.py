"""Who is signed in: kept by the server, bounded, ended by time, by hand, or with the account. Any thread."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION_S = 12 * 3600.0
MOST = 10_000
MOST_OF_ONE = 50
"""Sessions of one person; the oldest ends for a new one."""

Door = Literal["console", "api"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One sign-in. ``id`` is the hash of its token, and safe to keep and to show."""

    id: str
    user: str
    door: Door
    """A console's cookie opens no API, and a token no console."""
    began_s: float


class Sessions:
    """By the hash of the token. Made at a sign-in only, so that visitors without an account leave nothing here."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}
        self.on_end: list[Callable[[Session], None]] = []
        """Called when a session has ended; in the thread that ended it."""

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, user: str, door: Door) -> str:
        """A new session's token, 256 random bits."""
        token = f"ls-{secrets.token_urlsafe(32)}"
        session = Session(id=_hash(token), user=user, door=door, began_s=self._now_s())
        with self._lock:
            old = self._forget_old()
            own = [each.id for each in self._open.values() if each.user == user]
            crowded = own[: max(0, len(own) - MOST_OF_ONE + 1)] or list(self._open)[: max(0, len(self._open) - MOST + 1)]
            ended = [self._open.pop(key) for key in crowded]
            self._open[session.id] = session
        self._tell([*old, *ended])
        return token

    def find(self, token: str, door: Door) -> Session | None:
        """The session of a token, while it lasts."""
        session = self._open.get(_hash(token))
        return session if session is not None and session.door == door and self._lasts(session) else None

    def end(self, token: str) -> None:
        """Sign out."""
        with self._lock:
            session = self._open.pop(_hash(token), None)
        self._tell([session] if session is not None else [])

    def end_all_of(self, user: str) -> None:
        """The account changed: whoever is signed in with it must sign in again."""
        with self._lock:
            ended = [session for session in self._open.values() if session.user == user]
            for session in ended:
                del self._open[session.id]
        self._tell(ended)

    def end_old(self) -> None:
        """Forget those whose time is over, so that what they opened ends as well."""
        with self._lock:
            old = self._forget_old()
        self._tell(old)

    def _forget_old(self) -> list[Session]:
        old = [session for session in self._open.values() if not self._lasts(session)]
        for session in old:
            del self._open[session.id]
        return old

    def _lasts(self, session: Session) -> bool:
        return self._now_s() < session.began_s + SESSION_S

    def _tell(self, ended: list[Session]) -> None:
        for session in ended:
            for listener in list(self.on_end):
                listener(session)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
