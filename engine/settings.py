"""One frozen settings value, read once from flags, ``LORADECK_*`` variables and ``loradeck.toml``, in that order."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def parse_bytes(value: object) -> object:
    """``"8GiB"`` → 8589934592; a plain number is bytes. Raises ValueError naming the units it knows."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower().replace(" ", "").replace("_", "")
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(digits) :]
    if unit not in UNITS or not digits:
        msg = f"{value!r} is not a size; write it like 8GiB or 512MiB"
        raise ValueError(msg)
    return int(float(digits) * UNITS[unit])


Bytes = Annotated[int, BeforeValidator(parse_bytes)]


class Settings(BaseSettings):
    """Everything an operator may choose. Units are in the names or given beside them."""

    model_config = SettingsConfigDict(
        env_prefix="LORADECK_",
        toml_file="loradeck.toml",
        frozen=True,
        extra="forbid",
        cli_parse_args=False,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_prog_name="loradeck",
    )

    base: str = Field("demo", description="Folder of a Hugging Face decoder, or 'demo'")
    device: Literal["auto", "cuda", "cpu"] = Field("auto", description="Where to serve")
    memory: Bytes = Field(0, description="Device budget, such as 8GiB; 0 chooses: half of free RAM on CPU, 90 % of the GPU")
    host: str = Field("127.0.0.1", description="Address to listen on; other than loopback needs an admin account")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on")
    data: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("loradeck")), description="Where models and adapters are kept"
    )
    database: str = Field("", description="Registry: sqlite:///FILE or postgresql://USER@HOST/NAME; by default a file in the data folder")
    headless: bool = Field(False, description="Serve HTTP without the console")
    source_allow: tuple[str, ...] = Field((), description="More folders or URL prefixes to register adapters from (repeatable)")

    max_adapter: Bytes = Field(2 * 2**30, description="Largest weights file that is fetched or unpacked")
    max_upload: Bytes = Field(2 * 2**30, description="Largest zip file that is taken in")

    host_cache: Bytes = Field(2 * 2**30, description="Host memory for adapters that are not on the device; 0 keeps none there")
    max_rank: int = Field(256, ge=1, le=256, description="Largest LoRA rank accepted")
    max_sequences: int = Field(64, ge=1, description="Sequences in one step")
    max_step_tokens: int = Field(1024, ge=16, description="Tokens in one step")
    prefill_chunk: int = Field(256, ge=16, description="Prompt tokens of one sequence in one step while others decode")
    max_step_adapters: int = Field(64, ge=1, le=512, description="Distinct adapters in one step")
    max_waiting: int = Field(4096, ge=1, description="Requests that may wait before new ones get 429")
    max_context: int = Field(0, ge=0, description="Tokens of one sequence; 0 takes the base's own limit")
    kv_floor: float = Field(0.1, ge=0.0, le=0.9, description="Share of the arena that adapters may not take from KV")
    adapter_floor: float = Field(0.1, ge=0.0, le=0.9, description="Share of the arena that KV may not take from adapters")
    eviction: Literal["gdsf", "lru"] = Field("gdsf", description="Which idle adapter leaves first")
    fairness: Literal["vtc", "arrival"] = Field("vtc", description="Who is served next: the least served tenant, or the oldest request")
    drain_after_s: float = Field(2.0, gt=0, description="How long an adapter may wait for pages before others drain for it")
    loader_threads: int = Field(2, ge=1, le=16, description="Threads that read and copy adapters")
    threads: int = Field(0, ge=0, description="CPU threads for the forward pass; 0 takes all cores")
    cpu_weights: Literal["fp32", "int8"] = Field("fp32", description="CPU only: int8 halves the time of a step at a cost in accuracy")
    max_body: Bytes = Field(8 * 2**20, description="Largest request body")
    voices: bool = Field(True, description="Register the eight trained demo adapters at the first start of the demo base")
    sample_adapters: int = Field(
        0, ge=0, le=5000, description="Synthetic adapters, for tests of scale, registered once at a start of the demo base"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags (or arguments) win over the environment, and that over the file."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect; a name other than ``localhost`` is not trusted to."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def database_url(self) -> str:
        """Where the registry is."""
        return self.database or f"sqlite:///{self.data / 'loradeck.db'}"

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        """Folders and prefixes from which an adapter may be registered: the data folder, then ``source_allow``."""
        return (str(self.data), *self.source_allow)
