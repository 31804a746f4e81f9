"""From a body's fields to SamplingParams: defaults, sentinels resolved, then bounded by the model."""

from __future__ import annotations

from collections.abc import Mapping

from engine.api.schemas import MAX_LOGPROBS, ChatBody, CompletionBody, GenerationBody
from engine.errors import InvalidRequest
from engine.request import SamplingParams

COMPLETION_DEFAULT_TOKENS = 16


def chat_sampling(body: ChatBody, *, vocab_size: int, prompt_tokens: int, context_tokens: int, most_output: int | None) -> SamplingParams:
    """A chat body's sampling; without ``max_tokens`` the answer may fill the context, or what the caller's limits leave of it."""
    asked = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    if asked == 0:
        raise InvalidRequest("'max_tokens' must be at least 1.", param="max_tokens", expected="at least 1", found=0)
    top = _bounded_logprobs(body.top_logprobs or 0, "top_logprobs", vocab_size)
    param = "max_completion_tokens" if body.max_completion_tokens is not None else "max_tokens"
    default = max(1, min(context_tokens - prompt_tokens, context_tokens if most_output is None else most_output))
    max_tokens = fit_context(asked, default, param=param, source="messages", prompt_tokens=prompt_tokens, context_tokens=context_tokens)
    return _sampling(body, vocab_size=vocab_size, max_tokens=max_tokens, logprobs=top if body.logprobs else None)


def completion_sampling(body: CompletionBody, *, vocab_size: int, prompt_tokens: int, context_tokens: int) -> SamplingParams:
    """A completion body's sampling, for its longest prompt. ``max_tokens`` 0 asks for one token, which is not shown."""
    if body.max_tokens == 0 and not body.echo:
        raise InvalidRequest("'max_tokens' may be 0 only with 'echo'.", param="max_tokens", expected="at least 1", found=0)
    logprobs = None if body.logprobs is None else _bounded_logprobs(body.logprobs, "logprobs", vocab_size)
    asked = body.max_tokens if body.max_tokens is None else max(1, body.max_tokens)
    default = max(1, min(COMPLETION_DEFAULT_TOKENS, context_tokens - prompt_tokens))
    max_tokens = fit_context(
        asked, default, param="max_tokens", source="prompt", prompt_tokens=prompt_tokens, context_tokens=context_tokens
    )
    return _sampling(body, vocab_size=vocab_size, max_tokens=max_tokens, logprobs=logprobs)


def fit_context(asked: int | None, default: int, *, param: str, source: str, prompt_tokens: int, context_tokens: int) -> int:
    """Tokens to generate; InvalidRequest when prompt and answer do not fit the context together."""
    max_tokens = default if asked is None else asked
    if prompt_tokens + max_tokens <= context_tokens:
        return max_tokens
    if prompt_tokens >= context_tokens or asked is None:
        param = source
    raise InvalidRequest(
        f"The prompt has {prompt_tokens} tokens and {max_tokens} were asked for; the context holds {context_tokens}.",
        code="context_length_exceeded",
        param=param,
        expected=f"at most {context_tokens} tokens together",
        found=prompt_tokens + max_tokens,
    )


def _sampling(body: GenerationBody, *, vocab_size: int, max_tokens: int, logprobs: int | None) -> SamplingParams:
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=_top_k(body.top_k, vocab_size),
        seed=body.seed,
        stop=tuple(body.stop or ()),
        logprobs=logprobs,
        logit_bias=_biases(body.logit_bias or {}, vocab_size),
        ignore_eos=bool(body.ignore_eos),
        n=body.num_choices,
    )


def _top_k(top_k: int | None, vocab_size: int) -> int:
    """0 keeps all; -1 is another way to say so."""
    if top_k is None or top_k == -1:
        return 0
    if top_k > vocab_size:
        raise InvalidRequest(
            f"'top_k': at most the vocabulary, {vocab_size}.", param="top_k", expected=f"at most {vocab_size}", found=top_k
        )
    return top_k


def _bounded_logprobs(asked: int, param: str, vocab_size: int) -> int:
    """-1 asks for the whole vocabulary, and is then as much too many as its size is."""
    count = vocab_size if asked == -1 else asked
    if count > MAX_LOGPROBS:
        raise InvalidRequest(f"'{param}': at most {MAX_LOGPROBS}.", param=param, expected=f"at most {MAX_LOGPROBS}", found=asked)
    return count


def _biases(biases: Mapping[str, float], vocab_size: int) -> dict[int, float]:
    """Token id → bias; ids are decimal text in JSON."""
    for token in biases:
        if not (token.isascii() and token.isdigit() and len(token) < 10 and int(token) < vocab_size):  # noqa: PLR2004 - longer is no id
            raise InvalidRequest("'logit_bias' keys are token ids.", param="logit_bias", expected=f"0 to {vocab_size - 1}", found=token)
    return {int(token): bias for token, bias in biases.items()}
