"""People with a role, for all tenants or one. Whatever changes about somebody ends their sessions. Any thread."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.accounts import UserRecord
from engine.audit_record import Subject
from engine.caller import SYSTEM, Caller, Role
from engine.errors import Conflict, InvalidRequest
from engine.gateway.passwords import check_password, check_user_name, hash_password
from engine.registry import audit, users
from engine.tenants.directory import is_chief, is_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlmodel import Session

    from engine.gateway.sessions import Sessions
    from engine.ids import TenantId
    from engine.tenants.directory import Directory


class Users:
    """An admin of one tenant manages that tenant's people and no others."""

    def __init__(self, directory: Directory, sessions: Sessions) -> None:
        self._directory = directory
        self._sessions = sessions

    def list(self, *, caller: Caller = SYSTEM) -> list[UserRecord]:
        """Those within the caller's scope."""
        caller.need("admin")
        return [user for user in tuple(self._directory.users.values()) if is_within(user.tenant, caller)]

    def add(self, name: str, password: str, *, role: Role, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> UserRecord:
        """A new account. Raises InvalidRequest, NotFound for the tenant, or Conflict.

        An admin of one tenant names people within it, ``ana@acme``, which is added where it is missing: else a name that is taken
        would tell that another tenant has somebody of that name.
        """
        self._need(caller, tenant)
        name = self._qualified(name, tenant, caller)
        user = UserRecord(name=check_user_name(name), role=role, tenant=tenant, created_unix=time.time())
        password_hash = hash_password(check_password(password))
        if name in self._directory.users:
            message = f"The user name {name!r} is taken."
            raise Conflict(message, code="user_exists", param="name", found=name)

        def work(session: Session) -> None:
            users.add(session, user, password_hash, by=caller.name)
            audit.append(session, caller, "user.add", _subject(user), after=_facts(user))

        def then(_: None) -> None:
            self._directory.password_hashes[name] = password_hash
            self._directory.put_user(user)

        self._directory.store.write(work, then=then)
        return user

    def set_role(self, name: str, *, role: Role, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> UserRecord:
        """Other rights; whoever is signed in signs in again."""
        self._need(caller, tenant)
        return self._change(name, "user.role", caller, lambda before: replace(before, role=role, tenant=tenant))

    def disable(self, name: str, *, caller: Caller = SYSTEM) -> UserRecord:
        """They cannot sign in, and are signed out."""
        return self._change(name, "user.disable", caller, lambda before: replace(before, disabled_unix=time.time()))

    def enable(self, name: str, *, caller: Caller = SYSTEM) -> UserRecord:
        """They can sign in again."""
        return self._change(name, "user.enable", caller, lambda before: replace(before, disabled_unix=None))

    def reset(self, name: str, password: str, *, caller: Caller = SYSTEM) -> None:
        """A new password; one's own needs no role."""
        is_own = caller.kind == "user" and caller.name == name
        if not is_own:
            caller.need("admin")
        user = self._directory.user(name, caller)
        if not is_own:
            self._need(caller, user.tenant)
        password_hash = hash_password(check_password(password))

        def work(session: Session) -> None:
            users.set_password(session, name, password_hash)
            audit.append(session, caller, "user.password", _subject(user))

        def then(_: None) -> None:
            self._directory.password_hashes[name] = password_hash

        self._directory.store.write(work, then=then)
        self._sessions.end_all_of(name)

    def delete(self, name: str, *, caller: Caller = SYSTEM) -> None:
        """The account is gone; what it did stays in the audit log."""
        caller.need("admin")
        user = self._directory.user(name, caller)
        self._need(caller, user.tenant)

        def work(session: Session) -> None:
            users.delete(session, name)
            _keep_an_admin(session, user)
            audit.append(session, caller, "user.delete", _subject(user), before=_facts(user))

        def then(_: None) -> None:
            del self._directory.users[name], self._directory.password_hashes[name]

        self._directory.store.write(work, then=then)
        self._sessions.end_all_of(name)

    def _change(self, name: str, action: str, caller: Caller, change: Callable[[UserRecord], UserRecord]) -> UserRecord:
        caller.need("admin")
        self._need(caller, self._directory.user(name, caller).tenant)

        def work(session: Session) -> UserRecord:
            before = users.get(session, name)
            after = change(before)
            users.update(session, after)
            _keep_an_admin(session, before)
            audit.append(session, caller, action, _subject(after), before=_facts(before), after=_facts(after))
            return after

        after = self._directory.store.write(work, then=self._directory.put_user)
        self._sessions.end_all_of(name)
        return after

    def _qualified(self, name: str, tenant: TenantId | None, caller: Caller) -> str:
        """Names that end in ``@`` and a tenant are for its people."""
        home = name.rpartition("@")[2] if "@" in name else None
        if caller.tenant is not None:
            return name if home == caller.tenant else f"{name}@{caller.tenant}"
        if home in self._directory.tenants and home != tenant:
            message = f"Names that end in '@{home}' are for people of the tenant {home!r}."
            raise InvalidRequest(message, code="name_of_a_tenant", param="name", found=name[:80])
        return name

    def _need(self, caller: Caller, tenant: TenantId | None) -> None:
        if tenant is None:
            caller.need("admin", everywhere=True)
        else:
            caller.need_for(tenant, "admin")
            self._directory.tenant(tenant, caller)


def _keep_an_admin(session: Session, before: UserRecord) -> None:
    """Raise Conflict where nobody may do everything any more; in the transaction, so that two admins cannot end each other."""
    if is_chief(before) and not any(is_chief(user) for user, _ in users.every(session)):
        message = f"{before.name!r} is the last admin of all tenants; make another one first."
        raise Conflict(message, code="last_admin", param="user", found=before.name)


def _subject(user: UserRecord) -> Subject:
    return Subject("user", user.name, user.tenant)


def _facts(user: UserRecord) -> dict[str, object]:
    return {"role": user.role, "tenant": user.tenant, "disabled_unix": user.disabled_unix}
