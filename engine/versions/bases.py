"""Bases seen here, and what another one would mean for what is registered. Blocks on disk: call it in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.caller import SYSTEM
from engine.intake.upgrade import read_base
from engine.registry import bases

if TYPE_CHECKING:
    from engine.alias import AliasRecord
    from engine.caller import Caller
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.models.spec import ModelSpec
    from engine.registry.bases import BaseRow
    from engine.version import VersionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of one name under another base."""

    alias: str
    tenant: TenantId
    version: VersionRecord
    fits: bool
    """Whether every module that it changes has the same shape there."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePreview:
    """Another base, and what would stop serving."""

    digest: str
    name: str
    is_served: bool
    stops: tuple[Fate, ...]


class Bases:
    """What is registered, seen from the base."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host

    @property
    def served(self) -> str:
        """The digest of the base that serves."""
        return self._host.parts.spec.digest

    def every(self, *, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> list[BaseRow]:
        """All bases that ever served here, with how many versions are ready for each."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        return self._host.catalog.store.read(lambda session: bases.every(session, scope))

    def preview(self, folder: str, *, caller: Caller = SYSTEM) -> BasePreview:
        """What would stop serving if the engine were started with the base in ``folder``. Raises SourceNotAllowed or BaseRefused."""
        caller.need("operator")
        spec = read_base(folder, self._host.parts.settings)
        is_served = spec.digest == self.served
        stops = [] if is_served else [self._fate(alias, spec) for alias in self._serving(caller)]
        return BasePreview(digest=spec.digest, name=spec.name, is_served=is_served, stops=tuple(stops))

    def stranded(self, *, caller: Caller = SYSTEM) -> list[Fate]:
        """Names that lead to a version of another base than the one that serves."""
        caller.need("viewer")
        return [self._fate(alias, self._host.parts.spec) for alias in self._stranded(caller)]

    def _serving(self, caller: Caller) -> list[AliasRecord]:
        catalog = self._host.catalog
        return [alias for alias in tuple(catalog.aliases.values()) if caller.sees(alias.tenant) and alias.adapter in catalog.versions]

    def _stranded(self, caller: Caller) -> list[AliasRecord]:
        catalog = self._host.catalog
        return [
            alias
            for alias in tuple(catalog.aliases.values())
            if caller.sees(alias.tenant) and catalog.records[alias.version].base_digest != self.served
        ]

    def _fate(self, alias: AliasRecord, spec: ModelSpec) -> Fate:
        record, served = self._host.catalog.records[alias.version], self._host.parts.spec
        if spec is served:
            other = [module for module in record.modules if module not in spec.module_dims]
            return Fate(
                alias=alias.name,
                tenant=alias.tenant,
                version=record,
                fits=not other,
                reason=f"registered for {record.base_digest[:16]}, and {spec.digest[:16]} serves",
            )
        other = [module for module in record.modules if served.module_dims[module] != spec.module_dims.get(module)]
        fits = not other and served.num_layers == spec.num_layers
        reason = "same shapes: register it again" if fits else f"other shapes: {', '.join(other) or f'{spec.num_layers} layers'}"
        return Fate(alias=alias.name, tenant=alias.tenant, version=record, fits=fits, reason=reason)
