"""A batch where every row has its own adapter, against our base alone and against peers, heavy and light."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.bench.equal_text import equal_text
from engine.bench.figures import Figure, ratio
from engine.bench.peers import Peer
from engine.bench.rig import served
from engine.bench.timing import interleave
from engine.bench.vllm_peer import vllm_peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.bench.adapters import Source
    from engine.bench.rig import Rig
    from engine.bench.timing import Contender, Series

MIX_KEYS = {"heavy": "", "light": "light."}
"""The heavy mix's figures lie at the top of the JSON."""


def mixed(rig: Rig) -> list[Figure]:
    """Tokens a second of everyone in one run, and their ratios."""
    with contextlib.ExitStack() as stack:
        line_up = LineUp(heavy=rig.sources("heavy"), light=rig.sources("light"))
        options = rig.options
        contenders = _ours(rig, line_up, stack)
        if options.peers:
            line_up.enter_peers(rig, contenders)
        if options.vllm_python is not None:
            vllm = stack.enter_context(vllm_peer(rig, options.vllm_python, line_up.all))
            contenders["base"].append(vllm.contender("vllm_base"))
            contenders["light"].append(vllm.contender("vllm_light", line_up.light))
            contenders["heavy"].append(vllm.contender("vllm_heavy", line_up.heavy))
            line_up.vllm_version = vllm.version
        order = [contender for group in contenders.values() for contender in group]
        series = interleave(order, traffic=rig.traffic, repeats=options.repeats, settle_s=options.settle_s)
        version = Figure(key="vllm_version", label="vLLM's version", value=line_up.vllm_version)
        return [*_figures(series), *line_up.compare(rig, series), version]


@dataclass(slots=True, kw_only=True)
class LineUp:
    """Adapters of the two mixes, and the peers that know them. Owned by one run of ``mixed``."""

    heavy: tuple[Source, ...]
    light: tuple[Source, ...]
    transformers: Peer | None = None
    peft: Peer | None = None
    vllm_version: str | None = None

    @property
    def all(self) -> tuple[Source, ...]:
        """Of both mixes."""
        return self.heavy + self.light

    def enter_peers(self, rig: Rig, contenders: dict[str, list[Contender]]) -> None:
        """Load both peers and put each right after whom it is compared with."""
        self.transformers = Peer(rig.base)
        self.peft = Peer(rig.base, self.all)
        contenders["base"].append(self.transformers.contender("transformers"))
        contenders["light"].append(self.peft.contender("peft_light", self.light))
        contenders["heavy"].append(self.peft.contender("peft_heavy", self.heavy))

    def compare(self, rig: Rig, series: dict[str, Series]) -> Iterator[Figure]:
        """The greedy text of the first repetition, ours beside the peers'."""
        if self.transformers is None or self.peft is None:
            return
        first = {name: found.outcomes[0] for name, found in series.items()}
        traffic = rig.traffic(1)
        yield from equal_text(
            "equal_text.base", "transformers", ours=first["base"], theirs=first["transformers"], traffic=traffic,
            peer=self.transformers, adapters=None,
        )  # fmt: skip
        for mix, adapters in (("heavy", self.heavy), ("light", self.light)):
            yield from equal_text(
                f"equal_text.{mix}", f"peft ({mix})", ours=first[mix], theirs=first[f"peft_{mix}"], traffic=traffic,
                peer=self.peft, adapters=adapters,
            )  # fmt: skip


def _ours(rig: Rig, line_up: LineUp, stack: contextlib.ExitStack) -> dict[str, list[Contender]]:
    """Our contenders by what they are compared with: one engine for all mixes, and one that has never seen an adapter."""
    engine = stack.enter_context(rig.engine("mixed", line_up.all))
    bare = stack.enter_context(rig.engine("bare"))
    rows = rig.options.rows
    return {
        "base": [served("bare", bare, [bare.base_name] * rows), served("base", engine, [engine.base_name] * rows)],
        "light": [served("light", engine, [adapter.alias for adapter in line_up.light])],
        "heavy": [served("heavy", engine, [adapter.alias for adapter in line_up.heavy])],
    }


def _figures(series: dict[str, Series]) -> list[Figure]:
    figures = []
    for mix, at in MIX_KEYS.items():
        ours, base, peft, vllm = (series.get(name) for name in (mix, "base", f"peft_{mix}", f"vllm_{mix}"))
        figures += [
            rate(f"{at}tokens_per_s", f"{mix} mix", ours),
            rate(f"{at}base_tokens_per_s", f"{mix} mix: our base alone", base),
            rate(f"{at}peft_tokens_per_s", f"{mix} mix: peft, one mixed batch", peft),
            rate(f"{at}vllm_tokens_per_s", f"{mix} mix: vLLM on CPU", vllm),
            quotient(f"{at}ratio_vs_base", f"{mix} mix ÷ our base alone", ours, base),
            quotient(f"{at}ratio_vs_peft", f"{mix} mix ÷ peft", ours, peft),
            quotient(f"{at}ratio_vs_vllm", f"{mix} mix ÷ vLLM", ours, vllm),
        ]
    return figures + _base_figures(series)


def _base_figures(series: dict[str, Series]) -> list[Figure]:
    base, bare, transformers, vllm = (series.get(name) for name in ("base", "bare", "transformers", "vllm_base"))
    kept = quotient("lora_off.ratio", "base beside resident adapters ÷ base without any", base, bare)
    cost = None if not isinstance(kept.value, float) else 1 - kept.value
    return [
        rate("transformers_tokens_per_s", "transformers, base alone", transformers),
        rate("vllm_base_tokens_per_s", "vLLM on CPU, base alone", vllm),
        quotient("ratio_base_vs_transformers", "our base ÷ transformers", base, transformers),
        quotient("ratio_base_vs_vllm", "our base ÷ vLLM", base, vllm),
        rate("lora_off.bare_tokens_per_s", "our base, no adapter ever registered", bare),
        kept,
        Figure(key="lora_off.cost", label="cost of LoRA with no adapter in the batch (share of tok/s)", value=cost),
    ]


def rate(key: str, label: str, series: Series | None) -> Figure:
    """Tokens a second of one contender; not known when it did not run."""
    if series is None:
        return Figure(key=key, label=label, value=None, unit="tok/s")
    return Figure(key=key, label=label, value=series.tokens_per_s, unit="tok/s", spread=series.spread)


def quotient(key: str, label: str, above: Series | None, below: Series | None) -> Figure:
    """How many times as fast, by medians."""
    rates = [None if series is None else series.tokens_per_s for series in (above, below)]
    return Figure(key=key, label=label, value=ratio(*rates), unit="×")
