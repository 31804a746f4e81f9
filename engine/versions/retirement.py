"""A version's last steps, and back: retired, archived, restored. Blocks on disk: call it in a thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.adapters.image import AdapterImage
from engine.caller import SYSTEM
from engine.errors import AdapterRefused, Conflict
from engine.full_disk import unwritable
from engine.registry import aliases, audit, reports, tenants, versions
from engine.registry.alias_words import alias_facts, alias_subject
from engine.versions.archived import archive_of, keep, parts_of
from engine.versions.canaries import without_canary
from engine.versions.facts import title, version_subject

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.adapters.archive import Archive
    from engine.alias import AliasRecord
    from engine.caller import Caller
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.version import VersionRecord, VersionState
    from engine.versions.find import Finder


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What retiring, archiving or restoring did, or with ``preview`` would do."""

    version: VersionRecord
    preview: bool
    message: str
    aliases: tuple[str, ...] = ()
    """Names that go with it."""
    leases: int = 0
    """Requests that still use it."""
    drain_eta_s: float | None = None
    """Until the last of them ends at the latest, by what steps took; None when nothing ran yet."""
    bytes: int = 0


class Retirement:
    """Versions go in order: no new requests, the last request ends, device, host; the image stays on disk until it is archived."""

    def __init__(self, host: ModelHost, finder: Finder, archive: Archive) -> None:
        self._host = host
        self._find = finder
        self._archive = archive

    def retire(
        self,
        ref: str,
        *,
        tenant: TenantId | None = None,
        why: str = "",
        preview: bool = False,
        caller: Caller = SYSTEM,
        undo_of: int | None = None,
    ) -> Departure:
        """No new requests from now on, and no name; those in flight end well. Raises Forbidden, AdapterNotFound or Conflict."""
        record = self._asked(ref, tenant, caller, "retire", ("ready",))
        named = self._named(record)
        if not preview:
            self._retire(record, named, why=why, caller=caller, undo_of=undo_of)
        names = tuple(alias.name for alias in named)
        leases, eta_s = self._host.call(lambda: self._host.lifecycle.drain(record.id))
        gone = f" with {', '.join(names)}" if names else ""
        wait = f"; {leases} requests end first" if leases else ""
        message = f"{'Would retire' if preview else 'Retired'} {title(record)}{gone}{wait}."
        return Departure(
            version=self._now(record), preview=preview, message=message, aliases=names, leases=leases, drain_eta_s=eta_s, bytes=record.bytes
        )

    def archive(
        self, ref: str, *, tenant: TenantId | None = None, why: str = "", preview: bool = False, caller: Caller = SYSTEM
    ) -> Departure:
        """Move a retired version's image and record into the archive, each proven by its digest."""
        record = self._asked(ref, tenant, caller, "archive", ("retired",))
        leases, _ = self._host.call(lambda: self._host.lifecycle.drain(record.id))
        if leases and not self._is_ready_elsewhere(record):
            message = f"{leases} requests still use {title(record)}; archive it once they have ended."
            raise Conflict(message, code="draining", param="ref", expected=0, found=leases)
        if preview:
            return Departure(version=record, preview=True, message=f"Would archive {title(record)}.", bytes=record.bytes)
        with self._archive.changing:
            facts = self._host.catalog.store.read(lambda session: reports.facts(session, record.key))
            digest = self._keep(record, facts)
            self._change(record, "archived", "version.archive", archive=digest, why=why, caller=caller)
            if facts["archive"] not in {None, digest}:  # of the time before it was restored
                self._archive.drop(facts["archive"])
        if not self._is_on_disk_for_another(record):
            self._host.residency.disk.delete(record.id)
        return Departure(
            version=self._now(record), preview=False, message=f"Archived {title(record)} as {digest[:16]}.", bytes=record.bytes
        )

    def restore(
        self,
        ref: str,
        *,
        tenant: TenantId | None = None,
        why: str = "",
        preview: bool = False,
        caller: Caller = SYSTEM,
        undo_of: int | None = None,
    ) -> Departure:
        """A retired or archived version is ready again, its image proven; names are moved to it by hand."""
        record = self._asked(ref, tenant, caller, "restore", ("retired", "archived"))
        served = self._host.parts.spec.digest
        if record.base_digest != served:
            message = f"{title(record)} was registered for another base than the one served."
            raise Conflict(message, code="base_mismatch", param="ref", expected=served, found=record.base_digest)
        archive = archive_of(self._host, record, "restored") if record.state == "archived" else None
        if preview:
            return Departure(version=record, preview=True, message=f"Would restore {title(record)}.", bytes=record.bytes)
        self._host.call(lambda: self._host.lifecycle.adopt(record))
        try:
            self._bring_image(record, archive)
            self._change(record, "ready", "version.restore", why=why, caller=caller, undo_of=undo_of)
        finally:
            self._host.call(lambda: self._host.lifecycle.let_go(record.id))
        return Departure(version=self._now(record), preview=False, message=f"{title(record)} is ready again.", bytes=record.bytes)

    def _retire(self, record: VersionRecord, named: list[AliasRecord], *, why: str, caller: Caller, undo_of: int | None) -> None:
        catalog = self._host.catalog

        tried = [alias for alias in tuple(catalog.aliases.values()) if alias.canary_version == record.key and alias not in named]

        def work(session: Session) -> list[AliasRecord]:
            for alias in named:
                aliases.drop(session, alias.alias, by=caller.name, why=why)
                facts = {"before": alias_facts(alias), "why": why, "undo_of": undo_of}
                audit.append(session, caller, "alias.drop", alias_subject(alias.alias), **facts)  # type: ignore[arg-type]
            stable = [
                without_canary(session, alias, catalog.records[alias.version], caller=caller, why=why, undo_of=undo_of) for alias in tried
            ]
            versions.set_state(session, [record.key], "retired", note=why)
            shares = {alias.name: alias.canary_share for alias in tried}
            before: dict[str, Any] = {"state": record.state, "aliases": [alias.name for alias in named], "canaries": shares}
            before["splits"] = {alias.name: _split(alias) for alias in named if alias.canary is not None}
            facts = {"before": before, "after": {"state": "retired"}, "why": why, "undo_of": undo_of}
            audit.append(session, caller, "version.retire", version_subject(record), **facts)  # type: ignore[arg-type]
            return stable

        def then(stable: list[AliasRecord]) -> None:
            for alias in named:
                catalog.forget_alias(alias.alias)
            for alias in stable:
                catalog.put_alias(alias)
            catalog.put(replace(record, state="retired"))

        stable = catalog.store.write(work, then=then)
        for before, now in zip(tried, stable, strict=True):
            self._host.call(lambda before=before, now=now: self._host.lifecycle.point(before, now))  # type: ignore[misc]
        for alias in named:
            self._host.call(lambda alias=alias: self._host.lifecycle.unname(alias))  # type: ignore[misc]
        self._host.call(lambda: self._host.lifecycle.settle(record.id))

    def _change(
        self,
        record: VersionRecord,
        state: VersionState,
        action: str,
        *,
        why: str,
        caller: Caller,
        archive: str | None = None,
        undo_of: int | None = None,
    ) -> None:
        def work(session: Session) -> None:
            if state == "ready":
                tenants.ensure(session, record.tenant, by=caller.name)
            versions.set_state(session, [record.key], state, note=why)
            after: dict[str, Any] = {"state": state}
            if archive is not None:
                reports.set_archive(session, record.key, archive)
                after["archive"] = archive
            audit.append(
                session, caller, action, version_subject(record), before={"state": record.state}, after=after, why=why, undo_of=undo_of
            )

        catalog = self._host.catalog
        catalog.store.write(work, then=lambda _: catalog.put(replace(record, state=state)))

    def _keep(self, record: VersionRecord, facts: dict[str, Any]) -> str:
        """The digest of its archive, written and read back."""
        try:
            return keep(self._archive, self._host.residency.disk.path(record.id), facts)
        except OSError as error:
            raise unwritable("The archive", error, code="archive_unavailable") from error

    def _bring_image(self, record: VersionRecord, archive: str | None) -> None:
        """Its image lies on disk, proven, out of the archive where it has one. Raises AdapterRefused or RegistryUnavailable."""
        path = self._host.residency.disk.path(record.id)
        if archive is not None:
            image = parts_of(self._archive, archive, content=record.digest)
            try:
                if not path.exists():
                    self._archive.fetch(image, path)
                if AdapterImage.open(path).id != record.id:  # archived before ids told owners apart
                    AdapterImage.copy(path, path, adapter=record.id)
            except OSError as error:
                raise unwritable(f"The image of {title(record)}", error) from error
        try:
            found = AdapterImage.open(path)
            pages = memoryview(bytearray(found.pages_bytes))
            found.read_into(pages)
            found.verify(pages)
        except OSError as error:
            message = f"The image of {title(record)} cannot be read: {error.strerror}. Register the adapter from its source."
            raise AdapterRefused(message, code="image_unreadable", param="ref") from error

    def _named(self, record: VersionRecord) -> list[AliasRecord]:
        """The aliases that lead to this version; those that only try it go on without."""
        return [alias for alias in tuple(self._host.catalog.aliases.values()) if alias.version == record.key]

    def _others(self, record: VersionRecord) -> list[VersionRecord]:
        catalog = self._host.catalog
        return [catalog.records[key] for key in tuple(catalog.holders.get(record.id, ())) if key != record.key]

    def _is_ready_elsewhere(self, record: VersionRecord) -> bool:
        return any(other.state == "ready" for other in self._others(record))

    def _is_on_disk_for_another(self, record: VersionRecord) -> bool:
        return any(other.state != "archived" for other in self._others(record))

    def _asked(self, ref: str, tenant: TenantId | None, caller: Caller, verb: str, states: tuple[VersionState, ...]) -> VersionRecord:
        """What the caller may change, in a state for it. Raises Forbidden, AdapterNotFound or Conflict."""
        caller.need("operator")
        record = self._find.version(ref, caller.tenant or tenant)
        if record.state not in states:
            message = f"{title(record)} is {record.state}; only what is {' or '.join(states)} can be {verb}d."
            raise Conflict(message, code=f"version_{record.state}", param="ref", expected=list(states), found=record.state)
        return record

    def _now(self, record: VersionRecord) -> VersionRecord:
        return self._host.catalog.records[record.key]


def _split(alias: AliasRecord) -> dict[str, Any]:
    return {"canary_version": alias.canary_version, "canary_share": alias.canary_share}
