"""API keys, in a session. A secret never comes here, only its hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sqlmodel import Session, col, select

from engine.accounts import KeyRecord
from engine.ids import TenantId
from engine.registry.tables import KeyTable

if TYPE_CHECKING:
    from engine.caller import Role


def every(session: Session) -> list[tuple[KeyRecord, str]]:
    """Each with the hash of its secret, oldest first."""
    return [(_record(row), row.secret_hash) for row in session.exec(select(KeyTable).order_by(col(KeyTable.created_unix)))]


def get(session: Session, key: str) -> KeyRecord:
    """One that is stored."""
    return _record(session.get_one(KeyTable, key))


def add(session: Session, key: KeyRecord, secret_hash: str) -> None:
    """A new key."""
    row = KeyTable(
        id=key.id,
        tenant=key.tenant,
        name=key.name,
        secret_hash=secret_hash,
        role=key.role,
        models=None if key.models is None else list(key.models),
        created_unix=key.created_unix,
        created_by=key.created_by,
        expires_unix=key.expires_unix,
        replaces=key.replaces,
    )
    session.add(row)
    session.flush()


def update(session: Session, key: KeyRecord) -> None:
    """Name, allow-list and when it ends."""
    row = session.get_one(KeyTable, key.id)
    row.name, row.models = key.name, None if key.models is None else list(key.models)
    row.expires_unix, row.revoked_unix = key.expires_unix, key.revoked_unix


def note_use(session: Session, key: str, used_unix: float) -> None:
    """It was shown at that time."""
    row = session.get(KeyTable, key)
    if row is not None:
        row.used_unix = used_unix


def _record(row: KeyTable) -> KeyRecord:
    return KeyRecord(
        id=row.id,
        tenant=None if row.tenant is None else TenantId(row.tenant),
        name=row.name,
        role=cast("Role | None", row.role),
        models=None if row.models is None else tuple(row.models),
        created_unix=row.created_unix,
        created_by=row.created_by,
        expires_unix=row.expires_unix,
        revoked_unix=row.revoked_unix,
        replaces=row.replaces,
        used_unix=row.used_unix,
    )
