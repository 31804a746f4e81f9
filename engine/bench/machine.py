"""What was measured on: facts that a figure means nothing without."""

from __future__ import annotations

import datetime as dt
import os
import platform
from importlib import metadata

import psutil
import torch

from engine.budget import device_name

PEERS = ("transformers", "peft")


def machine_facts() -> dict[str, object]:
    """Processor, threads, versions, date and load of this machine now; a package that is absent is None."""
    return {
        "cpu": device_name(torch.device("cpu")),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{name: _version(name) for name in PEERS},
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
