"""A process that opens the engine on a data folder, says what it finds, and changes things until it is killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.adapters.image import AdapterImage
from engine.alias import AliasName
from engine.allowance import Allowance
from engine.caller import LOCAL
from engine.engine import Engine
from engine.ids import DEFAULT_TENANT, RequestId
from engine.intake.importing import Import
from engine.operation import UNFINISHED
from engine.registry import audit
from engine.request import Request, SamplingParams
from engine.settings import Settings
from tests.engine.integration.serving import PROMPT

LINES = tuple(f"line{number}" for number in range(5))
NUM_TOKENS = 6
Say = Callable[[dict[str, Any]], None]


class Child:
    """Reports each change when it was answered, and before that what it is about to ask for."""

    def __init__(self, base: Path, data: Path, seed: int, pipe: int, *, known: Collection[str]) -> None:
        self.random = random.Random(seed)
        self.known = known
        """Sources of which the parent knows what they answer."""
        self.folders = sorted((data / "sources").iterdir())
        self.pipe = pipe
        self.engine = Engine(
            Settings(base=str(base), data=data, memory="24MiB", max_rank=64, threads=1, sample_adapters=0, device="cpu")  # type: ignore[arg-type]
        )
        self.last_line = 0

    def say(self, fact: dict[str, Any]) -> None:
        """One line to the parent, whole: it is shorter than a pipe takes at once."""
        os.write(self.pipe, json.dumps(fact).encode() + b"\n")

    def run(self) -> None:
        """Open, tell, change, for ever."""
        self.engine.start()
        self.catalog = self.engine.host.catalog
        self._tell_found()
        while True:
            self._change()

    def run_import(self, folders: list[Path]) -> None:
        """Carry on with an import, or begin it, in many transactions; tell what is taken in, and when it has ended."""
        with patch("engine.intake.work.TOGETHER_ROWS", 2):
            self.engine.start()
            self.catalog = self.engine.host.catalog
            if all(one.record.state == "failed" for one in self.engine.operations.page(caller=LOCAL)):  # killed while its rows were stored
                manifest = "source,alias\n" + "".join(f"{folder},{folder.name}\n" for folder in folders)
                self.engine.operations.start(Import(kind="manifest", manifest=manifest, form="csv"), caller=LOCAL)
            told = -1
            while (operation := self.engine.operations.page(caller=LOCAL)[0].record).state in UNFINISHED:
                if operation.done > told:
                    told = operation.done
                    self.say({"taken_in": told, "total": operation.total})
                time.sleep(0.002)
        self._tell_found()
        self.say({"ended": operation.state, "done": operation.done, "failed": operation.failed, "total": operation.total})

    def _tell_found(self) -> None:
        """All that outlasted the last process, proven where it carries a proof."""
        lines = {name.name: self._line(name.name) for name in self.catalog.lines}
        for name, line in lines.items():
            self.say({"found": name, **line})
        self.say(
            {
                "keys": [key.id for key in self.engine.tenants.keys.list()],
                "limit": self.engine.tenants.limits(DEFAULT_TENANT).requests_per_minute,
                "damaged_images": self._damaged_images(),
                "broken_audit_line": self.catalog.store.read(audit.verify),
            }
        )
        self._tell_audit()
        named = [name for name, line in lines.items() if self._source(line) in self.known]
        self.say({"answer": asyncio.run(self._ask(self.random.choice(named))) if named else None})

    def _line(self, name: str) -> dict[str, Any]:
        alias = AliasName(DEFAULT_TENANT, name)
        held = self.catalog.lines.get(alias, {})
        current = self.catalog.aliases.get(alias)
        return {
            "alias": None if current is None else current.adapter,
            "versions": {f"{number}": [record.id, record.state, record.source] for number, record in held.items()},
        }

    def _source(self, line: dict[str, Any]) -> str | None:
        """Of the version that its alias names."""
        return next((source for content, _, source in line["versions"].values() if content == line["alias"]), None)

    def _damaged_images(self) -> list[str]:
        """What a load would have to refuse, and what should not lie there."""
        disk = self.engine.host.residency.disk
        kept = {content for content in self.catalog.holders if self.catalog.keeps(content)}
        strange = [path.name for path in disk.folder.iterdir() if path.is_file() and path.name not in {f"{one}.image" for one in kept}]
        strange += [path.name for path in (self.engine.settings.data / "archive").glob(".*")]
        for content in kept:
            image = AdapterImage.open(disk.path(content))
            pages = memoryview(bytearray(image.pages_bytes))
            image.read_into(pages)
            if hashlib.sha256(pages).digest() != image.pages_digest:
                strange.append(content)
        return strange

    def _tell_audit(self) -> None:
        """Lines that are new since the last time."""
        page = self.catalog.store.read(lambda session: audit.page(session, limit=10_000))
        new = {f"{line.key}": line.hash[:16] for line in page if line.key > self.last_line}
        self.last_line = page[0].key if page else 0
        for part in range(0, len(new), 50):
            self.say({"audit": dict(list(new.items())[part : part + 50])})

    async def _ask(self, alias: str) -> dict[str, Any]:
        sampling = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
        request = Request(id=RequestId("r"), model=alias, prompt_ids=PROMPT, sampling=sampling, tenant=DEFAULT_TENANT, reach="all")
        ids = [token async for chunk in self.engine.submit(request) for token in chunk.token_ids]
        return {"source": self.catalog.versions[self.catalog.aliases[AliasName(DEFAULT_TENANT, alias)].adapter].source, "ids": ids}

    def _change(self) -> None:
        """One change that the state of things allows, drawn by chance."""
        name = self.random.choice(LINES)
        if self.random.random() < 0.15:
            self.say({"trying": "key"})
            self.say({"key": self.engine.tenants.keys.create("k", tenant=DEFAULT_TENANT).record.id})
        elif self.random.random() < 0.1:
            limit = self.random.randrange(1000, 100_000)
            self.say({"trying": "limit", "to": limit})
            self.engine.tenants.set_limits(DEFAULT_TENANT, Allowance(requests_per_minute=limit))
            self.say({"limit": limit})
        else:
            change = self.random.choice(self._possible(name))
            self.say({"trying": "line", "name": name, "was": self._line(name)})
            change()
            self.say({"line": name, **self._line(name)})
        self._tell_audit()

    def _possible(self, name: str) -> list[Callable[[], object]]:
        versions, line = self.engine.versions, self._line(name)
        source = str(self.random.choice(self.folders))
        prove = self.random.choice(("now", "first_load"))
        found: list[Callable[[], object]] = [lambda: self.engine.register(source, alias=name, replace=True, prove=prove)] * 2  # type: ignore[arg-type]
        for number, (content, state, _) in line["versions"].items():
            ref = f"{name}@{number}"
            if line["alias"] == content:
                found += [lambda: self.engine.unregister(name), lambda ref=ref: versions.retirement.retire(ref)]
            elif state == "ready" and line["alias"] is not None:
                found.append(lambda number=number: versions.names.move(name, number))
            elif state in {"retired", "archived"}:
                found.append(lambda ref=ref: versions.retirement.restore(ref))
            if state == "retired":
                found.append(lambda ref=ref: versions.retirement.archive(ref))
        return found
