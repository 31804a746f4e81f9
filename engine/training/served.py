"""A running Loradeck as anyone meets it, over HTTP: register a folder there, or let what it serves answer an evaluation set."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from engine.errors import TrainingRefused
from engine.training.exam import Marks, read_exam

if TYPE_CHECKING:
    from engine.training.chats import Chat

TIMEOUT_S = 300.0
AT_ONCE = 16


class Served:
    """One address. Every call raises TrainingRefused with the server's own message, or when nobody answers."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def register(self, folder: Path, name: str) -> str:
        """Where to try it."""
        self._send("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True})
        return f"Registered as {name}: {self.url}/playground"

    def examine(self, alias: str) -> Marks:
        """Run the set that a registered adapter's source folder carries; the folder must be readable here."""
        row = json.loads(self._send(f"/api/adapters/{quote(alias)}"))
        exam = read_exam(Path(row["source"]))
        base = next(card["id"] for card in json.loads(self._send("/v1/models"))["data"] if card.get("parent") is None)
        questions = [(model, chat) for model in (base, alias) for chat in exam.chats]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda question: self._answer(question[0], question[1], exam.answer_tokens), questions))
        return exam.marks(alias, base=answers[: len(exam.chats)], adapter=answers[len(exam.chats) :])

    def _answer(self, model: str, chat: Chat, max_tokens: int) -> str:
        body = {"model": model, "messages": list(chat.messages), "max_tokens": max_tokens, "temperature": 0}
        return str(json.loads(self._send("/v1/chat/completions", body))["choices"][0]["message"]["content"])

    def _send(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers={"Content-Type": "application/json"})  # noqa: S310 the caller's own address
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 likewise
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            raise TrainingRefused(f"{self.url} refused it: {_message(error)}", code="server_refused", param="url") from None
        except OSError as error:
            raise TrainingRefused(f"{self.url} does not answer: {error}.", code="server_absent", param="url") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
