"""Brings a database's tables up to what this version of Loradeck expects."""

from __future__ import annotations

import shutil
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import text

from engine.errors import BaseRefused

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from engine.registry.database import Database

HEAD = "m0008"
"""The newest step in ``migrations/versions``; a test compares."""


def bring_up(database: Database) -> None:
    """Run the steps that are missing, all or none; a SQLite file that has tables is copied first. Raises BaseRefused for a newer one."""
    with database.writer.connect() as connection:
        found = _revision(connection)
    if found == HEAD:
        return
    from alembic import command  # noqa: PLC0415 - half a second that most starts do not need
    from alembic.config import Config  # noqa: PLC0415 - likewise
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - likewise

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    if found is not None:
        known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
        if found not in known:
            message = f"The registry {database.name} was written by a newer Loradeck (its tables are at {found}). Start that one."
            raise BaseRefused(message, code="registry_newer", param="database", expected=HEAD, found=found)
        _copy(database, found)
    with database.writer.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    """None for a database without tables."""
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _copy(database: Database, revision: str) -> None:
    """Keep the file as it was, beside it."""
    if database.file is None:
        return
    copy = database.file.with_name(f"{database.file.name}.{revision}-{int(time.time())}")
    with database.writer.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        try:
            driver.execute("VACUUM INTO ?", (str(copy),))
        except sqlite3.Error as error:
            copy.unlink(missing_ok=True)
            raise _no_copy(database.file, error) from error


def _no_copy(file: Path, error: sqlite3.Error) -> BaseRefused:
    needed_bytes, free_bytes = file.stat().st_size, shutil.disk_usage(file.parent).free
    message = (
        f"The registry is to be brought up to date, and {file.name} cannot be copied first, in {file.parent}: {error}. "
        f"The copy takes up to {needed_bytes} bytes, and {free_bytes} are free. Nothing was changed: make room there, and start again."
    )
    return BaseRefused(message, code="registry_not_copied", param="data", expected=needed_bytes, found=free_bytes)
