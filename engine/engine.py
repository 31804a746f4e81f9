"""The engine as doors see it: submit, look, control. Every method may be called from any thread unless it says otherwise."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from engine.alias import AliasName
from engine.assemble import open_host
from engine.caller import SYSTEM, Caller
from engine.clock import Clock, MonotonicClock
from engine.control import Control, ControlCall
from engine.data_lock import DataLock
from engine.errors import ModelNotFound, NotReady
from engine.gateway.gate import Gate
from engine.health import NOT_STARTED, Health, health_of
from engine.intake.operations import Operations
from engine.loop import EngineLoop
from engine.process import forget_rows, keep_rows, release_team, without_collections
from engine.readings import Readings
from engine.registered import RegisterCall
from engine.router import ModelCard, Router, unknown_model
from engine.submission import queue_all
from engine.tenants.opening import open_tenants
from engine.tenants.ways_back import teach_ways_back
from engine.versions.plane import open_plane
from engine.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from engine.control import ControlOutcome, Verb
    from engine.ids import TenantId, Tier
    from engine.model_host import ModelHost
    from engine.registered import Registration
    from engine.request import Request
    from engine.settings import Settings
    from engine.snapshot import AdapterRow
    from engine.stream import Target, TokenStream

ROW_WITHIN_S = 1.0
STUCK_AFTER_S = 30.0
"""A step that takes longer counts as stuck: health fails and requests end."""


class Engine(Readings):
    """One base, its adapters and the thread that serves them."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, stuck_after_s: float = STUCK_AFTER_S) -> None:
        self.settings = settings
        self.clock: Clock = clock or MonotonicClock()
        self.gate = Gate(self.clock)
        self._stuck_after_s = stuck_after_s
        self._loop: EngineLoop | None = None
        self._data = DataLock(settings.data)
        self.before_stop: list[Callable[[], None]] = []
        """Called by ``stop`` while the engine still serves: what was started beside it ends first."""

    def start(self, progress: Callable[[str, float | None], None] = lambda _text, _share: None) -> None:
        """Load the base and start serving; blocks. ``progress`` hears (what, share done or None). Raises BaseRefused."""
        with self._data.taken_unless_it_fails(), without_collections():
            self._host: ModelHost = open_host(self.settings, clock=self.clock, progress=progress)
        self._loop = EngineLoop(self._host, self.clock)
        self._host.attach(self._loop)
        self._control = self._host.control = Control(self._host)
        self._router = Router(self._host)
        self._plane = open_plane(self._host, self._loop, self._control)
        self.versions, self.schedules, self.audit = self._plane.versions, self._plane.schedules, self._plane.versions.audit
        self.operations = Operations(self._host, self._plane.registrar)
        self._watchdog = Watchdog(self._host, self._loop, stuck_after_s=self._stuck_after_s)
        self.tenants = open_tenants(self._host, self._loop, self.gate)
        self.tenants.access.on_sign_in = self.schedules.signed_in
        teach_ways_back(self.tenants, self.audit)
        release_team()
        keep_rows(len(self._host.catalog.records), tidy=True)
        self._loop.start()
        self._watchdog.start()
        self._plane.start()
        self.before_stop.append(self.operations.begin())

    def stop(self) -> None:
        """End after the step under way; safe to call again."""
        for end in list(self.before_stop):
            end()
        if self._loop is not None and self._loop.is_alive:
            self._plane.stop()
            self._watchdog.stop()
            self._loop.stop()
            self._host.close()
            self._data.give_back()
            forget_rows()

    def submit(self, request: Request) -> TokenStream:
        """Queue a request and return its stream; call on an asyncio loop.

        Raises ModelNotFound, InvalidRequest, Overloaded or NotReady at once, before anything is queued.
        """
        return self.submit_together([request])[0]

    def submit_together(self, requests: Sequence[Request]) -> list[TokenStream]:
        """Queue the requests of one call of one tenant, all or none: the limits count them as one. As ``submit``."""
        loop = self._live_loop()
        targets = [self._router.canary(self.resolve(request.model, request.scope, key=request.key), request) for request in requests]
        for tenant in {request.tenant for request in requests}:
            self.schedules.requested(tenant)
        return queue_all(list(zip(requests, targets, strict=True)), self._host, loop, self.gate)

    def resolve(self, model: str, tenant: TenantId | None = None, *, key: str | None = None) -> Target:
        """What a name means to ``tenant`` now: the base, an alias or a version id, to the letter. Raises ModelNotFound.

        Its own names come before the shared ones; others', and what the API key's allow-list lacks, do not exist. None is all tenants.
        """
        if not self.tenants.keys.allows(key, model):
            raise unknown_model(model)
        return self._router.resolve(model, tenant)

    def models(self, tenant: TenantId | None = None, *, key: str | None = None) -> tuple[ModelCard, ...]:
        """The base, then every alias that ``resolve`` would find for ``tenant`` with that key."""
        return tuple(card for card in self._router.models(tenant) if self.tenants.keys.allows(key, card.id))

    def card(self, model: str, tenant: TenantId | None = None, *, key: str | None = None) -> ModelCard:
        """What ``models`` says of one name, or of a version id. Raises ModelNotFound."""
        return self._router.card(self.resolve(model, tenant, key=key), tenant)

    def adapter(self, ref: str, tenant: TenantId | None = None) -> AdapterRow:
        """The adapter that an alias or version id names, with all that was done to it. Waits for the step under way: call it in a thread.

        An engine that does not answer within a second leaves it at the latest snapshot. Raises AdapterNotFound.
        """
        with suppress(ModelNotFound, NotReady, TimeoutError):
            row = self._live_loop().call(lambda: self._router.row_now(ref, tenant), timeout_s=ROW_WITHIN_S)
            if row is not None:
                return row
        return self._router.row(ref, tenant)

    def register(  # noqa: PLR0913 - each is a word that an operator may say
        self,
        source: str,
        *,
        alias: str,
        tenant: TenantId | None = None,
        dry_run: bool = False,
        replace: bool = False,
        compatible_base: bool = False,
        prove: Literal["now", "first_load"] = "now",
        warm: Tier = "disk",
        why: str = "",
        caller: Caller = SYSTEM,
    ) -> Registration:
        """Validate a PEFT folder and serve it as ``alias`` of ``tenant``, or of the caller's. Blocks: call it in a thread.

        Raises Forbidden, SourceNotAllowed, InvalidRequest, AdapterRefused or Conflict; a refusal changes nothing. ``prove="first_load"``
        puts the probe off until the adapter first comes to the device; until it passed, the adapter answers nothing.
        """
        owner = caller.home if tenant is None else tenant
        caller.need_for(owner, "operator")
        self._live_loop()
        call = RegisterCall(
            source=source,
            alias=AliasName(owner, alias),
            dry_run=dry_run,
            replace=replace,
            compatible_base=compatible_base,
            prove=prove,
            warm=warm,
            why=why,
        )
        return self._plane.registrar.register(call, caller=caller)

    def unregister(self, alias: str, *, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> None:
        """Withdraw an alias; new requests get 404 at once, running ones finish, then weights and image are freed."""
        caller.need("operator")
        self._live_loop()
        self._plane.registrar.unregister(self._router.owned_alias(alias, caller.tenant or tenant), caller=caller)

    def control(
        self,
        verb: Verb,
        ref: str,
        *,
        tenant: TenantId | None = None,
        tier: Tier | None = None,
        until_unix: float | None = None,
        reason: str = "",
        preview: bool = False,
        caller: Caller = SYSTEM,
    ) -> Future[ControlOutcome]:
        """Warm, pin, unpin or evict the adapter that ``ref`` (alias or version id) names; with ``preview`` say what would happen.

        ``tenant`` says whose ``ref`` is. Raises Forbidden or AdapterNotFound at once; other refusals come through the future.
        """
        caller.need("operator")
        self._live_loop()
        call = ControlCall(
            verb=verb,
            adapter=self._router.owned(ref, caller.tenant or tenant),
            tier=tier,
            until_unix=until_unix,
            reason=reason[:500],
            by=caller.name,
            preview=preview,
            tenant=caller.tenant,
        )
        return self._plane.placements.run(call, caller=caller)

    def health(self) -> Health:
        """Whether the engine thread makes progress."""
        if self._loop is None:
            return NOT_STARTED
        return health_of(self._loop, self.snapshot(), now_s=self.clock.now_s(), stuck_after_s=self._stuck_after_s)

    def _live_loop(self) -> EngineLoop:
        health = self.health()
        if self._loop is None or not health.ok:
            message = f"The engine does not serve now: {health.reason}."
            raise NotReady(message)
        return self._loop
