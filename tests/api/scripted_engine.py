"""An engine that answers with given token ids: the doors' counterpart in tests, with the real tokenizer, streams and publisher."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.caller import SYSTEM, Caller
from engine.clock import MonotonicClock
from engine.control import ControlOutcome, Victim
from engine.errors import AdapterNotFound, Conflict, LoradeckError, ModelNotFound, SourceNotAllowed
from engine.events import AdapterRegistered
from engine.gateway.gate import Gate, Ticket
from engine.gateway.scope import narrow_events, narrow_snapshot
from engine.health import Health
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, AdapterId, TenantId
from engine.names import check_alias
from engine.output import ChoiceOutput
from engine.plan import SampledToken
from engine.registered import Registration, ValidationReport
from engine.request import Request, RequestRecord, TokenChunk, TokenLogprob
from engine.router import ModelCard, unknown_model
from engine.sequence import Sequence as LiveSequence
from engine.settings import Settings
from engine.snapshot import AdapterRow, DeviceSnapshot, EngineSnapshot, MemorySnapshot, RequestsSnapshot, RunningRow
from engine.step_record import StepRecord, StepRow
from engine.stream import Target, TokenStream
from engine.telemetry.publisher import Publisher
from engine.tokenizing.chat_template import ChatTemplate
from engine.tokenizing.tokenizer import Tokenizer
from tests.accounts import open_accounts
from tests.api.scripted_operations import ScriptedOperations
from tests.api.scripted_versions import NothingRegistered
from tests.tiny_tokenizer import EOS

BASE = "tiny"
CONTEXT = 256
Script = Callable[[Request, int], Sequence[int]]
"""(request, choice) → the token ids it yields, EOS included where it has one."""


def says(text: str, *, ends: bool = True) -> Script:
    """Every choice says ``text``, then ends."""
    ids = [*text.encode(), *([EOS] if ends else [])]
    return lambda _request, _choice: ids


def says_own_name(request: Request, choice: int) -> Sequence[int]:
    """The model's name and the choice's number, so that an answer shows who gave it."""
    return [*f"{request.model}/{choice}".encode(), EOS]


class ScriptedEngine:
    """The public face of ``engine.engine.Engine`` over a script. One token a choice and step, ``pace_s`` apart."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.settings = settings
        self.base_name = BASE
        self.tokenizer = Tokenizer.load(folder)
        self.chat_template = ChatTemplate.load(folder, self.tokenizer)
        self.publisher = Publisher(MonotonicClock())
        self.gate = Gate(MonotonicClock())
        self.tenants = open_accounts(settings, self.gate)
        self.operations = ScriptedOperations(settings)
        self.versions = self.audit = self.schedules = NothingRegistered()
        self.script: Script = says_own_name
        self.pace_s, self.tokens_made = 0.0, 0
        self.refusal: LoradeckError | None = None
        self.breaks_at: tuple[int, LoradeckError] | None = None
        self.told_health = Health(ok=False, state="starting", reason="", last_progress_age_s=0.0)
        self.rows: dict[str, AdapterRow] = {}
        self.submitted, self.running = list[Request](), dict[TokenStream, "asyncio.Task[None]"]()
        self.registered_in: list[str] = []
        self._steps = itertools.count(1)
        for number, alias in enumerate(("A", "team/B")):
            self.rows[alias] = _row(alias, f"{number:032x}", tier="device" if number == 0 else "host")

    def start(self, progress: Any = None) -> None:
        """Ready at once."""
        self.told_health = Health(ok=True, state="serving", reason="", last_progress_age_s=0.0)

    def stop(self) -> None:
        """Down at once."""
        self.tenants.directory.store.close()
        self.told_health = Health(ok=False, state="down", reason="stopped", last_progress_age_s=0.0)

    def health(self) -> Health:
        """What it was told to say."""
        return self.told_health

    # Requests

    def resolve(self, model: str, tenant: str | None = None, *, key: str | None = None) -> Target:
        """The base, an alias or a version id."""
        if not self.tenants.keys.allows(key, model):
            raise unknown_model(model)
        if model == BASE:
            return Target(name=BASE)
        seen = self._seen(tenant)
        targets = {row.id: Target(name=model, adapter=row.id) for _, row in seen}
        targets |= {alias: Target(name=model, adapter=row.id, alias=model) for alias, row in seen}
        if model not in targets:
            raise unknown_model(model)
        return targets[model]

    def _seen(self, tenant: str | None) -> list[tuple[str, AdapterRow]]:
        """Names that a tenant may call."""
        return [(alias, row) for alias, row in self.rows.items() if tenant is None or row.tenant in {tenant, SHARED_TENANT}]

    def submit(self, request: Request) -> TokenStream:
        """A stream that the script fills."""
        return self.submit_together([request])[0]

    def submit_together(self, requests: Sequence[Request]) -> list[TokenStream]:
        """A stream a request, behind the real gate."""
        targets = [self.resolve(request.model, request.scope, key=request.key) for request in requests]
        if self.refusal is not None:
            raise self.refusal
        return [self._start(*each) for each in zip(requests, targets, self.gate.admit(requests), strict=True)]

    def _start(self, request: Request, target: Target, ticket: Ticket) -> TokenStream:
        self.submitted.append(request)
        stream = TokenStream(request, target, cancel=self._cancel, ticket=ticket)
        self.running[stream] = asyncio.get_running_loop().create_task(self._answer(stream))
        self.running[stream].add_done_callback(lambda _task: self.running.pop(stream))
        return stream

    def _cancel(self, stream: TokenStream) -> None:
        task = self.running.get(stream)
        if task is not None:
            task.cancel()

    async def _answer(self, stream: TokenStream) -> None:
        request = stream.request
        arrived_s = time.perf_counter()
        sequences = [self._sequence(stream, index) for index in range(request.sampling.n)]
        made = 0
        try:
            async for chunks in self._run(stream, sequences):
                made += len(chunks)
                stream.deliver(chunks)
            stream.deliver([self._record(stream, made, arrived_s, cancelled=False)])
        except LoradeckError as error:
            stream.deliver([error])
        except asyncio.CancelledError:
            stream.deliver([self._record(stream, made, arrived_s, cancelled=True)])

    async def _run(self, stream: TokenStream, sequences: list[LiveSequence]) -> Any:
        sampling = stream.request.sampling
        outputs = [ChoiceOutput(sequence, self.tokenizer, max_tokens=sampling.max_tokens) for sequence in sequences]
        sources = [iter(self.script(stream.request, sequence.index)) for sequence in sequences]
        for number in itertools.count():
            await asyncio.sleep(self.pace_s)
            if self.breaks_at is not None and number == self.breaks_at[0]:
                raise self.breaks_at[1]
            live = [entry for entry in zip(sequences, outputs, sources, strict=True) if entry[1].finish_reason is None]
            if not live:
                return
            yield self._step(stream, live, first=number == 0)

    def _step(self, stream: TokenStream, live: list[tuple[LiveSequence, ChoiceOutput, Iterator[int]]], *, first: bool) -> list[TokenChunk]:
        step = next(self._steps)
        chunks = []
        for sequence, output, source in live:
            token = next(source)
            chunk = output.accept(SampledToken(token_id=token, logprob=_logprob(token, stream.request.sampling.logprobs)), step=step)
            sequence.token_ids.append(token)
            if first and stream.request.echo_logprobs:
                scored = (_logprob(prompt_token, stream.request.sampling.logprobs) for prompt_token in stream.request.prompt_ids[1:])
                chunk = replace(chunk, prompt_logprobs=tuple(filter(None, scored)))
            chunks.append(chunk)
        self.tokens_made += len(chunks)
        stream.ticket.begin()  # type: ignore[union-attr]
        rows = tuple(
            StepRow(request=stream.request.id, index=chunk.index, phase="decode", tokens=1, adapter=stream.target.adapter)
            for chunk in chunks
        )
        record = StepRecord(step=step, started_s=time.perf_counter(), duration_s=0.001, rows=rows, num_adapters=0)
        self.publisher.record_step(record, output_tokens=len(chunks))
        return chunks

    def _sequence(self, stream: TokenStream, index: int) -> LiveSequence:
        ids = list(stream.request.prompt_ids)
        return LiveSequence(
            key=index,
            request=stream.request,
            index=index,
            adapter=stream.target.adapter,
            token_ids=ids,
            num_prompt=len(ids),
            arrived_s=0.0,
        )

    def _record(self, stream: TokenStream, made: int, arrived_s: float, *, cancelled: bool) -> RequestRecord:
        took_s = time.perf_counter() - arrived_s
        record = RequestRecord(
            id=stream.request.id,
            tenant=stream.request.tenant,
            model=stream.target.name,
            adapter=stream.target.adapter,
            tier_at_arrival=None if stream.target.adapter is None else "host",
            prompt_tokens=len(stream.request.prompt_ids),
            cached_tokens=0,
            completion_tokens=made,
            finish_reason="cancelled" if cancelled else "stop",
            queue_s=0.001,
            adapter_load_s=0.002,
            prefill_s=0.003,
            decode_s=0.004,
            ttft_s=0.005,
            e2e_s=took_s,
            first_step=1,
            last_step=made,
            arrived_s=arrived_s,
        )
        self.publisher.record_request(record)
        stream.ticket.settle(record)  # type: ignore[union-attr]
        return record

    # Adapters

    def card(self, model: str, tenant: str | None = None, *, key: str | None = None) -> ModelCard:
        """Of a name or a version id."""
        adapter = self.resolve(model, tenant, key=key).adapter
        return replace(next(card for card in self.models(tenant) if card.adapter == adapter), id=model)

    def adapter(self, ref: str, tenant: TenantId | None = None) -> AdapterRow:
        """The row of a name or a version id."""
        found = [row for alias, row in self._seen(tenant) if ref in {alias, row.id}]
        if not found:
            raise AdapterNotFound(ref)
        return found[0]

    def models(self, tenant: str | None = None, *, key: str | None = None) -> tuple[ModelCard, ...]:
        """The base, then every alias."""
        cards = [ModelCard(id=BASE, parent=None, root="/bases/tiny", created_unix=1)]
        for alias, row in self._seen(tenant):
            live = {"tier": row.tier, "pinned": row.pinned, "bytes": row.bytes}
            cards.append(ModelCard(id=alias, parent=BASE, root=row.source, created_unix=2, adapter=row.id, **live))  # type: ignore[arg-type]
        return tuple(card for card in cards if self.tenants.keys.allows(key, card.id))

    def register(
        self,
        source: str,
        *,
        alias: str,
        tenant: TenantId | None = None,
        dry_run: bool = False,
        replace: bool = False,
        compatible_base: bool = False,
        caller: Caller = SYSTEM,
    ) -> Registration:
        """Sources under ``/allowed`` are fine and give a version named after the path."""
        owner = tenant or caller.home
        caller.need_for(owner, "operator")
        self.registered_in.append(threading.current_thread().name)
        check_alias(alias, reserved=(BASE,))
        if not source.startswith("/allowed/") or ".." in source:
            raise SourceNotAllowed("This source is outside the folders that adapters may be registered from.", param="source")
        row = _row(alias, source.encode().hex()[-32:].rjust(32, "0"), tier="disk", source=source, tenant=owner)
        created = alias not in self.rows
        if not created and self.rows[alias].id != row.id and not replace:
            raise Conflict("The alias is taken.", code="alias_taken", param="alias", expected=row.id, found=self.rows[alias].id)
        if not dry_run:
            self.rows[alias] = row
            event = AdapterRegistered(at_unix=time.time(), by=caller.name, adapter=row.id, alias=alias, tenant=owner)
            self.publisher.record_event(event)
        report = ValidationReport(
            matched=4,
            modules=("q", "v"),
            rank=8,
            bytes=row.bytes,
            pages=row.pages,
            warnings=("synthetic",),
            base_proof="declared",
            probe="ok",
        )
        return Registration(row=row, report=report, created=created and not dry_run, dry_run=dry_run)

    def unregister(self, alias: str, *, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> None:
        """The alias is gone."""
        caller.need("operator")
        if alias not in self.rows or (caller.tenant or tenant) not in {None, self.rows[alias].tenant}:
            raise ModelNotFound(f"The model {alias[:80]!r} does not exist.", param="model", found=alias[:80])
        del self.rows[alias]

    def control(
        self, verb: Any, ref: str, *, preview: bool = False, tier: Any = None, caller: Caller = SYSTEM, **rest: Any
    ) -> Future[ControlOutcome]:
        """Moves the row; a pin of ``team/B`` never fits."""
        caller.need("operator")
        own = ((alias, row) for alias, row in self.rows.items() if caller.sees(row.tenant))
        alias = next((alias for alias, row in own if ref in {alias, row.id}), None)
        if alias is None:
            raise AdapterNotFound(f"No adapter {ref[:80]!r} is registered.", param="ref", found=ref[:80])
        future: Future[ControlOutcome] = Future()
        if verb == "pin" and alias == "team/B":
            future.set_exception(Conflict("Not pinned.", code="pin_would_not_fit", param="ref", arithmetic=(("Arena", 9), ("Left", 1))))
            return future
        row = self.rows[alias]
        if not preview:
            row = replace(row, **_moved(verb, tier, rest))
            self.rows[alias] = row
        victims = (Victim(id=AdapterId("f" * 32), alias="idle", pages=3, idle_s=9.0),)
        outcome = ControlOutcome(
            verb=verb, adapter=row, applied=not preview, preview=preview, message="Done.", arithmetic=(("Free", 4),), victims=victims
        )
        future.set_result(outcome)
        return future

    # What is

    def snapshot(self, tenant: TenantId | None = None) -> EngineSnapshot:
        """Made anew at every call."""
        running = tuple(
            RunningRow(
                id=stream.request.id,
                tenant=stream.request.tenant,
                model=stream.target.name,
                adapter=stream.target.adapter,
                prompt_tokens=len(stream.request.prompt_ids),
                output_tokens=0,
                phase="decode",
                running_s=0.0,
            )
            for stream in list(self.running)
        )
        memory = MemorySnapshot(total_bytes=1000, base_bytes=400, adapters_cached_bytes=100, free_bytes=500, arena_pages=60)
        whole = EngineSnapshot(
            step=7,
            state="serving",
            memory=memory,
            adapters=tuple(self.rows.values()),
            requests=RequestsSnapshot(running=running),
            totals=self.publisher.totals(),
            device=DeviceSnapshot(base=BASE, context_tokens=CONTEXT),
            event=self.publisher.event_log.newest(),
        )
        return narrow_snapshot(whole, tenant, event=self.publisher.event_log.newest(tenant))

    def events(self, after: int = 0, limit: int = 500, *, tenant: TenantId | None = None) -> Any:
        """The publisher's."""
        return narrow_events(self.publisher.events(after, limit, tenant=tenant), tenant)

    def steps(self, after: int = 0) -> Any:
        """The publisher's."""
        return self.publisher.steps(after)

    @contextmanager
    def scripted(self, script: Script, *, pace_s: float = 0.0) -> Iterator[None]:
        """Another script for a while."""
        before = self.script, self.pace_s
        self.script, self.pace_s = script, pace_s
        try:
            yield
        finally:
            self.script, self.pace_s = before


def _logprob(token: int, top: int | None) -> TokenLogprob | None:
    """Half the probability for the token, a quarter for the next id, and so on."""
    if top is None:
        return None
    return TokenLogprob(token_id=token, logprob=-0.5, top=tuple((token + rank, -0.5 - rank) for rank in range(top)))


def _row(alias: str, version: str, *, tier: Any, source: str = "/allowed/a", tenant: TenantId = DEFAULT_TENANT) -> AdapterRow:
    return AdapterRow(
        id=AdapterId(version),
        alias=alias,
        aliases=(alias,),
        tenant=tenant,
        tier=tier,
        bytes=4096,
        pages=2,
        rank=8,
        modules=("q", "v"),
        source=source,
    )


def _moved(verb: str, tier: Any, rest: dict[str, Any]) -> dict[str, Any]:
    if verb == "pin":
        return {"pinned": True, "pin_tier": tier or "device", "pin_until": rest["until_unix"], "pin_reason": rest["reason"]}
    if verb == "unpin":
        return {"pinned": False, "pin_tier": None, "pin_until": None}
    return {"tier": tier or ("device" if verb == "warm" else "host")}
