"""What doors read of an engine without changing it. Any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.gateway.scope import narrow_events, narrow_snapshot

if TYPE_CHECKING:
    from engine.events import EventPage
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.models.spec import ModelSpec
    from engine.request import RequestRecord
    from engine.snapshot import EngineSnapshot
    from engine.step_record import StepRecord
    from engine.telemetry.publisher import Publisher
    from engine.tokenizing.chat_template import ChatTemplate
    from engine.tokenizing.tokenizer import Tokenizer


class Readings:
    """The read-only face of a started engine."""

    _host: ModelHost

    @property
    def host(self) -> ModelHost:
        """The parts behind it, for the rest of the whole; doors use the methods."""
        return self._host

    @property
    def base_name(self) -> str:
        """The name under which the base itself answers."""
        return self._host.base_name

    @property
    def base_spec(self) -> ModelSpec:
        """What the base is made of."""
        return self._host.parts.spec

    @property
    def tokenizer(self) -> Tokenizer:
        """The base's; safe to use from any thread."""
        return self._host.parts.tokenizer

    @property
    def chat_template(self) -> ChatTemplate:
        """The base's; safe to use from any thread."""
        return self._host.parts.chat_template

    @property
    def publisher(self) -> Publisher:
        """Meters and rings; read only."""
        return self._host.publisher

    @property
    def graph_capture_s(self) -> dict[tuple[int, bool], float]:
        """Seconds that each CUDA graph took to capture, by (rows, with adapters); empty on CPU."""
        graphs = self._host.runner.graphs
        return {} if graphs is None else graphs.capture_s

    def snapshot(self, tenant: TenantId | None = None) -> EngineSnapshot:
        """The latest, as a tenant may see it; None is all of it. Never blocks."""
        publisher = self._host.publisher
        return narrow_snapshot(publisher.snapshot, tenant, event=publisher.event_log.newest(tenant))

    def events(self, after: int = 0, limit: int = 500, *, tenant: TenantId | None = None) -> EventPage:
        """Events numbered above ``after``; those that a tenant is told count by themselves."""
        return narrow_events(self._host.publisher.events(after, limit, tenant=tenant), tenant)

    def steps(self, after: int = 0) -> tuple[StepRecord, ...]:
        """Kept steps above step ``after``, oldest first."""
        return self._host.publisher.steps(after)

    def records(self, after_s: float = 0.0) -> tuple[RequestRecord, ...]:
        """Kept requests that ended after ``after_s`` (clock seconds), oldest first."""
        return self._host.publisher.records(after_s)
