"""The public door of the engine."""

from __future__ import annotations

from engine.process import prepare

prepare()

from engine.accounts import KeyRecord, TenantRecord, UsageRow, UserRecord
from engine.alias import AliasRecord
from engine.allowance import UNLIMITED, Allowance, Use
from engine.audit_record import AuditRecord
from engine.desired import Schedule, Trigger
from engine.registry.bases import BaseRow
from engine.report import Thresholds
from engine.versions.bases import Fate
from engine.versions.schedules import Wish
from engine.caller import LOCAL, SYSTEM, Caller, Role
from engine.clock import Clock, MonotonicClock
from engine.control import ControlOutcome, Verb, Victim
from engine.engine import Engine
from engine.errors import (
    AdapterNotFound,
    AdapterRefused,
    BaseRefused,
    Conflict,
    EngineFault,
    InvalidRequest,
    LoradeckError,
    ModelNotFound,
    NotFound,
    NotReady,
    Overloaded,
    PayloadTooLarge,
    SourceNotAllowed,
    TrainingRefused,
)
from engine.events import (
    AdapterEvicted,
    AdapterLoadFailed,
    AdapterLoaded,
    AdapterPinned,
    AdapterRegistered,
    AdapterRejected,
    AdapterUnpinned,
    AdapterUnregistered,
    EngineStateChanged,
    Event,
    EventPage,
    ProbeMismatch,
    RequestFailed,
    RequestPreempted,
)
from engine.fairness_view import OTHERS, DisplacementRow, FairnessSnapshot, ShareRow
from engine.gateway.sessions import Session
from engine.health import Health
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, AdapterId, RequestId, Residency, TenantId, Tier, WaitReason
from engine.intake.errors_csv import plain_cell
from engine.intake.importing import Import
from engine.intake.judged import Judged
from engine.intake.progress import DryRun, Progress
from engine.lanes.cold_warm import ColdWarm
from engine.lanes.results import (
    LANES,
    ColdWarmOptions,
    ColdWarmState,
    Difference,
    LaneName,
    LanePhase,
    LaneResult,
    LaneRun,
    PhaseKind,
    StartState,
)
from engine.operation import ItemRecord, ItemState, OperationRecord, OperationState
from engine.registered import Registration, ValidationReport
from engine.request import FinishReason, Request, RequestRecord, SamplingParams, TokenChunk, TokenLogprob
from engine.router import ModelCard
from engine.settings import Settings
from engine.snapshot import (
    EMPTY,
    AdapterRow,
    DeviceSnapshot,
    EngineSnapshot,
    EngineState,
    LoadPhase,
    LoadRecord,
    MemorySnapshot,
    RatesSnapshot,
    RequestsSnapshot,
    RunningRow,
    TenantRow,
    TotalsSnapshot,
    WaitingRow,
)
from engine.step_record import StepRecord, StepRow
from engine.stream import Target, TokenStream
from engine.tenants.keys import ShownKey
from engine.version import VersionRecord, VersionState
from engine.versions.moves import Bill
from engine.versions.names import MoveOutcome
from engine.versions.retirement import Departure
from engine.voices.shelf import Voice, demo_voices

__all__ = [
    "DEFAULT_TENANT",
    "EMPTY",
    "LANES",
    "LOCAL",
    "OTHERS",
    "SHARED_TENANT",
    "SYSTEM",
    "UNLIMITED",
    "AdapterEvicted",
    "AdapterId",
    "AdapterLoadFailed",
    "AdapterLoaded",
    "AdapterNotFound",
    "AdapterPinned",
    "AdapterRefused",
    "AdapterRegistered",
    "AdapterRejected",
    "AdapterRow",
    "AdapterUnpinned",
    "AdapterUnregistered",
    "AliasRecord",
    "Allowance",
    "AuditRecord",
    "BaseRefused",
    "BaseRow",
    "Bill",
    "Caller",
    "Clock",
    "ColdWarm",
    "ColdWarmOptions",
    "ColdWarmState",
    "Conflict",
    "ControlOutcome",
    "Departure",
    "DeviceSnapshot",
    "Difference",
    "DisplacementRow",
    "DryRun",
    "Engine",
    "EngineFault",
    "EngineSnapshot",
    "EngineState",
    "EngineStateChanged",
    "Event",
    "EventPage",
    "FairnessSnapshot",
    "Fate",
    "FinishReason",
    "Health",
    "Import",
    "InvalidRequest",
    "ItemRecord",
    "ItemState",
    "Judged",
    "KeyRecord",
    "LaneName",
    "LanePhase",
    "LaneResult",
    "LaneRun",
    "LoadPhase",
    "LoadRecord",
    "LoradeckError",
    "MemorySnapshot",
    "ModelCard",
    "ModelNotFound",
    "MonotonicClock",
    "MoveOutcome",
    "NotFound",
    "NotReady",
    "OperationRecord",
    "OperationState",
    "Overloaded",
    "PayloadTooLarge",
    "PhaseKind",
    "ProbeMismatch",
    "Progress",
    "RatesSnapshot",
    "Registration",
    "Request",
    "RequestFailed",
    "RequestId",
    "RequestPreempted",
    "RequestRecord",
    "RequestsSnapshot",
    "Residency",
    "Role",
    "RunningRow",
    "SamplingParams",
    "Schedule",
    "Session",
    "Settings",
    "ShareRow",
    "ShownKey",
    "SourceNotAllowed",
    "StartState",
    "StepRecord",
    "StepRow",
    "Target",
    "TenantId",
    "TenantRecord",
    "TenantRow",
    "Thresholds",
    "Tier",
    "TokenChunk",
    "TokenLogprob",
    "TokenStream",
    "TotalsSnapshot",
    "TrainingRefused",
    "Trigger",
    "UsageRow",
    "Use",
    "UserRecord",
    "ValidationReport",
    "Verb",
    "VersionRecord",
    "VersionState",
    "Victim",
    "Voice",
    "WaitReason",
    "WaitingRow",
    "Wish",
    "demo_voices",
    "plain_cell",
]
