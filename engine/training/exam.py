"""Adapters and their base answer evaluation sets, through the engine that serves them."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.adapters.folder import TRAINING, WEIGHTS
from engine.assemble import base_folder
from engine.caller import SYSTEM
from engine.engine import Engine
from engine.errors import TrainingRefused
from engine.ids import RequestId
from engine.request import Request, SamplingParams
from engine.settings import Settings
from engine.training.chats import Chat, Encoder
from engine.training.recipe import Metric
from engine.training.record import EVALS, read_evals, read_record
from engine.training.scores import METRICS, score

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

EXAM = replace(SYSTEM, name="exam")
MEMORY = "2GiB"
MAX_PROMPT_TOKENS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One adapter's evaluation. Scores are shares of right answers, 0 to 1."""

    adapter: str
    metric: Metric
    rows: int
    rank: int
    modules: tuple[str, ...]
    megabytes: float
    """Of the weights as stored, in 10⁶ bytes."""
    base_score: float
    adapter_score: float

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "adapter": self.adapter,
            "metric": self.metric,
            "rows": self.rows,
            "rank": self.rank,
            "modules": list(self.modules),
            "megabytes": round(self.megabytes, 2),
            "base_score": self.base_score,
            "adapter_score": self.adapter_score,
        }


@contextlib.contextmanager
def exam_engine(settings: Settings) -> Iterator[Engine]:
    """An engine on the settings' base whose registrations are forgotten at the end."""
    base = base_folder(settings, lambda _text, _share: None)
    with tempfile.TemporaryDirectory(prefix="loradeck-exam-") as data:
        own = Settings(base=str(base), data=Path(data), device=settings.device, memory=MEMORY, sample_adapters=0, source_allow=("/",))
        engine = Engine(own)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop()


def examine(engine: Engine, folder: Path, name: str) -> Marks:
    """Let base and adapter answer the set that the folder carries. Raises TrainingRefused, AdapterRefused."""
    exam = read_exam(folder)
    alias = f"exam-{uuid.uuid4().hex[:8]}"
    engine.register(str(folder), alias=alias, caller=EXAM)
    try:
        models = [engine.base_name] * len(exam.chats) + [alias] * len(exam.chats)
        answers = ask(engine, models, [*exam.chats, *exam.chats], max_tokens=exam.answer_tokens)
    finally:
        engine.unregister(alias, caller=EXAM)
    return exam.marks(name, base=answers[: len(exam.chats)], adapter=answers[len(exam.chats) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """The evaluation that an adapter's folder carries."""

    folder: Path
    record: Mapping[str, Any]
    chats: tuple[Chat, ...]

    @property
    def answer_tokens(self) -> int:
        """Most tokens of an answer."""
        return int(self.record["answer_tokens"])

    def marks(self, name: str, *, base: Sequence[str], adapter: Sequence[str]) -> Marks:
        """Both scores of these answers, chat by chat."""
        metric: Metric = self.record["metric"]
        return Marks(
            adapter=name,
            metric=metric,
            rows=len(self.chats),
            rank=self.record["rank"],
            modules=tuple(self.record["modules"]),
            megabytes=(self.folder / WEIGHTS).stat().st_size / 1e6,
            base_score=score(metric, self.chats, base),
            adapter_score=score(metric, self.chats, adapter),
        )


def read_exam(folder: Path) -> Exam:
    """Raises TrainingRefused where the folder carries none."""
    if not (folder / EVALS).exists() or not (folder / TRAINING).exists():
        message = f"{folder} carries no evaluation: it needs {EVALS} and {TRAINING}."
        raise TrainingRefused(message, code="no_evaluation", param=EVALS, expected="file", found="absent")
    record = read_record(folder)
    if record.get("metric") not in METRICS:
        message = f"{TRAINING} of {folder} names no metric that is known."
        raise TrainingRefused(message, code="no_evaluation", param="metric", expected=", ".join(METRICS), found=record.get("metric"))
    return Exam(folder=folder, record=record, chats=read_evals(folder))


def ask(engine: Engine, models: Sequence[str], chats: Sequence[Chat], *, max_tokens: int) -> list[str]:
    """Greedy answers: chat i by ``models[i]``, all at once."""
    encoder = Encoder(engine.tokenizer, engine.chat_template, max_tokens=MAX_PROMPT_TOKENS)
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0.0)

    async def answer(model: str, chat: Chat) -> str:
        request = Request(id=RequestId(f"exam-{uuid.uuid4().hex}"), model=model, prompt_ids=encoder.prompt(chat), sampling=sampling)
        return "".join([chunk.text async for chunk in engine.submit(request)])

    async def all_answers() -> list[str]:
        return list(await asyncio.gather(*(answer(model, chat) for model, chat in zip(models, chats, strict=True))))

    return asyncio.run(all_answers())
