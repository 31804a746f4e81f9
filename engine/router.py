"""From a name to what serves it. Any thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import AdapterNotFound, ModelNotFound
from engine.gateway.scope import narrow_row, narrow_rows
from engine.ids import SHARED_TENANT, AdapterId
from engine.stream import Target
from engine.versions.split import Split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.alias import AliasName
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.request import Request
    from engine.snapshot import AdapterRow
    from engine.version import VersionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One name that ``model`` may be."""

    id: str
    parent: str | None
    root: str
    created_unix: int
    adapter: AdapterId | None = None
    tier: str | None = None
    pinned: bool = False
    bytes: int = 0


class Router:
    """Reads the catalog: what is another tenant's does not exist."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._splits: dict[AliasName, Split] = {}

    def resolve(self, model: str, tenant: TenantId | None) -> Target:
        """What a name means now: the base, an alias or a version id, to the letter. Raises ModelNotFound.

        What is another tenant's is looked up as what does not exist is, and refused in the same words.
        """
        catalog = self._host.catalog
        if model == self._host.base_name:
            return Target(name=model)
        alias = catalog.resolve(model, tenant)
        if alias is not None and alias.adapter in catalog.versions:
            return Target(name=model, adapter=alias.adapter, alias=model)
        adapter = AdapterId(model)
        if catalog.holds(adapter, None if tenant is None else {tenant, SHARED_TENANT}):
            return Target(name=model, adapter=adapter)
        raise unknown_model(model)

    def canary(self, target: Target, request: Request) -> Target:
        """Where a request for ``target`` is served: a canary gets its share of an alias's requests. Each call counts as one."""
        alias = None if target.alias is None else self._host.catalog.resolve(target.alias, request.scope)
        if alias is None or alias.canary is None or alias.canary not in self._host.catalog.versions:
            return target
        entry = self._host.residency.entries.get(alias.canary)
        if entry is None or entry.quarantined:
            return target
        known = self._splits.get(alias.alias)
        if known is None or (known.canary, known.share) != (alias.canary, alias.canary_share):
            self._splits = {name: split for name, split in self._splits.items() if self._tries(name, split)}
            known = self._splits[alias.alias] = Split(canary=alias.canary, share=alias.canary_share)
        return replace(target, adapter=alias.canary, stable=target.adapter) if known.takes() else target

    def _tries(self, name: AliasName, split: Split) -> bool:
        alias = self._host.catalog.aliases.get(name)
        return alias is not None and alias.canary == split.canary

    def row(self, ref: str, tenant: TenantId | None) -> AdapterRow:
        """What the latest snapshot says of what an alias or a version id names, also of one that leaves. Raises AdapterNotFound."""
        rows = narrow_rows(self._host.publisher.snapshot.adapters, tenant)
        alias = self._host.catalog.resolve(ref, tenant)
        adapter = AdapterId(ref) if alias is None else alias.adapter
        row = next((row for row in rows if row.id == adapter), None)
        if row is None:
            raise AdapterNotFound("No adapter of this name is registered.", param="ref", found=ref)
        return row

    def row_now(self, ref: str, tenant: TenantId | None) -> AdapterRow | None:
        """The same with nothing left out that happened since; None where it leaves. Engine thread. Raises ModelNotFound."""
        adapter = self.resolve(ref, tenant).adapter
        entry = None if adapter is None else self._host.residency.entries.get(adapter)
        return None if entry is None else narrow_row(self._host.observer.row(entry), tenant)

    def owned(self, ref: str, tenant: TenantId | None) -> AdapterId:
        """The version of ``tenant`` (None: of any) that an alias or a version id names. Raises AdapterNotFound."""
        catalog = self._host.catalog
        alias = catalog.owned(ref, tenant)
        adapter = AdapterId(ref) if alias is None else alias.adapter
        if not catalog.holds(adapter, None if tenant is None else {tenant}):
            message = f"No adapter {ref[:80]!r} is registered."
            raise AdapterNotFound(message, param="ref", found=ref[:80])
        return adapter

    def owned_alias(self, alias: str, tenant: TenantId | None) -> AliasName:
        """The alias of ``tenant`` (None: of any) that has this name. Raises ModelNotFound."""
        named = self._host.catalog.owned(alias, tenant)
        if named is None:
            raise unknown_model(alias)
        return named.alias

    def models(self, tenant: TenantId | None) -> Iterator[ModelCard]:
        """The base, then every alias that ``tenant`` may call."""
        catalog = self._host.catalog
        rows = {row.id: row for row in narrow_rows(self._host.publisher.snapshot.adapters, tenant)}
        yield self._base()
        for alias in tuple(catalog.aliases.values()):
            record = catalog.records.get(alias.version)
            if record is None or alias.adapter not in catalog.versions:
                continue
            if tenant in {None, alias.tenant} or alias.tenant == SHARED_TENANT:
                yield self._card(alias.name, record, rows.get(alias.adapter), tenant)

    def card(self, target: Target, tenant: TenantId | None) -> ModelCard:
        """What ``models`` says of one name, or of a version id that the tenant may call."""
        catalog = self._host.catalog
        if target.adapter is None:
            return self._base()
        alias = catalog.resolve(target.name, tenant) if target.alias is not None else None
        record = catalog.versions.get(target.adapter) if alias is None else catalog.records.get(alias.version)
        if record is None or (tenant is not None and record.tenant not in {tenant, SHARED_TENANT}):
            raise unknown_model(target.name)
        rows = narrow_rows((row for row in self._host.publisher.snapshot.adapters if row.id == target.adapter), tenant)
        return self._card(target.name, record, next(iter(rows), None), tenant)

    def _base(self) -> ModelCard:
        host = self._host
        return ModelCard(id=host.base_name, parent=None, root=host.parts.base_root, created_unix=int(host.observer.started_unix))

    def _card(self, name: str, record: VersionRecord, row: AdapterRow | None, tenant: TenantId | None) -> ModelCard:
        return ModelCard(
            id=name,
            parent=self._host.base_name,
            root=record.source if tenant in {None, record.tenant} else name,
            created_unix=int(record.registered_unix),
            adapter=record.id,
            tier=row.tier if row else "disk",
            pinned=row.pinned if row else False,
            bytes=record.bytes,
        )


def unknown_model(model: str) -> ModelNotFound:
    """One refusal for what does not exist and for what is not the caller's."""
    return ModelNotFound(f"The model {model[:80]!r} does not exist.", param="model", found=model[:80])
