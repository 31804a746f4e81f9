"""What every test may ask for: TINY folders made once a run, a free port, a browser."""

from __future__ import annotations

import os

# Before torch is imported anywhere: two test processes share two cores, and products this small lose by being split.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
# Before triton is imported anywhere: kernels then run in its interpreter. `make gpu` sets 0.
# What the engine serves on CPU does not look at it.
os.environ.setdefault("TRITON_INTERPRET", "1")
for name in [name for name in os.environ if name.startswith("LORADECK_")]:
    del os.environ[name]

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import tiny

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

LONG_FILES = ("test_kill.py", "test_versions.py", "test_voices.py", "test_registry_bench.py", "test_rights.py", "test_readme_commands.py")
"""Half a minute and more each: begun first, so that two processes end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files in front; the others stay in their order."""
    items.sort(key=lambda item: item.path.name not in LONG_FILES)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The engine and its doors run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of TINY; read only."""
    return tiny.write_base(tmp_path_factory.mktemp("bases") / "tiny")


@pytest.fixture(scope="session")
def tiny_adapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Six healthy adapters of TINY, of ranks and modules that differ; read only."""
    folder = tmp_path_factory.mktemp("adapters")
    recipes = (
        tiny.AdapterRecipe(seed=11),
        tiny.AdapterRecipe(seed=12),
        tiny.AdapterRecipe(seed=13, rank=4, modules=("q_proj",)),
        tiny.AdapterRecipe(seed=14, rank=16, modules=tiny.MODULES),
        tiny.AdapterRecipe(seed=15, rank=33, modules=("v_proj", "o_proj", "down_proj")),
        tiny.AdapterRecipe(seed=16, rank=1, modules=("up_proj", "gate_proj")),
    )
    return tuple(tiny.write_adapter(folder / f"ad-{recipe.seed}", recipe) for recipe in recipes)


@pytest.fixture
def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium under Playwright, once a file. Its loop keeps ``async def`` tests from running: they go in other files."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only browser tests pay for it

    path = chromium_path()
    if path is None:
        pytest.fail("no Chromium: apt-get install chromium, or leave these tests out with -m 'not browser'")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


def chromium_path() -> str | None:
    """Where the system's Chromium or Chrome is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
