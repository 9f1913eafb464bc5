"""Machines made for comparisons: an H200 as the probes would report it, and others made from it.

Counters come from envkit's model of the allocator (which reproduces the recorded H200 exactly),
streams are short ones in the probes' form, with the workspace sizes that were measured.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import msgspec

from envkit.allocator import CachingAllocator, Config, OutOfMemory
from envkit.compare.sides import Side
from envkit.model.codec import digest
from envkit.model.facts import (
    CondaFacts,
    CondaPackage,
    DriverFacts,
    EnvironmentFacts,
    Facts,
    Gpu,
    GpuFacts,
    PipDistribution,
    PipFacts,
    TorchFacts,
)
from envkit.model.fingerprint import DIGEST_LAYERS, Fingerprint
from envkit.model.observed import Known
from envkit.model.report import Report, Target, Verdict
from envkit.probes.child.exercises.catalogue import EXERCISES
from envkit.probes.child.exercises.operations import carry_out
from envkit.workflows.package_lists import from_facts

H200_BYTES = 150_754_820_096
H200_WORKSPACE, A100_WORKSPACE = 33_554_432, 8_519_680
SEED = 20261132
FLAGS: dict[str, Any] = {
    "cudnn.enabled": True,
    "cudnn.benchmark": False,
    "cudnn.deterministic": False,
    "cudnn.allow_tf32": True,
    "matmul.allow_tf32": False,
    "float32_matmul_precision": "highest",
    "deterministic_algorithms": False,
    "preferred_blas_library": "cublas",
    "sdp.flash": True,
    "sdp.math": True,
}
#: Name of a machine -> capability, SM count, memory, workspace: published figures.
MODELS = {
    "NVIDIA H200": ("9.0", 132, H200_BYTES, H200_WORKSPACE),
    "NVIDIA A100-SXM4-80GB": ("8.0", 108, 85_899_345_920, A100_WORKSPACE),
    "NVIDIA GeForce RTX 4090": ("8.9", 128, 25_757_220_864, A100_WORKSPACE),
}


def known(value: Any) -> Known[Any]:
    return Known(value=value, source="made for a test")


def sha(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def exact(layer: str, values: Any) -> dict[str, Any]:
    return {
        "status": "exact",
        "values": values,
        "digest": digest(values) if layer in DIGEST_LAYERS else None,
    }


def exercises(conf: str, total: int) -> dict[str, Any]:
    found = {}
    for name, make in EXERCISES.items():
        model = CachingAllocator(conf, total_memory=total, version=(2, 11))
        walk = carry_out(make(SEED), model, total, OutOfMemory)
        found[f"exercises.{name}"] = exact("allocator", {"steps": walk.steps})
    return found


def streams(workspace: int) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors, workspaces = {}, {}
    for name, size in (("vit.bf16", 3_145_728), ("resnet.fp32", 9_633_792)):
        requests = [size * (n % 5 + 1) for n in range(24)] + [-n for n in range(1, 25)]
        tensors[f"{name}.tensors"] = exact("tensors", {"requests": requests, "streams": {}})
        taken = {
            "requests": [workspace, 1_048_576, -2, workspace, -3, 512],
            "streams": {},
            "after_tensors": [3, 7, 7, 11, 12, 20],
        }
        workspaces[f"{name}.workspaces"] = exact("workspaces", taken)
    return tensors, workspaces


def numerics(bits: str) -> dict[str, Any]:
    names = (
        "numerics.matmul.fp32",
        "numerics.conv2d",
        "numerics.sdpa.flash",
        "numerics.reductions",
        "vit.bf16.losses",
        "resnet.fp32.losses",
        "resnet.fp32.weights",
    )
    return {n: exact("numerics", {"out": {"sha256": sha(n, bits), "shape": [4]}}) for n in names}


def fingerprint(device: str = "NVIDIA H200", conf: str = "", **key: Any) -> dict[str, Any]:
    """Return a fingerprint as plain values, to be changed and then read with `read`."""
    capability, sms, total, workspace = MODELS[device]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": conf, **Config.parse(conf, (2, 11)).as_torch_reports()}
    tensors, workspaces = streams(workspace)
    expandable = 20 << 20 if conf else 0
    peaks = {
        f"{name}.peaks": exact(
            "peaks",
            {
                "allocated_bytes": size,
                "reserved_bytes": size + (300 << 20) - 3 * expandable,
                "segments": 40 - (30 if conf else 0),
            },
        )
        for name, size in (("vit.bf16", 1_900_000_000), ("resnet.fp32", 2_700_000_000))
    }
    context = {
        "total_bytes": total,
        "torch_total_bytes": total,
        "free_bytes": total - 900_000_000,
        "used_outside_this_allocator_bytes": 816_644_096,
    }
    layers = {
        "allocator": exercises(conf, total),
        "tensors": tensors,
        "workspaces": workspaces,
        "peaks": peaks,
        "numerics": numerics(capability),
        "context": {"context.memory": exact("context", context)},
    }
    return seal(
        {
            "schema": "envkit.fingerprint/1",
            "suite": {"name": "standard", "version": 1},
            "key": {
                "torch": "2.11.0+cu130",
                "cuda": "13.0",
                "cudnn": 91900,
                "cublas": "130100",
                "capability": capability,
                "sm_count": sms,
                "settings": settings,
                "flags": dict(FLAGS),
                "threads": 16,
                "model_version": "1",
                **key,
            },
            "challenge": None,
            "device": device,
            "layers": layers,
            "digests": {},
            "short": {"mem": None, "num": None},
        }
    )


def seal(plain: dict[str, Any]) -> dict[str, Any]:
    """Put the digests of probes and layers in step with the values."""
    for layer in DIGEST_LAYERS:
        probes = plain["layers"][layer]
        for probe in probes.values():
            if probe["status"] == "exact":
                probe["digest"] = digest(probe["values"])
        if all(probe.get("digest") for probe in probes.values()):
            names = sorted(probes)
            plain["digests"][layer] = digest({n: probes[n]["digest"] for n in names})
    return plain


def changed(plain: dict[str, Any], layer: str, pattern: str = "") -> dict[str, Any]:
    """Return a copy in which the bits of a layer's probes (whose name has `pattern`) moved."""
    copied = copy.deepcopy(plain)
    for name, probe in copied["layers"][layer].items():
        if pattern not in name:
            continue
        values = probe["values"]
        if layer == "numerics":
            values["out"]["sha256"] = sha(values["out"]["sha256"], "moved")
        elif layer == "peaks":
            values["reserved_bytes"] += 200 << 20
        elif layer == "context":
            values["used_outside_this_allocator_bytes"] += 100 << 20
        else:
            values["requests"] = [n + 4096 if n > 0 else n for n in values["requests"]]
    return seal(copied)


