"""Every command an operator gives: preview, call, the typed error shown, a way back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from nicegui import run

from console import format as fmt
from console.desk import Desk
from console.widgets.refusal import show_refusal
from engine import LoradeckError, NotReady, TenantId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.feed import Feed
    from console.widgets.toast import Toasts
    from engine import AdapterRow, ControlOutcome, Engine, Registration, Request, Tier, TokenStream, Verb

ANSWER_WITHIN_S: Final = 30.0
DONE_WORDS: Final = {"warm": "Warmed", "pin": "Pinned", "unpin": "Unpinned", "evict": "Evicted"}
GLYPHS: Final = {"warm": "warm", "pin": "pin", "unpin": "pin", "evict": "evict"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One control call on one adapter."""

    verb: Verb
    ref: str
    tenant: TenantId | None = None
    tier: Tier | None = None
    until_unix: float | None = None
    reason: str = ""


class Actions(Desk):
    """The only caller of the engine's commands in the console; one a page."""

    def __init__(self, engine: Engine, toasts: Toasts, feed: Feed) -> None:
        super().__init__(engine, toasts)
        self._feed = feed

    async def preview(self, command: Command) -> ControlOutcome:
        """What ``command`` would do. Raises LoradeckError where it would be refused."""
        return await self._control(command, preview=True)

    async def apply(self, commands: Sequence[Command]) -> bool:
        """Do them in order, stop at the first refusal and show it; what was done can be undone. True: all were done."""
        way_back: list[Command] = []
        outcomes: list[ControlOutcome] = []
        refused: LoradeckError | None = None
        for command in commands:
            before = self._feed.adapter(command.ref)
            try:
                outcomes.append(await self._control(command, preview=False))
            except LoradeckError as error:
                refused = error
                break
            way_back += inverse(command, before)
        self._feed.sample()
        if outcomes:
            self._tell(commands[0], outcomes, len(commands), way_back)
        if refused is not None:
            show_refusal(commands[0].verb, refused)
        return refused is None

    async def at_once(self, verb: Verb, refs: Sequence[str]) -> None:
        """A command without a dialog, on aliases; the toast takes it back."""
        await self.apply([self.command(verb, ref) for ref in refs])

    def command(self, verb: Verb, ref: str) -> Command:
        """``verb`` on the adapter ``ref`` names, for the tenant it belongs to."""
        row = self._feed.adapter(ref)
        return Command(verb=verb, ref=ref, tenant=row.tenant if row else None)

    async def register(self, source: str, *, alias: str, tenant: str, dry_run: bool, replace: bool) -> Registration:
        """Check a folder, or check and accept it. Raises LoradeckError with the field or tensor at fault."""
        answer = await self.ask(self.engine.register, source, alias=alias, tenant=TenantId(tenant), dry_run=dry_run, replace=replace)
        if not dry_run:
            self._feed.sample()
            self.toasts.show(f"Registered {alias} as {fmt.digest(answer.row.id)}", glyph="plus")
        return answer

    def submit(self, request: Request) -> TokenStream:
        """Send a request on the same road as HTTP. Raises LoradeckError at once where it is refused."""
        caller = self.caller
        caller.need("operator")
        reach: Literal["own", "all"] = "all" if caller.tenant is None else "own"
        return self.engine.submit(replace(request, tenant=caller.home, reach=reach))

    async def prompt_ids(self, prompt: str) -> tuple[int, ...]:
        """A user turn in the base's chat template, as tokens; made off the loop. Raises LoradeckError when the template objects."""
        ids: tuple[int, ...] | None = await run.io_bound(self._render, prompt)
        if ids is None:
            raise NotReady("The console is stopping; nothing was sent.")
        return ids

    def _render(self, prompt: str) -> tuple[int, ...]:
        rendered = self.engine.chat_template.render([{"role": "user", "content": prompt}])
        return tuple(self.engine.tokenizer.encode(rendered, add_special_tokens=False))

    @property
    def base_name(self) -> str:
        """What ``model`` may be when no adapter is wanted."""
        return self.engine.base_name

    async def _control(self, command: Command, *, preview: bool) -> ControlOutcome:
        future = self.engine.control(
            command.verb,
            command.ref,
            tenant=command.tenant,
            tier=command.tier,
            until_unix=command.until_unix,
            reason=command.reason,
            preview=preview,
            caller=self.caller,
        )
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), ANSWER_WITHIN_S)
        except TimeoutError:
            message = (
                f"The engine did not answer within {ANSWER_WITHIN_S:.0f} s; it may still do it. Look at Recent changes before trying again."
            )
            raise NotReady(message, code="engine_timeout") from None

    def _tell(self, first: Command, outcomes: list[ControlOutcome], asked: int, way_back: list[Command]) -> None:
        async def undo() -> None:
            await self.apply_quietly(way_back)

        self.toasts.show(done_words(first, outcomes, asked), glyph=GLYPHS[first.verb], undo=undo if way_back else None)

    async def apply_quietly(self, commands: Sequence[Command]) -> None:
        """Take something back; if the state moved on, say so."""
        try:
            for command in commands:
                await self._control(command, preview=False)
        except LoradeckError as error:
            self.toasts.show(f"Not undone: {error.message}", glyph="crit", level="crit")
        else:
            self.toasts.show("Undone", glyph="undo")
        self._feed.sample()


def done_words(first: Command, outcomes: Sequence[ControlOutcome], asked: int) -> str:
    """What a toast says was done."""
    done = len(outcomes)
    name = outcomes[0].adapter.alias if done == 1 else fmt.plural(done, "adapter")
    many = f"{name} of {asked}" if done < asked else name
    if first.verb == "evict" and outcomes[0].waiting_leases:
        return f"{many} leaves when {fmt.plural(sum(o.waiting_leases for o in outcomes), 'running request')} end"
    if first.verb == "pin":
        ends = "with no end" if first.until_unix is None else f"until {fmt.pin_end(first.until_unix, first.until_unix)}"
        return f"Pinned {many} {ends}"
    if first.verb == "warm":
        return f"Warming {many} to {first.tier or 'device'}"
    return f"{DONE_WORDS[first.verb]} {many}"


def inverse(command: Command, before: AdapterRow | None) -> list[Command]:
    """The commands that bring back the state ``before`` ``command``."""
    if before is None:
        return []
    here = Command(verb=command.verb, ref=command.ref, tenant=command.tenant)
    unpin = replace(here, verb="unpin")
    pin = replace(here, verb="pin", tier=before.pin_tier, until_unix=before.pin_until, reason=before.pin_reason or "undo")
    match command.verb:
        case "pin":
            return [pin if before.pinned else unpin]
        case "unpin":
            return [pin] if before.pinned else []
        case "warm":
            return [] if before.tier in {"device", "loading"} else [replace(here, verb="evict")]
        case "evict":
            return [replace(here, verb="warm", tier="device")] if before.tier == "device" else []
