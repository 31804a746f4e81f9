"""The application under test, over a scripted engine: in process, and behind a real server for the official client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import openai
import pytest
import uvicorn
from fastapi import FastAPI

from engine.api.app import build_app
from engine.settings import Settings
from tests.api.scripted_engine import CONTEXT, ScriptedEngine
from tests.tiny import write_json
from tests.tiny_tokenizer import EOS, IM_END, tokenizer_config, tokenizer_json

VOCAB = 320


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TINY's folder without its weights."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_json(folder / "tokenizer.json", tokenizer_json(VOCAB))
    write_json(folder / "tokenizer_config.json", tokenizer_config(CONTEXT))
    write_json(folder / "config.json", {"vocab_size": VOCAB, "eos_token_id": EOS})
    write_json(folder / "generation_config.json", {"eos_token_id": [EOS, IM_END]})
    return folder


@pytest.fixture
def engine(tokenizer_folder: Path, tmp_path: Path) -> ScriptedEngine:
    """The engine behind the application."""
    return ScriptedEngine(tokenizer_folder, Settings(data=tmp_path))


@pytest.fixture
def app(engine: ScriptedEngine) -> FastAPI:
    """The application under test."""
    engine.start()
    return build_app(engine)  # type: ignore[arg-type]


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client in the application's own loop."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


class QuietServer(uvicorn.Server):
    """A server in a thread of the test process; leaves signals alone."""

    def install_signal_handlers(self) -> None:
        """None."""


@pytest.fixture
def address(app: FastAPI, free_port: int) -> Iterator[str]:
    """``http://127.0.0.1:…`` of the application behind uvicorn."""
    server = QuietServer(uvicorn.Config(app, port=free_port, log_level="error", access_log=False, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), name="server")
    thread.start()
    deadline_s = time.monotonic() + 20
    while not server.started and thread.is_alive() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert server.started
    yield f"http://127.0.0.1:{free_port}"
    server.should_exit = True
    thread.join(timeout=20)
    assert not thread.is_alive()


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    """The official client, as anybody would use it."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        yield client
