"""From settings to a model host that is ready to run: load the base, divide the memory, make the parts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

from engine.adapters.eviction import EvictionPolicy
from engine.adapters.identity import unowned_id
from engine.adapters.loader import Loader
from engine.adapters.loads import LoadPipeline
from engine.adapters.residency import AdapterResidency
from engine.adapters.table import AdapterTable, TableDims
from engine.adapters.tiers import DiskTier
from engine.budget import SCRATCH_PAGES, choose_device, device_name, divide, serving_dtype
from engine.cache.prefix import PrefixCache
from engine.caller import SYSTEM
from engine.errors import BaseRefused
from engine.memory.arena import Arena
from engine.memory.layout import page_layout
from engine.memory.pages import PagePool
from engine.memory.reclaim import Floors, Reclaimer
from engine.model_host import HostParts, ModelHost
from engine.models.config import read_spec
from engine.models.decoder import DecoderModel
from engine.names import check_base_name
from engine.registry import bases
from engine.registry.catalog import Catalog
from engine.registry.journal import import_journal
from engine.registry.store import Store
from engine.runner.graphs import DecodeGraphs
from engine.runner.runner import Runner
from engine.scheduler.budget import Limits
from engine.scheduler.scheduler import Scheduler
from engine.snapshot import DeviceSnapshot
from engine.telemetry.publisher import Publisher
from engine.tokenizing.chat_template import ChatTemplate
from engine.tokenizing.tokenizer import Tokenizer
from engine.weights.checkpoint import checkpoint_files, stream_checkpoint
from engine.weights.digest import base_digest
from engine.weights.fill import fill
from engine.weights.gguf_import import demo_base
from kernels.cpu_loop import compile_loops

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.clock import Clock
    from engine.memory.layout import PageLayout
    from engine.models.spec import ModelSpec
    from engine.settings import Settings

    Progress = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A loaded base, before it has an arena."""

    folder: Path
    spec: ModelSpec
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    model: DecoderModel
    context_tokens: int


def open_host(settings: Settings, *, clock: Clock, progress: Progress) -> ModelHost:
    """Load what the settings name; minutes for the first start of the demo base, seconds later. Raises BaseRefused."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    base = open_base(settings, progress)
    if base.model.device.type == "cpu":
        progress("Preparing the kernels", None)
        compile_loops()
    host = ModelHost(make_parts(settings, clock, base))
    connect(host)
    return host


def open_base(settings: Settings, progress: Progress, *, trains: bool = False) -> Base:
    """Read, check and load the base, for passes with gradients where it ``trains``. Raises BaseRefused by file, field or tensor."""
    device = choose_device(settings)
    folder = base_folder(settings, progress)
    spec = read_spec(folder)
    progress("Checking the base's weights", None)
    spec = dataclasses.replace(spec, digest=base_digest(folder, spec, data=settings.data))
    tokenizer = Tokenizer.load(folder)
    chat_template = ChatTemplate.load(folder, tokenizer)
    weights = fill(
        spec,
        stream_checkpoint(folder),
        device=device,
        dtype=serving_dtype(device),
        cpu_weights="plain" if trains else settings.cpu_weights,
        progress=lambda share: progress("Loading the base", share),
    )
    context = min(settings.max_context or spec.max_position, spec.max_position)
    model = DecoderModel(spec, weights, max_position=context)
    return Base(folder=folder, spec=spec, tokenizer=tokenizer, chat_template=chat_template, model=model, context_tokens=context)


def base_folder(settings: Settings, progress: Progress) -> Path:
    """The base's folder; the demo's is made at the first start."""
    if settings.base == "demo":
        return demo_base(settings.data, lambda share: progress("Preparing the demo base", share))
    folder = Path(settings.base).expanduser()
    if not folder.is_dir():
        message = f"There is no base folder {settings.base}; name a Hugging Face folder, or 'demo'."
        raise BaseRefused(message, code="base_missing", param="base", found=settings.base)
    return folder


def make_parts(settings: Settings, clock: Clock, base: Base) -> HostParts:
    """Everything but the wires between residency and its listener."""
    spec, model = base.spec, base.model
    layout = layout_of(spec, model)
    budget = divide(settings, spec, layout, base_bytes=model.nbytes, device=model.device)
    scratch_pages = list(range(budget.num_pages, budget.num_pages + SCRATCH_PAGES))
    arena = Arena(layout, num_pages=budget.num_pages + SCRATCH_PAGES, dtype=model.dtype, device=model.device)
    pool = PagePool(budget.num_pages)
    prefix = PrefixCache(pool, page_tokens=layout.page_tokens)
    policy = EvictionPolicy(settings.eviction)
    limits = step_limits(settings, layout.page_tokens)
    disk = DiskTier(settings.data / "adapters" / spec.digest[:16], pin_memory=model.device.type == "cuda")
    residency = make_residency(settings, spec, arena, pool, disk, clock=clock)
    floors = Floors(kv=int(settings.kv_floor * budget.num_pages), adapter=int(settings.adapter_floor * budget.num_pages))
    reclaimer = Reclaimer(pool=pool, prefix=prefix, adapters=residency, policy=policy, floors=floors, reserve=residency.reserve)
    runner = Runner(model, arena, residency.table, slot_of=residency.slot)
    if model.device.type == "cuda":
        runner.graphs = DecodeGraphs(model, arena, max_sequences=settings.max_sequences, scratch_page=scratch_pages[0])
    return HostParts(
        settings=settings,
        clock=clock,
        spec=spec,
        base_root=str(base.folder),
        budget=budget,
        device=device_snapshot(base, layout.page_tokens),
        tokenizer=base.tokenizer,
        chat_template=base.chat_template,
        arena=arena,
        pool=pool,
        prefix=prefix,
        residency=residency,
        reclaimer=reclaimer,
        policy=policy,
        scheduler=Scheduler(pool=pool, prefix=prefix, reclaimer=reclaimer, gate=residency, limits=limits, fairness=settings.fairness),
        runner=runner,
        publisher=Publisher(clock),
        catalog=Catalog(Store(settings.database_url), base_digest=spec.digest),
        context_tokens=base.context_tokens,
        scratch_pages=scratch_pages,
    )


def layout_of(spec: ModelSpec, model: DecoderModel) -> PageLayout:
    """The base's page."""
    return page_layout(
        num_layers=spec.num_layers,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        itemsize=model.dtype.itemsize,
        widest=max(max(dims) for dims in spec.module_dims.values()),
    )


