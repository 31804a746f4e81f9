"""From settings to a model host that is ready to run: load the base, divide the memory, make the parts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from engine.adapters.catalog import Catalog
from engine.adapters.eviction import EvictionPolicy
from engine.adapters.loader import Loader
from engine.adapters.residency import AdapterResidency
from engine.adapters.table import AdapterTable, TableDims
from engine.adapters.tiers import DiskTier
from engine.budget import SCRATCH_PAGES, choose_device, device_name, divide, serving_dtype
from engine.memory.layout import page_layout
from engine.cache.prefix import PrefixCache
from engine.errors import BaseRefused
from engine.memory.arena import Arena
from engine.memory.pages import PagePool
from engine.memory.reclaim import Floors, Reclaimer
from engine.model_host import HostParts, ModelHost
from engine.models.config import read_spec
from engine.models.decoder import DecoderModel
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.clock import Clock
    from engine.memory.pages import PageOwner
    from engine.models.spec import ModelSpec
    from engine.settings import Settings

    Progress = Callable[[str, float | None], None]


def open_host(settings: Settings, *, clock: Clock, progress: Progress) -> ModelHost:
    """Load what the settings name; minutes for the first start of the demo base, seconds later. Raises BaseRefused."""
    device = choose_device(settings)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    folder = base_folder(settings, progress)
    spec = read_spec(folder)
    progress("Checking the base's weights", None)
    spec = dataclasses.replace(spec, digest=base_digest(folder, spec, data=settings.data))
    tokenizer = Tokenizer.load(folder)
    chat_template = ChatTemplate.load(folder, tokenizer)
    model = load_model(folder, spec, settings, device, progress)
    parts = make_parts(settings, clock, folder, spec, tokenizer, chat_template, model)
    host = ModelHost(parts)
    connect(host)
    return host


def base_folder(settings: Settings, progress: Progress) -> Path:
    """The base's folder; the demo's is made at the first start."""
    if settings.base == "demo":
        return demo_base(settings.data, lambda share: progress("Preparing the demo base", share))
    folder = Path(settings.base).expanduser()
    if not folder.is_dir():
        message = f"There is no base folder {settings.base}; name a Hugging Face folder, or 'demo'."
        raise BaseRefused(message, code="base_missing", param="base", found=settings.base)
    return folder


def load_model(folder: Path, spec: ModelSpec, settings: Settings, device: torch.device, progress: Progress) -> DecoderModel:
    """The base on its device, in the serving dtype."""
    weights = fill(
        spec,
        stream_checkpoint(folder),
        device=device,
        dtype=serving_dtype(device),
        cpu_weights=settings.cpu_weights,
        progress=lambda share: progress("Loading the base", share),
    )
    return DecoderModel(spec, weights, max_position=context_tokens(settings, spec))


def context_tokens(settings: Settings, spec: ModelSpec) -> int:
    """Tokens of the longest sequence, before the arena's size is known."""
    return min(settings.max_context or spec.max_position, spec.max_position)


