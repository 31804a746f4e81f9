"""The state of a run on disk, so that it can go on: matrices, moments, losses. safetensors and JSON, no pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from engine.errors import TrainingRefused

if TYPE_CHECKING:
    from pathlib import Path

    from engine.training.lora import LoraWeights

FILE = "checkpoint.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One file in the run's folder; ``inputs`` names what the run depends on, and another run's state is refused."""

    folder: Path
    inputs: dict[str, str]
    """Digests of recipe, data and base."""

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE

    def save(self, weights: LoraWeights, optimizer: torch.optim.Optimizer, losses: list[float]) -> None:
        """Write, then put in place at once."""
        tensors: dict[str, torch.Tensor] = {}
        for index, matrix in enumerate(weights.parameters):
            state = optimizer.state[matrix]
            tensors |= {f"{index}.value": matrix.detach()} | {f"{index}.{moment}": state[moment] for moment in MOMENTS}
        self.folder.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".half")
        save_file(tensors, half, metadata={"inputs": json.dumps(self.inputs), "losses": json.dumps(losses)})
        half.replace(self.path)

    def restore(self, weights: LoraWeights, optimizer: torch.optim.Optimizer) -> list[float]:
        """The losses of the steps that were done; matrices and moments are set. Raises TrainingRefused at another run's state."""
        if not self.path.exists():
            return []
        try:
            with safe_open(self.path, framework="pt") as file:
                losses = self._losses(file.metadata())
                for index, matrix in enumerate(weights.parameters):
                    matrix.detach().copy_(file.get_tensor(f"{index}.value"))
                    moments = {moment: file.get_tensor(f"{index}.{moment}") for moment in MOMENTS}
                    optimizer.state[matrix] = {"step": torch.tensor(float(len(losses))), **moments}
        except (SafetensorError, ValueError, KeyError) as error:
            message = f"{self.path} cannot be read ({error}); remove it to begin anew."
            raise TrainingRefused(message, code="checkpoint_unreadable", param="out") from None
        return losses

    def _losses(self, metadata: dict[str, str]) -> list[float]:
        found = json.loads(metadata["inputs"])
        for name, digest in self.inputs.items():
            if found.get(name) != digest:
                message = f"{self.path} is the state of a run with another {name}. Name another folder, or remove it to begin anew."
                raise TrainingRefused(message, code="checkpoint_mismatch", param=name, expected=digest, found=found.get(name))
        losses: list[float] = json.loads(metadata["losses"])
        return losses

    def remove(self) -> None:
        """Once the run is done and its adapter written."""
        self.path.unlink(missing_ok=True)
