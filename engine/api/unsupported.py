"""Fields that would change the answer and that Loradeck does not carry out: refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import InvalidRequest

NEUTRAL: dict[str, tuple[object, ...]] = {
    # field: values that ask for nothing
    "response_format": (None, {"type": "text"}),
    "tools": (None, []),
    "tool_choice": (None, "none"),
    "functions": (None, []),
    "function_call": (None, "none"),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
    "reasoning_effort": (None, "none"),
    "suffix": (None, ""),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "length_penalty": (None, 1),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "use_beam_search": (None, False),
    "stop_token_ids": (None, []),
    "bad_words": (None, []),
    "allowed_token_ids": (None,),
    "logits_processors": (None, []),
    "include_stop_str_in_output": (None, False),
    "skip_special_tokens": (None, True),
    "spaces_between_special_tokens": (None, True),
    "truncate_prompt_tokens": (None,),
    "prompt_logprobs": (None,),
    "prompt_embeds": (None,),
    "return_token_ids": (None, False),
    "return_tokens_as_token_ids": (None, False),
    "structured_outputs": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "json_schema": (None,),
    "grammar": (None,),
    "regex": (None,),
    "documents": (None, []),
    "add_generation_prompt": (None, True),
    "continue_final_message": (None, False),
    "add_special_tokens": (None, True, False),
    "adapter_id": (None,),
    "lora": (None, []),
    "lora_request": (None,),
}
TEMPLATE_FIELDS = ("chattemplate", "templatekwargs", "templateargs")


def refuse_unsupported(document: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for the first field that asks for something Loradeck does not do."""
    for name, value in document.items():
        if name in NEUTRAL and value not in NEUTRAL[name]:
            raise InvalidRequest(
                f"'{name}' is not supported with this value.", code="unsupported_parameter", param=name, expected=list(NEUTRAL[name])
            )
        if "template" in name.lower() and _plain(name).startswith(TEMPLATE_FIELDS) and value is not None:
            raise InvalidRequest(
                f"'{name}' is not supported: a request cannot bring or change the chat template.", code="unsupported_parameter", param=name
            )


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