def make_parts(
    settings: Settings, clock: Clock, folder: Path, spec: ModelSpec, tokenizer: Tokenizer, chat_template: ChatTemplate, model: DecoderModel
) -> HostParts:
    """Everything but the wires between residency and its listener."""
    device, dtype = model.device, model.dtype
    layout = page_layout(
        num_layers=spec.num_layers,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        itemsize=dtype.itemsize,
        widest=max(max(dims) for dims in spec.module_dims.values()),
    )
    budget = divide(settings, spec, layout, base_bytes=model.nbytes, device=device)
    arena = Arena(layout, num_pages=budget.num_pages + SCRATCH_PAGES, dtype=dtype, device=device)
    pool = PagePool(budget.num_pages)
    prefix = PrefixCache(pool, page_tokens=layout.page_tokens)
    policy = EvictionPolicy(settings.eviction)
    adapters = settings.data / "adapters" / spec.digest[:16]
    table = AdapterTable(table_dims(settings, spec, layout.page_elems), num_slots=settings.max_step_adapters + 1, device=device)
    disk = DiskTier(adapters, pin_memory=device.type == "cuda")
    residency = AdapterResidency(pool=pool, table=table, disk=disk, host_budget_bytes=settings.host_cache, clock=clock)
    floors = Floors(kv=int(settings.kv_floor * budget.num_pages), adapter=int(settings.adapter_floor * budget.num_pages))
    reclaimer = Reclaimer(pool=pool, prefix=prefix, adapters=residency, policy=policy, floors=floors, reserve=residency.reserve_pages)
    limits = Limits(
        max_sequences=settings.max_sequences,
        max_step_tokens=settings.max_step_tokens,
        prefill_chunk=settings.prefill_chunk,
        max_adapters=settings.max_step_adapters,
        drain_after_s=settings.drain_after_s,
        page_tokens=layout.page_tokens,
    )
    scheduler = Scheduler(pool=pool, prefix=prefix, reclaimer=reclaimer, gate=residency, limits=limits)
    runner = Runner(model, arena, table, slot_of=residency.slot, device=device)
    if device.type == "cuda":
        runner.graphs = DecodeGraphs(model, arena, max_sequences=settings.max_sequences, scratch_page=budget.num_pages)
    return HostParts(
        settings=settings,
        clock=clock,
        spec=spec,
        base_root=str(folder),
        budget=budget,
        device=device_snapshot(spec, model, layout.page_tokens, context_tokens(settings, spec), folder),
        tokenizer=tokenizer,
        chat_template=chat_template,
        arena=arena,
        pool=pool,
        prefix=prefix,
        residency=residency,
        reclaimer=reclaimer,
        policy=policy,
        scheduler=scheduler,
        runner=runner,
        publisher=Publisher(clock),
        catalog=Catalog(adapters),
        max_sequence_tokens=min(context_tokens(settings, spec), (budget.num_pages - floors.adapter) * layout.page_tokens),
        scratch_pages=list(range(budget.num_pages, budget.num_pages + SCRATCH_PAGES)),
    )


def connect(host: ModelHost) -> None:
    """Give residency its listener, its loader and its room, and the versions that were registered before."""
    parts = host.parts
    residency = host.residency
    residency.listener = host.lifecycle
    residency.make_room = parts.reclaimer.make_adapter_room
    residency.loader = Loader(
        disk=residency.disk,
        arena=parts.arena.pages,
        num_threads=parts.settings.loader_threads,
        clock=parts.clock,
        report=host.report,
    )
    for alias, adapter in parts.catalog.aliases.items():
        entry = residency.add(parts.catalog.versions[adapter])
        entry.aliases.append(alias)
        host.observer.changed(adapter)


def table_dims(settings: Settings, spec: ModelSpec, page_elems: int) -> TableDims:
    """What the slot table must know."""
    dims = tuple(spec.module_dims.values())
    return TableDims(
        num_layers=spec.num_layers,
        max_rank=settings.max_rank,
        page_elems=page_elems,
        in_features=tuple(width for width, _ in dims),
        out_features=tuple(width for _, width in dims),
    )


def device_snapshot(spec: ModelSpec, model: DecoderModel, page_tokens: int, context: int, folder: Path) -> DeviceSnapshot:
    """What serves, on what."""
    return DeviceSnapshot(
        kind="cuda" if model.device.type == "cuda" else "cpu",
        name=device_name(model.device),
        base=spec.name,
        base_digest=spec.digest,
        architecture=spec.family,
        num_parameters=num_parameters(folder),
        dtype=str(model.dtype).removeprefix("torch."),
        context_tokens=context,
        page_tokens=page_tokens,
        threads=torch.get_num_threads(),
    )


def num_parameters(folder: Path) -> int:
    """Elements of all tensors of a checkpoint, from its headers."""
    from safetensors import safe_open  # noqa: PLC0415 - only here

    total = 0
    for path in checkpoint_files(folder):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                size = 1
                for side in file.get_slice(name).get_shape():
                    size *= side
                total += size
    return total
