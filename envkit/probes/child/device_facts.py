"""What torch says about the devices; initialises CUDA, so it runs in a child of its own."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import Any

from . import mapped_libraries as mapped
from .flags import read_flags
from .protocol import Emitter
from .states import absent, not_applicable, plain, unreadable
from .torch_api import (
    Missing,
    allocator_backend,
    allocator_settings,
    attempt,
    call,
    cudnn_loaded,
    fork_is_bad,
    lookup,
)
from .torch_facts import CPU_BUILD, is_cuda_build, threads_fact

#: Texts of torch (c10/cuda/CUDAFunctions.cpp) for errors whose number it does not say.
_KNOWN_TEXTS = (
    ("Found no NVIDIA driver", 35, "cudaErrorInsufficientDriver"),
    ("driver on your system is too old", 35, "cudaErrorInsufficientDriver"),
    ("No CUDA GPUs are available", 100, "cudaErrorNoDevice"),
)
_NUMBERED = re.compile(r"Error (\d+): (.*)")
#: Facts that only a build with CUDA has.
_CUDA_ONLY = (
    "cuda_init_error",
    "devices",
    "cudnn_version_loaded",
    "cublas_version",
    "driver_version_seen",
    "runtime_version_seen",
    "allocator_settings",
    "allocator_backend",
)


def device_facts(torch: Any, emit: Emitter) -> "dict[str, Any]":
    """Initialise CUDA if this build has it, and return the facts that need that."""
    if not is_cuda_build(torch):
        facts = {name: not_applicable(CPU_BUILD) for name in _CUDA_ONLY}  # type: dict[str, Any]
        facts.update(cuda_available=plain(call(torch, "cuda.is_available")), device_count=0)
        return facts
    emit.stage("cuda_init")
    available = call(torch, "cuda.is_available")
    initialised = attempt(lambda: _init(torch))
    emit.stage("cuda_facts")
    facts = {
        "cuda_available": plain(available),
        "cuda_init_error": _init_error(available, initialised),
        "device_count": plain(call(torch, "cuda.device_count")),
        "devices": _devices(torch),
        "cudnn_version_loaded": _or_absent(cudnn_loaded(torch), "torch finds no cuDNN"),
        "cublas_version": plain(cublas_version()),
        "driver_version_seen": plain(mapped.driver_version()),
        "runtime_version_seen": plain(mapped.runtime_version()),
        "allocator_settings": _settings(torch),
        "allocator_backend": plain(allocator_backend(torch)),
    }
    # Empty where no device is usable, whatever the build has: then the build's own list stands.
    arch_list = call(torch, "cuda.get_arch_list")
    if arch_list and isinstance(arch_list, list):
        facts["arch_list"] = plain(arch_list)
    return facts


def usable(facts: "dict[str, Any]") -> bool:
    """Whether CUDA works, as far as these facts say."""
    return facts.get("cuda_available") is True and "absent" in facts.get("cuda_init_error", {})


def comparability_key(torch: Any, facts: "dict[str, Any]", device: str) -> "dict[str, Any]":
    """Return what must agree for two fingerprints to be compared; null where there is none."""
    key = {
        "device": device,
        "torch": plain(lookup(torch, "__version__")),
        "cuda": plain(lookup(torch, "version.cuda")),
        "cudnn": None,
        "cublas": None,
        "capability": None,
        "sm_count": None,
        "settings": {},
        "flags": _existing_flags(torch),
        "threads": threads_fact(torch)["intra"],
    }  # type: dict[str, Any]
    if device.startswith("cuda"):
        key.update(
            cudnn=facts["cudnn_version_loaded"],
            cublas=facts["cublas_version"],
            settings=facts["allocator_settings"],
        )
        card = _card(facts, device)
        key.update(capability=card.get("capability"), sm_count=card.get("sm_count"))
    return key


def _existing_flags(torch: Any) -> "dict[str, Any]":
    # A switch that this torch does not have follows from its version, which is in the key.
    flags = read_flags(torch)
    there = {n: f for n, f in flags.items() if not isinstance(f, Missing) or f.exists}
    return {name: plain(flag) for name, flag in there.items()}


def cublas_version() -> Any:
    """Return the version of the cuBLAS in use: as the library says, else as its package says."""
    found = mapped.cublas_version()
    if not isinstance(found, Missing):
        return found
    from importlib import metadata

    for package in ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"):
        version = attempt(partial(metadata.version, package))
        if isinstance(version, str):
            return version
    return found


def _card(facts: "dict[str, Any]", device: str) -> "dict[str, Any]":
    index = int(device.partition(":")[2] or 0)
    devices = facts.get("devices")
    for card in devices if isinstance(devices, list) else []:
        if card.get("index") == index:
            return dict(card)
    return {}


def _init(torch: Any) -> str:
    """Initialise CUDA and say how that is known; raises what torch raises."""
    if fork_is_bad(torch):
        message = "CUDA was used before the probe was started (a sitecustomize or a .pth file?)"
        raise RuntimeError(message)
    start = lookup(torch, "cuda.init")
    if isinstance(start, Missing):
        return "torch.cuda.is_available() is all there is to ask: " + start.reason
    start()
    return "CUDA could be initialised"


def _init_error(available: Any, initialised: Any) -> "dict[str, Any]":
    if not isinstance(initialised, Missing):
        if available is False:
            return unreadable("torch says that CUDA is not available, and gives no error")
        return absent(str(initialised))
    seen = mapped.runtime_error()
    if isinstance(seen, dict):
        return {
            "code": seen["code"],
            "name": seen["name"],
            "message": "{} ({})".format(seen["message"], initialised.reason),
        }
    return error_of_text(initialised.reason)


def error_of_text(text: str) -> "dict[str, Any]":
    """Return `{code, name, message}` for what torch says; unreadable when it names no number."""
    numbered = _NUMBERED.search(text)
    if numbered:
        return {"code": int(numbered.group(1)), "name": "", "message": numbered.group(2).strip()}
    for known, code, name in _KNOWN_TEXTS:
        if known in text:
            return {"code": code, "name": name, "message": text}
    return unreadable(text)


def _devices(torch: Any) -> Any:
    count = call(torch, "cuda.device_count")
    if isinstance(count, Missing):
        return unreadable(count.reason)
    cards = [attempt(partial(_device, torch, index)) for index in range(int(count))]
    for card in cards:
        if isinstance(card, Missing):
            return unreadable(card.reason)
    return cards


def _device(torch: Any, index: int) -> "dict[str, Any]":
    card = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "name": str(card.name),
        "capability": "{}.{}".format(card.major, card.minor),
        "memory_bytes": int(card.total_memory),
        "sm_count": int(card.multi_processor_count),
        "uuid_hash": _uuid_hash(card),
        "l2_bytes": plain(lookup_on(card, "L2_cache_size")),
    }


def lookup_on(card: Any, name: str) -> Any:
    """Return a property of a device that older versions do not have."""
    missing = Missing("this torch does not tell {}".format(name))
    return getattr(card, name, missing)


def _uuid_hash(card: Any) -> Any:
    """Return the first 16 hexadecimal digits of the SHA-256 of the UUID as NVML writes it."""
    uuid = lookup_on(card, "uuid")
    if isinstance(uuid, Missing):
        return unreadable(uuid.reason)
    text = str(uuid)
    named = text if text.startswith(("GPU-", "MIG-")) else "GPU-" + text
    return hashlib.sha256(named.encode("ascii", "replace")).hexdigest()[:16]


def _settings(torch: Any) -> "dict[str, Any]":
    settings = allocator_settings(torch)
    return plain(settings)  # type: ignore[no-any-return]


def _or_absent(value: Any, reason: str) -> Any:
    return absent(reason) if value is None else plain(value)
