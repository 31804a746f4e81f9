"""From what a caller writes to the alias or version meant; what is another tenant's does not exist. Any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alias import AliasName
from engine.errors import AdapterNotFound
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, AdapterId

if TYPE_CHECKING:
    from engine.alias import AliasRecord
    from engine.ids import TenantId
    from engine.registry.catalog import Catalog
    from engine.version import VersionRecord


class Finder:
    """``tenant`` None is whoever sees all of them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def alias(self, name: str, tenant: TenantId | None) -> AliasRecord:
        """Raises AdapterNotFound."""
        found = self._catalog.owned(name, tenant)
        if found is None:
            raise missing(name)
        return found

    def version(self, ref: str, tenant: TenantId | None) -> VersionRecord:
        """By alias, version id or ``line@number``, in any state but without weights. Raises AdapterNotFound."""
        alias = self._catalog.owned(ref, tenant)
        if alias is not None:
            return self._catalog.records[alias.version]
        held = [self._catalog.records[key] for key in sorted(self._catalog.holders.get(AdapterId(ref), ()))]
        owned = [record for record in held if tenant in {None, record.tenant}]
        if owned:
            return max(owned, key=lambda record: (record.state == "ready", -record.key))
        line, _, number = ref.rpartition("@")
        found = self.of_line(line, tenant).get(int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None  # noqa: PLR2004
        if found is None:
            raise missing(ref)
        return found

    def target(self, ref: str, alias: AliasRecord, tenant: TenantId | None) -> VersionRecord:
        """What an alias is to name: a number is a version of the line that it names now."""
        if ref.isascii() and ref.isdigit():
            current = self._catalog.records[alias.version]
            ref = f"{current.line}@{ref}"
        return self.version(ref, alias.tenant if tenant is None else tenant)

    def of_line(self, line: str, tenant: TenantId | None) -> dict[int, VersionRecord]:
        """Versions with weights of an adapter, by number; empty when there is none."""
        lines = self._catalog.lines
        for owner in (DEFAULT_TENANT, SHARED_TENANT) if tenant is None else (tenant,):
            if AliasName(owner, line) in lines:
                return lines[AliasName(owner, line)]
        if tenant is None:
            return next((found for name, found in tuple(lines.items()) if name.name == line), {})
        return {}


def missing(ref: str) -> AdapterNotFound:
    """The same words for what does not exist and for what is another tenant's."""
    return AdapterNotFound(f"No adapter {ref[:80]!r} is registered.", param="ref", found=ref[:80])
