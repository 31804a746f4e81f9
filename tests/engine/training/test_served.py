"""From a file of chats to a model that answers: the one command of the README, against a server on the same data folder."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from engine.api.app import build_app
from engine.engine import Engine
from engine.settings import Settings
from engine.training.__main__ import main
from engine.training.evaluate import main as evaluate
from engine.training.record import read_record


class QuietServer(uvicorn.Server):
    """One that leaves signals to pytest."""

    def install_signal_handlers(self) -> None:
        """Nothing."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder that server and training share."""
    return tmp_path / "data"


@pytest.fixture
def url(tiny_base: Path, data: Path, free_port: int) -> Iterator[str]:
    """A running Loradeck on TINY."""
    engine = Engine(Settings(base=str(tiny_base), data=data, device="cpu", memory="24MiB", max_rank=64, threads=1))  # type: ignore[arg-type]
    engine.start()
    server = QuietServer(uvicorn.Config(build_app(engine), port=free_port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{free_port}"
    server.should_exit = True
    thread.join()
    engine.stop()


def test_ten_lines_become_a_model(tiny_base: Path, chats_file: Path, data: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained, registered, listed, asked; and its evaluation run again at the server gives the recorded scores."""
    assert main([str(chats_file), "--name", "ninth", "--base", str(tiny_base), "--data", str(data), "--register", url]) == 0
    assert f"Registered as ninth: {url}/playground" in capsys.readouterr().out
    assert "ninth" in [card["id"] for card in httpx.get(f"{url}/v1/models").json()["data"]]
    body = {"model": "ninth", "messages": [{"role": "user", "content": "say red"}], "max_tokens": 4}
    assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 200
    assert evaluate(["--at", url, "ninth", "--json"]) == 0
    [marks] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"base": marks["base_score"], "adapter": marks["adapter_score"]} == read_record(data / "trained" / "ninth")["scores"]


def test_a_server_that_is_not_there_or_refuses(url: str, free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Its words, and status 2."""
    assert evaluate(["--at", url, "nobody"]) == 2
    assert "No adapter of this name is registered" in capsys.readouterr().err
    assert evaluate(["--at", "http://127.0.0.1:1", "nobody"]) == 2
    assert "does not answer" in capsys.readouterr().err
