"""Registers the demo adapters at the first start of the demo base, by the same door as anyone's."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from engine.caller import SYSTEM
from engine.demo.synthetic import SHOWN, write_samples
from engine.errors import LoradeckError
from engine.ids import TenantId
from engine.voices.shelf import demo_voices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.engine import Engine

    Progress = Callable[[str, float | None], None]

DEMO = replace(SYSTEM, name="demo")
DONE = "registered"
"""Marks a folder whose adapters were registered once: those withdrawn since stay withdrawn."""
log = logging.getLogger("loradeck.demo")


def install_demo(engine: Engine, progress: Progress) -> int:
    """Register what the settings ask for and was not registered before in this data folder; how many. Other bases get none."""
    if engine.settings.base != "demo":
        return 0
    return _once(engine, "voices", _install_voices, progress) + _once(engine, "samples", _install_samples, progress)


def _once(engine: Engine, name: str, install: Callable[[Engine, Path, Progress], int], progress: Progress) -> int:
    folder = engine.settings.data / name
    if (folder / DONE).exists():
        return 0
    count = install(engine, folder, progress)
    if count:
        (folder / DONE).touch()
    return count


def _install_voices(engine: Engine, folder: Path, progress: Progress) -> int:
    """The trained ones. One that this base refuses is left out with a line in the log."""
    if not engine.settings.voices:
        return 0
    shelf, count = demo_voices(), 0
    for voice in shelf:
        progress("Registering the demo adapters", count / len(shelf))
        source = shutil.copytree(voice.folder, folder / voice.alias, dirs_exist_ok=True)
        try:
            engine.register(str(source), alias=voice.alias, tenant=TenantId(voice.tenant), replace=True, caller=DEMO)
        except LoradeckError as error:
            log.warning("demo adapter %s is not registered: %s", voice.alias, error.message)
        count += 1
    return count


def _install_samples(engine: Engine, folder: Path, progress: Progress) -> int:
    """Synthetic ones, for tests of scale."""
    wanted = engine.settings.sample_adapters
    count = 0
    for sample in write_samples(folder, engine.base_spec, count=wanted):
        progress("Registering sample adapters", count / wanted)
        prove: Literal["now", "first_load"] = "now" if count < len(SHOWN) else "first_load"
        engine.register(str(sample.folder), alias=sample.alias, tenant=TenantId("sample"), prove=prove, replace=True, caller=DEMO)
        count += 1
    return count
