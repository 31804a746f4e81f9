"""People who sign in, in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sqlmodel import Session, col, select

from engine.accounts import UserRecord
from engine.ids import TenantId
from engine.registry.tables import UserTable

if TYPE_CHECKING:
    from engine.caller import Role


def every(session: Session) -> list[tuple[UserRecord, str]]:
    """Each with the hash of their password, by name."""
    return [(_record(row), row.password_hash) for row in session.exec(select(UserTable).order_by(col(UserTable.name)))]


def get(session: Session, name: str) -> UserRecord:
    """Somebody who is stored."""
    return _record(_row(session, name))


def add(session: Session, user: UserRecord, password_hash: str, *, by: str) -> None:
    """Somebody new; a name that is taken is a conflict."""
    row = UserTable(
        name=user.name, role=user.role, tenant=user.tenant, password_hash=password_hash, created_unix=user.created_unix, created_by=by
    )
    session.add(row)
    session.flush()


def update(session: Session, user: UserRecord) -> None:
    """Role, scope and whether they may sign in."""
    row = _row(session, user.name)
    row.role, row.tenant, row.disabled_unix = user.role, user.tenant, user.disabled_unix


def set_password(session: Session, name: str, password_hash: str) -> None:
    """A new one."""
    _row(session, name).password_hash = password_hash


def note_sign_in(session: Session, name: str, at_unix: float) -> None:
    """They signed in at that time."""
    _row(session, name).signed_in_unix = at_unix


def delete(session: Session, name: str) -> None:
    """The account is gone."""
    session.delete(_row(session, name))
    session.flush()


def _row(session: Session, name: str) -> UserTable:
    return session.exec(select(UserTable).where(UserTable.name == name)).one()


def _record(row: UserTable) -> UserRecord:
    return UserRecord(
        name=row.name,
        role=cast("Role", row.role),
        tenant=None if row.tenant is None else TenantId(row.tenant),
        created_unix=row.created_unix,
        disabled_unix=row.disabled_unix,
        signed_in_unix=row.signed_in_unix,
    )
