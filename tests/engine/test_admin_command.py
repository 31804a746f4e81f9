"""``python -m engine.admin`` as somebody types it: the first admin of a data folder, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.admin.accounts import accounts, has_admin
from engine.data_lock import DataLock
from engine.errors import BaseRefused
from engine.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND = "correct horse battery", "staple correct horse"


def command(data: Path, *words: str, typed: str = "") -> tuple[int, str, str]:
    """Its exit status, and what it said."""
    line = [sys.executable, "-m", "engine.admin", "--data", str(data), *words]
    done = subprocess.run(line, cwd=ROOT, input=f"{typed}\n", capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def test_from_nothing_to_an_admin_with_a_new_password(tmp_path: Path) -> None:
    """Added, listed and reset; the old password ends, no password is told."""
    settings = Settings(data=tmp_path)
    assert command(tmp_path, "add", "ana", "--password-stdin", typed=FIRST)[0] == 0
    assert has_admin(settings)
    status, said, _ = command(tmp_path, "list")
    assert (status, said.split()[:2]) == (0, ["ana", "admin"])
    assert command(tmp_path, "reset", "ana", "--password-stdin", typed=SECOND) == (0, "", "")
    with accounts(settings) as tenants:
        assert tenants.access.sign_in("ana", SECOND, "api")
        with pytest.raises(Exception, match="wrong"):
            tenants.access.sign_in("ana", FIRST, "api")
    for words, typed, why in (
        (("add", "ana", "--password-stdin"), FIRST, "'ana' is taken"),
        (("add", "bob", "--password-stdin"), "short", "assword"),
        (("add", "bob", "--tenant", "nobody", "--password-stdin"), FIRST, "nobody"),
        (("reset", "bob", "--password-stdin"), FIRST, "bob"),
        (("disable", "ana"), "", "last admin"),
    ):
        status, said, error = command(tmp_path, *words, typed=typed)
        assert (status, said, error.count("\n")) == (1, "", 1), error
        assert why in error
        assert "Traceback" not in error


def test_not_beside_a_server(tmp_path: Path) -> None:
    """While a Loradeck serves from the folder its accounts are changed there."""
    lock = DataLock(tmp_path)
    lock.take()
    try:
        status, _, error = command(tmp_path, "list")
        assert (status, error.count("\n")) == (1, 1)
    finally:
        lock.give_back()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A refusal that names the folder and the setting, and no traceback."""
    (tmp_path / "file").write_text("here already")
    with pytest.raises(BaseRefused, match="cannot be written") as refusal:
        DataLock(tmp_path / "file" / "data").take()
    assert (refusal.value.code, refusal.value.param) == ("data_unwritable", "data")
