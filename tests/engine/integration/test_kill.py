"""``kill -9`` at any moment loses nothing that was answered, and nothing half-written is ever served.

One hundred whole engines, on TINY and one data folder, each killed at a random moment: most while they register, replace, move, withdraw,
retire, archive and restore, make keys and set limits; one in ten while it opens. Every engine first finds all that was answered before it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.engine.integration.serving import PROMPT, expected
from tests.engine.kill.child import NUM_TOKENS
from tests.tiny import AdapterRecipe, write_adapter, write_base

ROOT = Path(__file__).parents[3]
SEED = 4
WITHIN_S = 400
"""The machine may be busy; alone it is done in a fraction of that."""
NUM_IMPORTED = 60


def kill(folder: Path, kills: int, work: str) -> dict[str, Any]:
    """Run it; what the killer says at its end. A failure shows all that it and its engines wrote."""
    command = [sys.executable, "-m", "tests.engine.kill", str(folder), str(SEED), str(kills), work]
    log = folder / "log"
    with log.open("wb") as file, subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file) as killer:
        try:
            killer.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            killer.kill()
    assert killer.wait() == 0, f"seed {SEED}, exit status {killer.returncode}\n{log.read_text(errors='replace')}"
    summary: dict[str, Any] = json.loads(log.read_text().splitlines()[-1])
    return summary


def prepare(folder: Path, count: int, place: str) -> dict[str, list[int]]:
    """A base, sources, and what each must answer."""
    base = write_base(folder / "base")
    ranks = (1, 8, 16)
    sources = [write_adapter(folder / f"data/{place}/a{n:02}", AdapterRecipe(seed=200 + n, rank=ranks[n % 3])) for n in range(count)]
    known = {str(source): list(expected(base, source, PROMPT, NUM_TOKENS)) for source in sources[:12]}
    (folder / "expected.json").write_text(json.dumps(known))
    (folder / "data/sources").mkdir(parents=True, exist_ok=True)
    return known


def test_a_hundred_kills(tmp_path: Path) -> None:
    """Versions, aliases, keys, limits and audit lines outlast each; images are whole; what answers answers right."""
    prepare(tmp_path, 12, "sources")
    summary = kill(tmp_path, 100, "change")
    assert summary["lines"]["line"] > 100
    assert summary["lines"]["key"] > 10
    assert summary["lines"]["answer"] > 60


def test_kills_during_an_import(tmp_path: Path) -> None:
    """An import that was killed again and again is carried on by itself, and every row is there once."""
    prepare(tmp_path, NUM_IMPORTED, "many")
    summary = kill(tmp_path, 8, "import")
    assert summary["end"] == {"ended": "done", "done": NUM_IMPORTED, "failed": 0, "total": NUM_IMPORTED}
    assert summary["versions"] == NUM_IMPORTED
    assert summary["carried_on"] > 0
