"""Clients of several tenants that ask for the base and for adapters, popular ones more often."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

CLIENTS = {"acme": 5, "globex": 3, "initech": 3, "default": 1}
TOO_MANY = 429
PROMPTS = (
    "Name three rivers in Europe and one city on each.",
    "Write a short note to a colleague who is starting today.",
    "What does an index in a database do?",
    "List five words that rhyme with light.",
    "Summarise in one sentence why the sky is blue.",
)


@contextmanager
def traffic(address: str, keys: Mapping[str, str]) -> Iterator[None]:
    """Each tenant's clients ask with its key for what it may call, until the block ends."""
    stop = threading.Event()
    seats = [(keys[tenant], seed) for seed, tenant in enumerate(name for name, number in CLIENTS.items() for _ in range(number))]
    with ThreadPoolExecutor(len(seats)) as pool:
        clients = [pool.submit(_ask_until, stop, address, key, seed) for key, seed in seats]
        try:
            yield
        finally:
            stop.set()
            for client in clients:
                client.result(timeout=120)


def _ask_until(stop: threading.Event, address: str, key: str, seed: int) -> None:
    """A request, a pause, the next one; a refusal over a limit is waited out."""
    rng = random.Random(seed)
    with httpx.Client(base_url=address, timeout=120, headers={"authorization": f"Bearer {key}"}) as client:
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
        rng.shuffle(names)
        popularity = [1 / (rank + 1) for rank in range(len(names))]
        while not stop.is_set():
            (name,) = rng.choices(names, popularity)
            body = {"model": name, "messages": [{"role": "user", "content": rng.choice(PROMPTS)}], "max_tokens": rng.randint(16, 48)}
            answer = client.post("/v1/chat/completions", json=body)
            if answer.status_code == TOO_MANY:
                stop.wait(min(5.0, float(answer.headers.get("retry-after", 1))))
                continue
            answer.raise_for_status()
            stop.wait(rng.expovariate(2.0))
