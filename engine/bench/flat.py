"""The same traffic with few and with many adapters registered: what is not in the batch may not cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.bench.figures import Figure
from engine.bench.mixed import quotient, rate
from engine.bench.rig import register, served
from engine.bench.timing import interleave, say

if TYPE_CHECKING:
    from engine.bench.rig import Rig


def flat(rig: Rig) -> list[Figure]:
    """Tokens a second of the light mix with only its adapters registered, and with ``--registered``, turn by turn."""
    options = rig.options
    light = rig.sources("light")
    models = [adapter.alias for adapter in light]
    with rig.engine("flat-few", light) as few, rig.engine("flat-many", light) as many:
        rest = max(0, options.registered - len(light))
        say(f"registering {rest} more adapters; they are kept for the next run")
        started_s = time.perf_counter()
        register(many, rig.sources("small", rest)[:rest], prove="first_load")
        register_s = time.perf_counter() - started_s
        registered = len(many.models()) - 1
        contenders = [served("few", few, models), served("many", many, models)]
        series = interleave(contenders, traffic=rig.traffic, repeats=options.repeats, settle_s=options.settle_s)
    return [
        Figure(key="few_registered", label="registered, few", value=len(light)),
        Figure(key="many_registered", label="registered, many", value=registered),
        Figure(key="register_s", label="registering those that were not yet", value=register_s, unit="s"),
        rate("few_tokens_per_s", "light mix, few registered", series["few"]),
        rate("many_tokens_per_s", "light mix, many registered", series["many"]),
        quotient("ratio", "many ÷ few", series["many"], series["few"]),
    ]
