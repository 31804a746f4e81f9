"""Every request in the engine, from arrival to its record. Owned by the engine thread."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import LoradeckError, ModelNotFound, Overloaded
from engine.events import RequestFailed, RequestPreempted
from engine.ids import TOLD_APART, RequestId, given_id
from engine.live import LiveRequest
from engine.output import ChoiceOutput
from engine.registry.usage import note
from engine.sequence import Sequence
from engine.stream import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.adapters.entry import AdapterEntry
    from engine.ids import AdapterId
    from engine.model_host import ModelHost
    from engine.plan import StepPlan, StepResult
    from engine.request import FinishReason, RequestRecord
    from engine.scheduler.scheduler import Decision
    from engine.stream import TokenStream


class Requests:
    """Takes requests in, turns a step's tokens into chunks, and ends each request exactly once."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._arriving: set[TokenStream] = set()
        self._live: dict[TokenStream, LiveRequest] = {}
        self._ids: set[RequestId] = set()
        self._of: dict[Sequence, LiveRequest] = {}
        self._next_key = 0
        self.outbox = Outbox()

    @property
    def streams(self) -> list[TokenStream]:
        """Streams that have not ended; a copy, safe to take from the watchdog's thread."""
        return [*self._arriving, *self._live]

    def expect(self, stream: TokenStream) -> None:
        """A request is on its way to ``add``. Any thread."""
        self._arriving.add(stream)

    def add(self, stream: TokenStream) -> None:
        """Queue a request's choices; ends it at once when its adapter went away meanwhile."""
        host = self._host
        self._arriving.discard(stream)
        entry = self._entry(stream)
        if stream.target.adapter is not None and (entry is None or entry.quarantined):
            name = stream.target.name
            message = f"The model {name!r} does not exist." if entry is None else f"The model {name!r} is quarantined."
            self.fail_unqueued(stream, ModelNotFound(message, param="model", found=name))
            return
        self._tell_apart(stream)
        sequences = [self._sequence(stream, index, entry) for index in range(stream.request.sampling.n)]
        most = min(host.max_sequence_tokens, host.scheduler.most_tokens(stream.request.tenant, stream.request.key))
        room = most - len(stream.request.prompt_ids)
        limit = min(stream.request.sampling.max_tokens, room)
        live = LiveRequest(
            stream=stream,
            sequences=sequences,
            outputs=[ChoiceOutput(sequence, host.parts.tokenizer, max_tokens=limit) for sequence in sequences],
        )
        self._live[stream] = live
        self._ids.add(stream.request.id)
        for sequence in sequences:
            self._of[sequence] = live
            host.scheduler.add(sequence, host.clock.now_s())
        if entry is not None:
            entry.users += len(sequences)
            entry.last_used_unix = time.time()
            host.lifecycle.changed(entry)

    def settle(self, plan: StepPlan, result: StepResult) -> int:
        """Give each row's token to its choice and let the scheduler move on; how many tokens came out."""
        now_s = self._host.clock.now_s()
        decisions: list[Decision] = []
        num_tokens = 0
        for index, row in enumerate(plan.rows):
            sequence, token = row.sequence, result.sampled[index]
            live = self._of.get(sequence)
            if live is None:
                decisions.append((row, None, None))
                continue
            if live.stream.ticket is not None:
                live.stream.ticket.begin()
            output = live.outputs[sequence.index]
            if index in result.prompt_logprobs:
                output.score_prompt(row.start, result.prompt_logprobs[index])
            if token is None:
                decisions.append((row, None, None))
                continue
            num_tokens += 1
            chunk = output.accept(token, step=plan.step)
            sequence.first_step = sequence.first_step or plan.step
            live.last_step = plan.step
            self.outbox.put(live.stream, chunk)
            decisions.append((row, token.token_id, chunk.finish_reason))
        self._host.scheduler.settle(plan, decisions, now_s)
        for row, _, finish_reason in decisions:
            if finish_reason is not None:
                self._finished(row.sequence, now_s)
        return num_tokens

    def cancel(self, stream: TokenStream) -> None:
        """End a request whose client is gone; nothing happens when it has ended."""
        live = self._live.get(stream)
        if live is not None:
            self._end(live, "cancelled")

    def fail(self, streams: Iterable[TokenStream], error: LoradeckError) -> None:
        """End requests with an error."""
        for stream in list(streams):
            live = self._live.get(stream)
            if live is None:
                if stream in self._arriving:
                    self.fail_unqueued(stream, error)
            else:
                self.outbox.put(stream, error)
                self._event(live, error)
                self._end(live, "error")

    def fail_unqueued(self, stream: TokenStream, error: LoradeckError) -> None:
        """End a request that never came into the queue."""
        self._arriving.discard(stream)
        if stream.ticket is not None:
            stream.ticket.void()
        self.outbox.put(stream, error)
        self.outbox.post()

    def fail_adapter(self, adapter: AdapterId, error: LoradeckError) -> None:
        """End every request of an adapter with an error; what a canary has not begun to answer, its stable version does."""
        concerned = [live for stream, live in self._live.items() if stream.target.adapter == adapter]
        for live in concerned:
            if live.stream.target.stable is not None and not any(sequence.num_output for sequence in live.sequences):
                self._begin_again(live)
        self.fail([live.stream for live in concerned if live.stream.target.adapter == adapter], error)

    def note_plan(self, plan: StepPlan) -> None:
        """Say which requests gave their pages back and which waited for whom, and end those that the arena cannot hold any more."""
        fairness, now_s = self._host.publisher.fairness, self._host.clock.now_s()
        for sequence, waited_for, waited_s in plan.stalled:
            fairness.stalled(waited_s, by=waited_for, of=sequence.tenant, now_s=now_s)
        for sequence, pages, by in plan.preempted:
            fairness.preempted(by=by.tenant, of=sequence.tenant, now_s=now_s)
            event = RequestPreempted(at_unix=time.time(), request=sequence.request.id, tenant=sequence.tenant, pages=pages)
            self._host.publisher.record_event(event)
        for sequence in plan.stranded:
            kv_pages = self._host.parts.arena.layout.pages_for(sequence.num_tokens)
            excess = self._host.scheduler.allowances.excess_of(sequence, kv_pages)
            message = "The memory left beside pinned adapters cannot hold this request any more."
            error = Overloaded(message, code="kv_pages") if excess is None else excess.refusal()
            self.fail([stream for stream in self._live if stream.request.id == sequence.request.id], error)

    def _tell_apart(self, stream: TokenStream) -> None:
        """Two requests under way never have one id: clients choose theirs, and none may learn or block another's."""
        while stream.request.id in self._ids:
            self._next_key += 1
            stream.request = replace(stream.request, id=RequestId(f"{given_id(stream.request.id)}{TOLD_APART}{self._next_key}"))

    def _entry(self, stream: TokenStream) -> AdapterEntry | None:
        """What is to serve it: the stable version where the canary went away meanwhile."""
        entries = self._host.residency.entries
        entry = None if stream.target.adapter is None else entries.get(stream.target.adapter)
        if stream.target.stable is not None and (entry is None or entry.quarantined):
            stream.target = stream.target.without_canary
            entry = entries.get(stream.target.adapter) if stream.target.adapter is not None else None
        return entry

    def _begin_again(self, live: LiveRequest) -> None:
        """From the queue, with the stable version."""
        stream = live.stream
        self._host.scheduler.cancel(stream.request.id, self._host.clock.now_s())
        for sequence in live.sequences:
            if self._of.pop(sequence, None) is not None:
                self._release(sequence)
        del self._live[stream]
        self._ids.remove(stream.request.id)
        stream.target = stream.target.without_canary
        self.add(stream)

    def _sequence(self, stream: TokenStream, index: int, entry: AdapterEntry | None) -> Sequence:
        self._next_key += 1
        request = stream.request
        return Sequence(
            key=self._next_key,
            request=request,
            index=index,
            adapter=stream.target.adapter,
            token_ids=list(request.prompt_ids),
            num_prompt=len(request.prompt_ids),
            arrived_s=self._host.clock.now_s(),
            tier_at_arrival=None if entry is None else entry.tier(in_host=entry.record.id in self._host.residency.host),
        )

    def _finished(self, sequence: Sequence, now_s: float) -> None:
        """One choice ended well; the last one ends the request."""
        live = self._of.pop(sequence)
        live.num_finished += 1
        if live.is_done:
            self._close(live, live.record(now_s))
        self._release(sequence)

    def _end(self, live: LiveRequest, reason: FinishReason) -> None:
        """End a request early: what its choices hold comes back now."""
        self._host.scheduler.cancel(live.stream.request.id, self._host.clock.now_s())
        self._close(live, live.record(self._host.clock.now_s(), reason=reason))
        for sequence in live.sequences:
            if self._of.pop(sequence, None) is not None:
                self._release(sequence)

    def _close(self, live: LiveRequest, record: RequestRecord) -> None:
        del self._live[live.stream]
        if live.stream.ticket is not None:
            live.stream.ticket.settle(record)
        self._ids.remove(record.id)
        self._host.publisher.record_request(record)
        self._host.catalog.store.later(partial(note, record=record, key=live.stream.request.key, ended_unix=time.time()))
        self.outbox.put(live.stream, record)

    def _release(self, sequence: Sequence) -> None:
        entry = None if sequence.adapter is None else self._host.residency.entries.get(sequence.adapter)
        if entry is not None:
            entry.users -= 1
            self._host.lifecycle.changed(entry)
            self._host.lifecycle.forget_retired(entry)

    def _event(self, live: LiveRequest, error: LoradeckError) -> None:
        request = live.stream.request
        event = RequestFailed(at_unix=time.time(), request=request.id, tenant=request.tenant, code=error.code, message=error.message)
        self._host.publisher.record_event(event)
