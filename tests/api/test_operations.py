"""Health, metrics, log lines and request ids: what an operator's own tools read."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from engine.api.app import build_app
from engine.api.log_lines import OneLineFormatter, fields
from engine.engine import Health
from engine.events import AdapterEvicted
from engine.ids import DEFAULT_TENANT, AdapterId
from engine.settings import Settings
from engine.snapshot import LoadPhase, LoadRecord, RequestsSnapshot, WaitingRow
from engine.telemetry.prometheus import MOST_ADAPTERS, EngineCollector
from tests.api.scripted_engine import ScriptedEngine

CHAT: dict[str, Any] = {"model": "A", "messages": [{"role": "user", "content": "hi"}]}


async def samples(http: httpx.AsyncClient, engine: ScriptedEngine) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, labels) → value of one scrape."""
    engine.publisher.publish(engine.snapshot())
    response = await http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    found: list[Sample] = [sample for family in text_string_to_metric_families(response.text) for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in found}


async def test_health_follows_the_engine(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """200 only while the engine makes progress (B38)."""
    assert (await http.get("/health")).status_code == 200
    engine.told_health = Health(ok=False, state="down", reason="no step has ended for 31 s", last_progress_age_s=31.0)
    sick = await http.get("/health")
    assert (sick.status_code, sick.json()["reason"]) == (503, "no step has ended for 31 s")


async def test_lifespan_starts_and_stops_the_engine(tokenizer_folder: Path, tmp_path: Path) -> None:
    """The outer application starts an engine that nobody has started, and stops it."""
    engine = ScriptedEngine(tokenizer_folder, Settings(data=tmp_path))
    app = build_app(engine)  # type: ignore[arg-type]
    assert engine.health().state == "starting"
    async with app.router.lifespan_context(app):
        assert engine.health().ok
    assert engine.health().state == "down"


async def test_lifespan_leaves_a_running_engine_as_it_is(app: FastAPI, engine: ScriptedEngine) -> None:
    """An engine that runs is not started again."""
    engine.start = lambda *_: pytest.fail("started twice")  # type: ignore[method-assign]
    async with app.router.lifespan_context(app):
        assert engine.health().ok


async def test_metrics_count_what_was_served(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Requests, tokens and histograms under vLLM's names; hits and misses under ours."""
    for model in ("A", "A", "tiny"):
        await http.post("/v1/chat/completions", json={**CHAT, "model": model})
    found = await samples(http, engine)
    model = (("model_name", "tiny"),)
    assert found["vllm:request_success_total", (("finished_reason", "stop"), *model)] == 3
    assert found["vllm:generation_tokens_total", model] == 4 + 4 + 7
    assert found["vllm:prompt_tokens_total", model] == sum(len(request.prompt_ids) for request in engine.submitted)
    assert found["vllm:time_to_first_token_seconds_count", model] == 3
    assert found["vllm:time_to_first_token_seconds_bucket", (("le", "0.005"), *model)] == 3
    assert found["vllm:time_to_first_token_seconds_bucket", (("le", "0.001"), *model)] == 0
    assert found["vllm:inter_token_latency_seconds_count", model] > 0
    assert found["loradeck_adapter_misses_total", ()] == 2
    assert found["loradeck_adapter_requests_total", (("adapter", engine.rows["A"].id),)] == 2
    assert found["vllm:num_requests_running", model] == 0


async def test_metrics_show_residency(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """``lora_requests_info`` names what is on the device, busy or not; memory parts add up; waits have reasons."""
    found = await samples(http, engine)
    (info,) = (dict(labels) for name, labels in found if name == "vllm:lora_requests_info")
    assert (info["running_lora_adapters"], info["max_lora"]) == ("A", str(engine.settings.max_step_adapters))
    level = (("adapter_name", "team/B"), ("level", "host"), ("pinned", "false"), ("rank", "8"))
    assert found["vllm:lora_adapter_loaded", level] == 1
    assert found["loradeck_adapters", (("tier", "device"),)] == 1
    parts = sum(value for (name, _), value in found.items() if name == "loradeck_device_memory_bytes")
    assert parts == found["loradeck_device_memory_total_bytes", ()] == 1000


async def test_metrics_of_loads_and_evictions(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Loads by phase and tier, evictions by reason."""
    phases = (LoadPhase(name="copy", start_s=0.0, duration_s=0.03),)
    engine.publisher.record_load(LoadRecord(adapter=AdapterId("x"), from_tier="disk", asked_s=0, phases=phases, total_s=0.04))
    engine.publisher.record_event(
        AdapterEvicted(
            at_unix=0, adapter=AdapterId("x"), alias="x", tenant=DEFAULT_TENANT, from_tier="device", because="pages_needed", idle_s=1
        )
    )
    found = await samples(http, engine)
    assert found["loradeck_adapter_load_seconds_sum", (("from", "disk"),)] == 0.04
    assert found["loradeck_adapter_load_phase_seconds_count", (("phase", "copy"),)] == 1
    assert found["loradeck_adapter_evictions_total", (("reason", "pages_needed"),)] == 1


def test_metrics_stay_small_with_thousands_of_adapters(engine: ScriptedEngine) -> None:
    """No label takes more values than its cap and ``other``, and no label value grows without end."""
    row = engine.rows["A"]
    engine.rows = {f"n{number}": replace(row, alias=f"n{number}", id=AdapterId(f"{number:032x}")) for number in range(2000)}
    waiting = tuple(
        WaitingRow(id=f"r{number}", tenant="default", model=f"n{number}", adapter=row.id, reason="adapter_loading", waited_s=1.0)  # type: ignore[arg-type]
        for number in range(2000)
    )
    engine.publisher.publish(replace(engine.snapshot(), requests=RequestsSnapshot(waiting=waiting)))
    for number in range(2000):
        engine.publisher.cumulative.adapter_requests.add(f"{number}")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine.publisher, max_adapters=64))
    by_name: dict[str, int] = {}
    for family in registry.collect():
        for sample in family.samples:
            by_name[sample.name] = by_name.get(sample.name, 0) + 1
            assert all(len(value) < MOST_ADAPTERS * 10 for value in sample.labels.values())
    assert max(by_name.values()) <= MOST_ADAPTERS + 1


async def test_request_ids_are_kept_when_plain(http: httpx.AsyncClient) -> None:
    """A usable id comes back and names the answer; anything else is replaced by a new one (D11)."""
    kept = await http.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "run-7.a_B"})
    assert kept.headers["x-request-id"] == "run-7.a_B"
    assert kept.json()["id"] == "chatcmpl-run-7.a_B"
    for forged in ("x" * 10_000, "a b", "a;b", "\x1b[31m", "a\tb", ""):
        response = await http.get("/v1/models", headers={"x-request-id": forged})
        assert response.headers["x-request-id"].startswith("req-")
    assert (await http.get("/v1/nope")).headers["x-request-id"].startswith("req-")


@pytest.mark.parametrize("text", ["x\n2026 INFO admin granted", "x\r\n2026", "x\x1b[31mred", "x\x9b1m", "x\u2028y", "x\0y", "x" * 10_000])
async def test_one_event_is_one_plain_line(http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Nothing a caller sends breaks a log line or writes to a terminal (D11)."""
    caplog.set_level(logging.INFO, logger="loradeck.api")
    await http.post("/v1/chat/completions", json={**CHAT, "model": text})
    await http.get(f"/api/adapters/{quote(text)}")
    assert 1 <= len(caplog.messages) <= 2
    for line in caplog.messages:
        assert line.isprintable()
        assert line.startswith("request id=")
        assert len(line) < 1000


def test_the_formatter_keeps_tracebacks_on_one_line() -> None:
    """A traceback with a forged message stays one physical line (D11)."""
    with pytest.raises(ValueError, match="granted") as raised:
        int("x\n2026 INFO admin granted\x1b[31m")
    info = (raised.type, raised.value, raised.tb)
    record = logging.LogRecord("loradeck", logging.ERROR, __file__, 1, "failed %s", ("a\r\nb",), info)
    line = OneLineFormatter("%(levelname)s %(message)s").format(record)
    assert line.isprintable()
    assert line.startswith("ERROR failed a\\r\\nb\\nTraceback")


def test_log_fields_are_quoted() -> None:
    """Text is quoted and ASCII, numbers are bare, None is left out."""
    assert (
        fields(model='a "b"\n', seconds=0.12345, status=200, ok=True, absent=None)
        == 'model="a \\"b\\"\\n" seconds=0.123 status=200 ok=True'
    )


async def test_the_log_line_says_what_was_served(http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, engine: ScriptedEngine) -> None:
    """Id, status, model, version and tokens."""
    caplog.set_level(logging.INFO, logger="loradeck.api")
    await http.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "r1"})
    (line,) = caplog.messages
    assert line.startswith('request id="r1" method="POST" path="/v1/chat/completions" status=200 seconds=')
    assert f'tenant="default" model="A" version="{engine.rows["A"].id}"' in line
    assert line.endswith("completion_tokens=4")
