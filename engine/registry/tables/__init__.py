"""The registry's tables. Times are unix seconds, money is text, and what has no columns of its own is JSON."""

from engine.registry.tables.adapters import AdapterTable, AliasMoveTable, AliasTable, BaseTable, VersionTable
from engine.registry.tables.log import AuditTable
from engine.registry.tables.metadata import core
from engine.registry.tables.tenants import AllowanceTable, KeyTable, TenantTable, UserTable
from engine.registry.tables.traffic import LoadTable, RequestTable, UsageTable
from engine.registry.tables.work import ItemTable, OperationTable, PinTable, PlacementTable, ScheduleTable

__all__ = [
    "AdapterTable",
    "AliasMoveTable",
    "AliasTable",
    "AllowanceTable",
    "AuditTable",
    "BaseTable",
    "ItemTable",
    "KeyTable",
    "LoadTable",
    "OperationTable",
    "PinTable",
    "PlacementTable",
    "RequestTable",
    "ScheduleTable",
    "TenantTable",
    "UsageTable",
    "UserTable",
    "VersionTable",
    "core",
]
