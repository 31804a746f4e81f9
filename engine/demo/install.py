"""Registers the sample adapters at the first start of the demo base, by the same door as anyone's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from engine.demo.synthetic import SHOWN, write_samples
from engine.ids import TenantId

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.engine import Engine

FOLDER = "samples"
DONE = "registered"
"""Marks a data folder whose samples were registered once: those withdrawn since stay withdrawn."""


def install_samples(engine: Engine, progress: Callable[[str, float | None], None]) -> int:
    """Write and register the samples that the settings ask for, once a data folder; how many. Other bases get none."""
    settings = engine.settings
    folder = settings.data / FOLDER
    if settings.base != "demo" or not settings.sample_adapters or (folder / DONE).exists():
        return 0
    count = 0
    for sample in write_samples(folder, engine.base_spec, count=settings.sample_adapters):
        progress("Registering sample adapters", count / settings.sample_adapters)
        prove: Literal["now", "first_load"] = "now" if count < len(SHOWN) else "first_load"
        engine.register(str(sample.folder), alias=sample.alias, tenant=TenantId("sample"), prove=prove, replace=True, by="demo")
        count += 1
    (folder / DONE).touch()
    return count
