"""The tables are what the code believes they are."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from engine.errors import BaseRefused
from engine.registry import placements, schema
from engine.registry.store import Store
from engine.registry.tables.metadata import Row
from tests.engine.registry.conftest import SQLITE

Open = Callable[[], Store]
MIGRATIONS = Path(schema.__file__).parent / "migrations"


def test_migrations_lead_to_the_tables_of_the_code(store: Store) -> None:
    """Empty → head, and between head and the classes there is no difference, types and defaults included."""
    with store.database.readers.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Row.metadata) == []


def test_there_is_one_newest_step() -> None:
    """The steps form one line, and its end is the one that the code asks for."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_a_newer_registry_is_refused(open_store: Open) -> None:
    """A database of a later Loradeck is left as it is, with a typed error that names both."""
    first = open_store()
    first.write(lambda session: session.execute(text("UPDATE alembic_version SET version_num = 'm9999'")))
    first.close()
    for _ in range(2):
        with pytest.raises(BaseRefused) as refused:
            open_store()
        assert (refused.value.code, refused.value.expected, refused.value.found) == ("registry_newer", schema.HEAD, "m9999")


AS_IT_WAS = (
    "DROP TABLE audit",
    "DROP TABLE pin",
    "ALTER TABLE placement ADD COLUMN pin_tier VARCHAR",
    "ALTER TABLE placement ADD COLUMN pin_until_unix FLOAT",
    "ALTER TABLE placement ADD COLUMN pin_reason VARCHAR",
    "ALTER TABLE placement ADD COLUMN pin_by VARCHAR",
    "ALTER TABLE placement ADD COLUMN pin_unix FLOAT",
    "INSERT INTO placement (content, pin_tier, pin_reason, pin_by, warm_priority, warm_by) VALUES ('c', 'device', 'r', 'ana', 0, '')",
    "UPDATE alembic_version SET version_num = 'm0004'",
)
"""What a file looked like before pins were by tenant and there was an audit log."""


@SQLITE
def test_an_older_file_is_copied_before_it_is_changed(open_store: Open, tmp_path: Path) -> None:
    """Before steps run on a file that has tables, it is kept beside itself, whole."""
    first = open_store()
    for statement in AS_IT_WAS:
        first.write(lambda session, statement=statement: session.execute(text(statement)))
    first.close()
    second = open_store()
    (kept,) = second.read(placements.every)
    assert (kept.content, kept.warm_tier, kept.pin and (kept.pin.tier, kept.pin.reason)) == ("c", None, ("device", "r"))
    second.read(lambda session: session.execute(text("SELECT hash FROM audit")).all())
    (copy,) = tmp_path.glob("loradeck.db.m0004-*")
    assert b"usage_day" in copy.read_bytes()


@SQLITE
def test_a_file_that_cannot_be_copied_is_not_changed(open_store: Open, tmp_path: Path) -> None:
    """The start is refused with the bytes that a copy takes; no half of one is left, and with room the next start goes through."""
    first = open_store()
    for statement in AS_IT_WAS:
        first.write(lambda session, statement=statement: session.execute(text(statement)))
    first.close()
    file = tmp_path / "loradeck.db"
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(BaseRefused, match=f"The copy takes up to {len(before)} bytes") as refused:
            open_store()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.value.code == "registry_not_copied"
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("loradeck.db.m0004-*"))
    assert open_store().read(placements.every)