def read(plain: dict[str, Any]) -> Fingerprint:
    return msgspec.convert(plain, Fingerprint)


def facts(
    device: str = "NVIDIA H200",
    *,
    variables: dict[str, str] | None = None,
    driver: str = "580.159.04",
    free_bytes: int | None = None,
    **torch: Any,
) -> Facts:
    capability, _, total, _ = MODELS[device]
    gpu = Gpu(
        index=0,
        name=known(device),
        compute_capability=known(capability),
        memory_bytes=known(total),
        free_bytes=known(total - 900_000_000 if free_bytes is None else free_bytes),
        mig=known(value=False),
    )
    return Facts(
        driver=DriverFacts(version=known(driver)),
        gpus=GpuFacts(devices=known((gpu,))),
        environment=EnvironmentFacts(variables=known(variables or {})),
        conda=CondaFacts(packages=known(CONDA)),
        pip=PipFacts(distributions=known((PipDistribution(name="einops", version="0.8.1"),))),
        torch=TorchFacts(version=known("2.11.0+cu130"), **torch),
    )


CONDA = (
    CondaPackage(
        name="pytorch",
        version="2.11.0",
        build="cuda130_py312",
        channel="conda-forge",
        sha256="a" * 64,
    ),
    CondaPackage(name="numpy", version="2.3.4", build="py312_0", channel="conda-forge"),
)


def side(
    label: str,
    plain: dict[str, Any] | None = None,
    found: Facts | None = None,
) -> Side:
    plain = fingerprint() if plain is None else plain
    found = facts(plain["device"]) if found is None else found
    return Side(
        label=label,
        kind="report",
        path=f"{label}.json",
        facts=found,
        fingerprint=read(plain),
        packages=from_facts(found, complete=True),
    )


def report(label: str, plain: dict[str, Any] | None = None, found: Facts | None = None) -> Report:
    plain = fingerprint() if plain is None else plain
    return Report(
        envkit_version="0.1.0",
        created="2026-11-30T12:00:00Z",
        label=label,
        target=Target(kind="conda", prefix="~/envs/vit", python=None, chosen_by="-n vit"),
        facts=facts(plain["device"]) if found is None else found,
        findings=(),
        checks=(),
        fingerprint=read(plain),
        verdict=Verdict(status="pass", exit_code=0, headline="torch works."),
    )


BASE_REPORT = report("lab-1")
