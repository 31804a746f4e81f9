"""From what somebody shows (a key, a session, a password) to who they are. Any thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from engine.errors import Forbidden, Unauthorized
from engine.gateway.passwords import matches
from engine.gateway.throttle import Throttle
from engine.registry import keys, users

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.caller import Caller
    from engine.clock import Clock
    from engine.gateway.sessions import Door, Session, Sessions
    from engine.ids import TenantId
    from engine.tenants.directory import Directory

USE_EVERY_S = 60.0
"""How often a key's last use is stored."""


class Access:
    """``mode`` is ``local`` while only loopback is listened on and there is no admin account; then everybody is admin."""

    def __init__(self, directory: Directory, sessions: Sessions, clock: Clock, *, listens_on_loopback: bool) -> None:
        self._directory = directory
        self._sessions = sessions
        self._clock = clock
        self._listens_on_loopback = listens_on_loopback
        self._throttle = Throttle(clock.now_s)
        self._used_s: dict[str, float] = {}
        self.on_sign_in: Callable[[TenantId], None] = lambda _tenant: None
        """Hears the tenant of whoever has signed in."""

    @property
    def mode(self) -> Literal["local", "network"]:
        """Whether anybody needs to prove who they are."""
        return "local" if self._listens_on_loopback and not self._directory.has_admin else "network"

    def by_key(self, token: str, *, request: str | None = None) -> Caller:
        """Who shows this API key. Raises Unauthorized, in the same words for every reason, or Forbidden for a suspended tenant."""
        key = self._directory.ring.recognise(token)
        record = None if key is None else self._directory.keys.get(key)
        if record is None or not record.holds(time.time()):
            raise Unauthorized("The API key is not valid.")
        self._check_tenant(record.tenant)
        self._note_use(record.id)
        return record.caller(request)

    def by_session(self, token: str, door: Door, *, request: str | None = None) -> Caller:
        """Who is signed in with this token now, with the rights they have now. Raises Unauthorized or Forbidden."""
        session = self._sessions.find(token, door)
        user = None if session is None else self._directory.users.get(session.user)
        if user is None or user.disabled_unix is not None:
            raise Unauthorized("The session has ended; sign in again.", code="session_ended")
        self._check_tenant(user.tenant)
        return user.caller(request)

    def sign_in(self, name: str, password: str, door: Door) -> str:
        """A session's token for a name and its password. Takes 50 ms. Raises Unauthorized or Overloaded."""
        self._throttle.begin(name)
        user = self._directory.users.get(name)
        right = matches(password, self._directory.password_hashes.get(name))
        if not right or user is None or user.disabled_unix is not None:
            raise Unauthorized("Name or password is wrong.", code="wrong_credentials")
        self._throttle.succeeded(name)
        now_unix = time.time()
        self._directory.store.later(
            lambda session: users.note_sign_in(session, name, now_unix), then=lambda _: self._directory.seen(name, now_unix)
        )
        if user.tenant is not None:
            self.on_sign_in(user.tenant)
        return self._sessions.begin(name, door)

    def sign_out(self, token: str) -> None:
        """End a session."""
        self._sessions.end(token)

    def session(self, token: str, door: Door) -> Session | None:
        """The session of a token, while it lasts."""
        return self._sessions.find(token, door)

    def _check_tenant(self, tenant: TenantId | None) -> None:
        record = None if tenant is None else self._directory.tenants.get(tenant)
        if record is not None and record.suspended_unix is not None:
            raise Forbidden("This tenant is suspended; ask an admin.", code="tenant_suspended")

    def _note_use(self, key: str) -> None:
        now_s, now_unix = self._clock.now_s(), time.time()
        if now_s - self._used_s.get(key, float("-inf")) >= USE_EVERY_S:
            self._used_s[key] = now_s
            self._directory.store.later(
                lambda session: keys.note_use(session, key, now_unix), then=lambda _: self._directory.used(key, now_unix)
            )
