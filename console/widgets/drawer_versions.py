"""The versions of one adapter and the names that lead to them: move, canary, promote, roll back, retire, archive, restore."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from nicegui import background_tasks

from console import format as fmt
from console.views import STATE_GLYPHS
from console.widgets.delete_archive import delete_archive
from console.widgets.depart_dialog import depart_dialog
from console.widgets.drawer_loading import loading, unanswered
from console.widgets.elements import box, button, enable, icon, say, text
from console.widgets.move_dialog import Wish, bill_words, move_dialog
from console.widgets.refusal import show_refusal
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicegui.element import Element

    from console.adapter_view import AdapterView
    from console.stored import StoredVersion
    from console.subject import Subject
    from console.version_actions import DepartVerb
    from console.widgets.elements import Text
    from engine import AliasRecord, Role

VERBS: Final[dict[str, tuple[DepartVerb, ...]]] = {"ready": ("retire",), "retired": ("restore", "archive"), "archived": ("restore",)}
"""A version's next steps by its state."""


class VersionsTab:
    """Belongs to an open drawer; asks again after each change."""

    def __init__(self, subject: Subject, view: AdapterView) -> None:
        self._subject, self._view, self._actions = subject, view, view.versions
        self._body = box("tab-body")
        self._why_not = partial(self._actions.why_not, "operator")
        loading(self._body, self.load)

    async def load(self) -> None:
        """Ask where the names lead and what there is."""
        try:
            versions = await self._actions.line(self._subject.ref, self._subject.tenant)
            aliases = self._actions.aliases(self._subject.tenant, self._subject.aliases)
        except LoradeckError as error:
            unanswered(self._body, error, self.load)
            return
        self._body.clear()
        with self._body:
            for alias in aliases:
                self._name(alias, versions)
            self._list(aliases, versions)

    def _again(self) -> None:
        background_tasks.create(self.load(), context=self._body)
        self._view.load_stored()

    # A name and where it leads

    def _name(self, alias: AliasRecord, versions: Sequence[StoredVersion]) -> None:
        named = next((version for version in versions if version.key == alias.version), None)
        canary = next((version for version in versions if version.key == alias.canary_version), None)
        with box("alias-card"):
            with box("alias-line"):
                text(alias.name, "name ellipsis")
                icon("arrow", "muted")
                text(str(named.number) if named else fmt.DASH, "vnum")
                text(fmt.digest(alias.adapter), "code")
                box("gap")
                text(f"since {fmt.moment(alias.moved_unix, time.time())}", "faint").props["title"] = fmt.utc(alias.moved_unix)
            if canary is not None:
                self._canary(alias, canary, versions)
            with box("alias-line"):
                hint = text("", "faint hint")
                back = button("Roll back", glyph="undo", small=True)
            enable(back, enabled=False, why_not="Asking what it would cost")
            back.on("click", partial(self._roll_back, alias, back), args=[])
            background_tasks.create(self._price(alias, back, hint), context=self._body)

    async def _price(self, alias: AliasRecord, back: Element, hint: Text) -> None:
        """Say under the name what a roll back would do, before it is pressed."""
        why_not = self._why_not("Roll back")
        if why_not:
            enable(back, enabled=False, why_not=why_not)
            return
        try:
            outcome = await self._actions.move("rollback", alias, preview=True)
        except LoradeckError as error:
            enable(back, enabled=False, why_not=error.message)
            say(hint, error.message)
        else:
            enable(back, enabled=True)
            say(hint, f"To version {outcome.after.number}. {bill_words(outcome.bill)}")

    async def _roll_back(self, alias: AliasRecord, back: Element) -> None:
        enable(back, enabled=False, why_not="Rolling back")
        try:
            await self._actions.move("rollback", alias)
        except LoradeckError as error:
            show_refusal("rollback", error)
        self._again()

    def _canary(self, alias: AliasRecord, canary: StoredVersion, versions: Sequence[StoredVersion]) -> None:
        with box("alias-line canary"):
            icon("canary", "violet")
            text(f"{fmt.percent(alias.canary_share, 0)} %", "value")
            text("of its requests to", "muted")
            text(str(canary.number), "vnum")
            box("gap")
            self._deed("Promote…", lambda: self._move(Wish(verb="promote", aliases=[alias], version=canary, versions=versions)))
            self._deed("End canary", partial(self._end_canary, alias))

    async def _end_canary(self, alias: AliasRecord) -> None:
        try:
            await self._actions.move("canary", alias, str(alias.canary_version), share=0.0)
        except LoradeckError as error:
            show_refusal("canary", error)
        self._again()

    # What there is

    def _list(self, aliases: Sequence[AliasRecord], versions: Sequence[StoredVersion]) -> None:
        named = {alias.version for alias in aliases}
        canaries = {alias.canary_version for alias in aliases}
        with box("version-list").props('role=list aria-label="Versions"'):
            for version in versions:
                with box("version on" if version.key in named else "version").props("role=listitem"):
                    self._facts(version, is_named=version.key in named, is_canary=version.key in canaries)
                    self._deeds(version, aliases, versions, is_named=version.key in named)

    def _facts(self, version: StoredVersion, *, is_named: bool, is_canary: bool) -> None:
        with box("version-line"):
            text(str(version.number), "vnum")
            text(fmt.digest(version.content) if version.content else "not read", "code").props["title"] = version.content or ""
            with box("status"):
                icon(*STATE_GLYPHS[version.state])
                text(version.state)
            if is_named:
                text("named", "tag outlined")
            if is_canary:
                text("canary", "tag outlined")
            box("gap")
            score = f"{fmt.percent(version.score)} %" if version.score is not None else "no score"
            text(score, "value" if version.score is not None else "faint").props["title"] = version.metric or "From its training record"

    def _deeds(self, version: StoredVersion, aliases: Sequence[AliasRecord], versions: Sequence[StoredVersion], *, is_named: bool) -> None:
        with box("version-line second"):
            when = text(f"{fmt.moment(version.registered_unix, time.time())}, {version.registered_by}", "faint ellipsis")
            when.props["title"] = f"Registered {fmt.clock_day(version.registered_unix)} by {version.registered_by}"
            box("gap")
            if version.state == "rejected":
                self._deed("Why…", partial(self._why, version), role="viewer")
            if version.state == "ready" and aliases and not is_named:
                self._deed("Move here…", lambda: self._move(Wish(verb="move", aliases=aliases, version=version, versions=versions)))
                self._deed("Canary…", lambda: self._move(Wish(verb="canary", aliases=aliases, version=version, versions=versions)))
            if version.is_gone:
                text("cannot be restored", "faint").props["title"] = version.reason
                return
            for verb in VERBS.get(version.state, ()):
                self._deed(f"{verb.capitalize()}…", partial(depart_dialog, verb, version, self._actions, self._again))
            if version.state == "archived":
                self._deed("Delete archive…", partial(delete_archive, version, self._actions, self._again), role="admin")

    def _deed(self, label: str, on_click: Callable[[], object], *, role: Role = "operator") -> None:
        """A link that does something for those who have the role."""
        with box("link", "button").props("type=button") as link:
            text(label)
        link.on("click", on_click, args=[])
        why_not = self._actions.why_not(role, label.removesuffix("…"))
        enable(link, not why_not, why_not)

    def _move(self, wish: Wish) -> None:
        move_dialog(wish, self._actions, self._again)

    def _why(self, version: StoredVersion) -> None:
        self._view.change(open=version.place.text, tab="validation")
