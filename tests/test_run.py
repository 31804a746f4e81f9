"""What someone at the terminal sees when Loradeck cannot start."""

from __future__ import annotations

import socket
import sys
import warnings
from pathlib import Path

import pytest
import torch
import uvicorn

import run


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the data folder of whoever runs the tests, which may have accounts."""
    monkeypatch.setenv("LORADECK_DATA", str(tmp_path))


def test_bad_settings_are_named_by_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """Every wrong flag gets its own line, and nobody sees a traceback."""
    assert run.main(["--port", "x", "--max-rank", "900", "--memory", "8 apples"]) == 2
    error = capsys.readouterr().err
    assert all(flag in error for flag in ("--port: ", "--max-rank: ", "--memory: "))
    assert "Traceback" not in error


def test_unreadable_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A list in the environment that is not JSON names its setting."""
    monkeypatch.setenv("LORADECK_SOURCE_ALLOW", "/a")
    assert run.main([]) == 2
    assert "source_allow" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1.example.invalid"])
def test_only_this_machine(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an admin no address but loopback is taken, whatever its name looks like."""
    assert run.main(["--host", host]) == 2
    error = capsys.readouterr().err
    assert host in error
    assert f"Make one with {run.admin_command(run.Settings())}, or" in error or host.endswith(".invalid")


def test_a_python_of_this_folder_is_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the README has it, where the environment that ``make`` made is the one; other accounts than the usual ones are named too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    assert run.admin_command(run.Settings()) == ".venv/bin/python -m engine.admin add NAME"
    settings = run.Settings(_cli_parse_args=["--data", "/my data"])
    assert run.admin_command(settings) == ".venv/bin/python -m engine.admin --data '/my data' add NAME"


def test_port_in_use(free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A taken port is told before anything loads, with the flag that helps."""
    with socket.create_server(("127.0.0.1", free_port)):
        assert run.main(["--port", str(free_port)]) == 2
    error = capsys.readouterr().err
    assert error == f"Cannot listen on 127.0.0.1:{free_port}: Address already in use. Choose another with --host or --port.\n"


def test_port_zero_takes_a_free_one() -> None:
    """``--port 0`` listens on a port that the system chose."""
    with run.open_port(run.Settings(port=0)) as port:
        assert port.getsockname()[1] > 0


def test_a_start_shows_no_warning_of_torchs() -> None:
    """What NiceGUI does to find its server is not told to whoever waits for the address."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run.expect_search_for_server()
        assert not isinstance(torch.distributed.reduce_op, uvicorn.Server)
    assert told == []