def make_residency(settings: Settings, spec: ModelSpec, arena: Arena, pool: PagePool, disk: DiskTier, *, clock: Clock) -> AdapterResidency:
    """Tiers and slots; one slot more than run together, for the probe."""
    dims = tuple(spec.module_dims.values())
    table_dims = TableDims(
        num_layers=spec.num_layers,
        max_rank=settings.max_rank,
        page_elems=arena.layout.page_elems,
        in_features=tuple(width for width, _ in dims),
        out_features=tuple(width for _, width in dims),
    )
    table = AdapterTable(table_dims, num_slots=settings.max_step_adapters + 1, device=arena.flat.device)
    return AdapterResidency(pool=pool, table=table, disk=disk, host_budget_bytes=settings.host_cache, clock=clock)


def step_limits(settings: Settings, page_tokens: int) -> Limits:
    """The scheduler's budgets."""
    return Limits(
        max_sequences=settings.max_sequences,
        max_step_tokens=settings.max_step_tokens,
        prefill_chunk=settings.prefill_chunk,
        max_adapters=settings.max_step_adapters,
        drain_after_s=settings.drain_after_s,
        page_tokens=page_tokens,
    )


def connect(host: ModelHost) -> None:
    """Give residency its listener, its loader and its room, and the versions that were registered before."""
    parts = host.parts
    residency = host.residency
    residency.listener = host.lifecycle
    loader = Loader(
        disk=residency.disk,
        arena=parts.arena.pages,
        num_threads=parts.settings.loader_threads,
        clock=parts.clock,
        report=host.report,
    )
    residency.loads = LoadPipeline(
        residency, pool=parts.pool, loader=loader, clock=parts.clock, make_room=parts.reclaimer.make_adapter_room
    )
    parts.catalog.store.on_late_commit = lambda: host.post(host.lifecycle.align)
    import_journal(residency.disk.folder, parts.catalog)
    check_base_name(parts.spec.name, parts.catalog.aliases)
    parts.catalog.store.write(lambda session: bases.seen(session, parts.spec, source=parts.base_root, by=SYSTEM.name))
    kept = {record.id: record for record in parts.catalog.records.values() if parts.catalog.keeps(record.id)}
    residency.disk.sweep(kept, before=lambda adapter: unowned_id(kept[adapter].digest, base_digest=kept[adapter].base_digest))
    for record in parts.catalog.versions.values():
        residency.add(record)
    for alias in parts.catalog.aliases.values():
        if alias.adapter in parts.catalog.versions:
            host.lifecycle.name(alias)


def device_snapshot(base: Base, page_tokens: int) -> DeviceSnapshot:
    """What serves, on what."""
    spec, model = base.spec, base.model
    return DeviceSnapshot(
        kind="cuda" if model.device.type == "cuda" else "cpu",
        name=device_name(model.device),
        base=spec.name,
        base_digest=spec.digest,
        architecture=spec.family,
        num_parameters=num_parameters(base.folder),
        dtype=str(model.dtype).removeprefix("torch."),
        context_tokens=base.context_tokens,
        page_tokens=page_tokens,
        threads=torch.get_num_threads(),
    )


def num_parameters(folder: Path) -> int:
    """Elements of all tensors of a checkpoint, from its headers."""
    total = 0
    for path in checkpoint_files(folder):
        with safe_open(path, framework="pt") as file:
            total += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 - not a mapping
    return total
