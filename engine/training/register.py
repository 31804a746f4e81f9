"""Registers a trained folder at a running Loradeck, over HTTP like anyone's."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from engine.errors import TrainingRefused

if TYPE_CHECKING:
    from pathlib import Path

    from engine.training.recipe import Recipe

TIMEOUT_S = 120.0


def register_at(url: str, folder: Path, recipe: Recipe) -> str:
    """What to do next. Raises TrainingRefused with the server's own message where it refuses or is not there."""
    body = json.dumps({"lora_name": recipe.name, "lora_path": str(folder.resolve()), "load_inplace": True}).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/v1/load_lora_adapter", data=body, headers={"Content-Type": "application/json"})  # noqa: S310 the caller's own address
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 likewise
            return f"Registered as {recipe.name}: {url.rstrip('/')}/playground"
    except urllib.error.HTTPError as error:
        message = json.loads(error.read() or b"{}").get("error", {}).get("message", error.reason)
        raise TrainingRefused(f"{url} refused it: {message}", code="not_registered", param="register") from None
    except OSError as error:
        raise TrainingRefused(f"{url} does not answer: {error}.", code="not_registered", param="register") from None
