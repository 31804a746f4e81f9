"""The bodies that ``/v1`` and ``/api`` take: strict types, bounded sizes, unknown fields ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from engine.api.unsupported import refuse_unsupported
from engine.errors import InvalidRequest, ModelNotFound

MAX_CHOICES = 16
MAX_LOGPROBS = 20
MAX_STOPS = 16
MAX_STOP_CHARS = 256
MAX_BIASES = 300
MAX_BIAS = 100.0
MAX_PROMPTS = 128
MAX_MESSAGES = 1024
MAX_PARTS = 256
MAX_PRIORITY = 1000
INT64 = 2**63
LATEST_UNIX = 253_402_300_799.0
"""The end of the year 9999: no calendar that shows a moment goes further."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


StopStrings = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]], BeforeValidator(_as_list), Field(max_length=MAX_STOPS)
]


class StrictBody(BaseModel):
    """What every body has in common: a bool is no number, NaN is no number, what we do not know we ignore."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True)


class StreamOptions(StrictBody):
    """``stream_options``."""

    include_usage: bool | None = None


class GenerationBody(StrictBody):
    """What chat and plain completions have in common. None is the default."""

    model: str
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    best_of: int | None = None
    stop: StopStrings | None = None
    seed: int | None = Field(None, ge=-INT64, lt=INT64)
    logit_bias: dict[str, Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]] | None = Field(None, max_length=MAX_BIASES)
    max_tokens: int | None = Field(None, ge=0)
    ignore_eos: bool | None = None
    priority: int | None = Field(None, ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, document: object) -> object:
        if isinstance(document, dict):
            refuse_unsupported(document)
            if document.get("model", "") is None:
                raise ModelNotFound("The model null does not exist; /v1/models lists what does.", param="model")
        return document

    @model_validator(mode="after")
    def _check_together(self) -> GenerationBody:
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise InvalidRequest("'best_of' is not supported.", code="unsupported_parameter", param="best_of")
        if self.stream_options is not None and not self.stream:
            raise InvalidRequest("'stream_options' needs 'stream': true.", param="stream_options")
        return self

    @property
    def num_choices(self) -> int:
        """``n``, resolved."""
        return self.n or 1

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)


def _bounded_list(messages: object) -> object:
    """Counts before anything is worked on."""
    if isinstance(messages, list) and len(messages) > MAX_MESSAGES:
        raise InvalidRequest(
            f"'messages': at most {MAX_MESSAGES}.", param="messages", expected=f"at most {MAX_MESSAGES}", found=len(messages)
        )
    return messages


def _text_of(content: object) -> object:
    """A list of text parts as one text; anything but text is refused."""
    if not isinstance(content, list):
        return content
    if len(content) > MAX_PARTS:
        raise InvalidRequest(f"'messages': a content list has at most {MAX_PARTS} parts.", param="messages", found=len(content))
    return "\n".join(_text_of_part(part) for part in content)


def _text_of_part(part: object) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in {"text", "input_text"}:
        raise InvalidRequest("Content parts other than text are not supported.", code="unsupported_content", param="messages", found=kind)
    text = part.get("text")
    if not isinstance(text, str):
        raise InvalidRequest("A text part needs a string 'text'.", code="invalid_type", param="messages", found=type(text).__name__)
    return text


class ChatMessage(StrictBody):
    """One message. The template decides which roles it takes, and in which order."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str | None, BeforeValidator(_text_of)] = None
    name: str | None = Field(None, max_length=256)
    tool_calls: list[Any] | None = Field(None, max_length=0)

    @model_validator(mode="after")
    def _check_content(self) -> ChatMessage:
        if self.content is None and self.role != "assistant":
            raise InvalidRequest(
                f"A {self.role} message needs content.", code="missing_required_parameter", param="messages", expected="text", found=None
            )
        return self

    def for_template(self) -> dict[str, str]:
        """What a chat template reads; ``developer`` is the newer name of ``system``."""
        message = {"role": "system" if self.role == "developer" else self.role, "content": self.content or ""}
        return message if self.name is None else {**message, "name": self.name}


class ChatBody(GenerationBody):
    """``POST /v1/chat/completions``."""

    messages: Annotated[list[ChatMessage], BeforeValidator(_bounded_list), Field(min_length=1)]
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=-1)

    @model_validator(mode="after")
    def _check_logprobs(self) -> ChatBody:
        if self.top_logprobs and not self.logprobs:
            raise InvalidRequest("'top_logprobs' needs 'logprobs': true.", param="top_logprobs")
        return self


class CompletionBody(GenerationBody):
    """``POST /v1/completions``. ``prompt`` is checked by ``engine.api.prompts``."""

    prompt: Any
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=-1)


class LoadLoraBody(StrictBody):
    """``POST /v1/load_lora_adapter``, as vLLM has it."""

    lora_name: str
    lora_path: str
    load_inplace: bool | None = None
    base_model_name: str | None = None


class UnloadLoraBody(StrictBody):
    """``POST /v1/unload_lora_adapter``, as vLLM has it."""

    lora_name: str


class RegisterBody(StrictBody):
    """``POST /api/adapters``."""

    source: str
    alias: str
    tenant: str | None = None
    dry_run: bool | None = None
    replace: bool | None = None
    compatible_base: bool | None = None


def _unix_seconds(value: object) -> object:
    """RFC 3339 text as Unix seconds."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidRequest("'until' is Unix seconds, or a time such as 2030-01-31T08:00:00Z.", param="until", found=value)
    return moment.timestamp()


class ControlBody(StrictBody):
    """``POST /api/adapters/{ref}/warm`` and its kin. ``until`` is Unix seconds or RFC 3339 text with an offset."""

    tier: Literal["device", "host", "disk"] | None = None
    until: Annotated[float | None, BeforeValidator(_unix_seconds), Field(le=LATEST_UNIX)] = None
    reason: str | None = Field(None, max_length=500)
