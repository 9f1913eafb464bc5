"""Readers that touch nothing, for `verify` without a machine."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from envkit.model.codec import digest
from envkit.model.facts import (
    DriverFacts,
    Facts,
    FilesFacts,
    GpuFacts,
    HostFacts,
    PipFacts,
    PythonFacts,
    TorchFacts,
)
from envkit.model.fingerprint import Fingerprint, Key, Layers, ProbeResult, Short, Suite
from envkit.model.observed import Absent, Known, NotApplicable
from envkit.model.report import Target
from envkit.probes.launch import ChildRun, Finished
from envkit.render.redact import Identity
from envkit.workflows.contract import Named
from envkit.workflows.verify import Readers

TARGET = Target(
    kind="venv", prefix="/home/ada.l/v", python="/home/ada.l/v/bin/python", chosen_by="VIRTUAL_ENV"
)
PREFIX = Target(kind="prefix", prefix="/opt/bare", python=None, chosen_by="--prefix")

NO_DRIVER = DriverFacts(
    version=Absent(source="NVML", reason="no NVIDIA driver was found"),
    nvml_error=Known(value="not there", source="NVML"),
)
NO_GPU = GpuFacts(
    pci_devices=Known(value=(), source="/sys"), devices=Known(value=(), source="NVML")
)


def known(value: Any) -> Known[Any]:
    return Known(value=value, source="test")


FILES = Facts(
    host=HostFacts(
        os=known("linux"),
        arch=known("x86_64"),
        glibc=known("2.36"),
        container=Absent(source="test"),
        jetson=known(value=False),
    ),
    python=PythonFacts(version=known("3.12.7")),
    pip=PipFacts(distributions=known(())),
    torch=TorchFacts(
        version=known("2.9.1+cpu"),
        cuda=Absent(source="torch/version.py", reason="the build has no CUDA"),
        hip=Absent(source="torch/version.py", reason="the build has no ROCm"),
        location=known("/home/ada.l/v/lib/torch"),
        import_failure=NotApplicable(reason="the import was not tried"),
    ),
)


def imported(_: Target, facts: Facts, __: ChildRun) -> Facts:
    torch = TorchFacts(
        version=facts.torch.version,
        cuda=facts.torch.cuda,
        hip=facts.torch.hip,
        location=facts.torch.location,
        import_failure=Absent(source="import torch"),
        cuda_available=known(value=False),
        cuda_error=NotApplicable(reason="a build without CUDA"),
        devices=NotApplicable(reason="a build without CUDA"),
    )
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return Facts(**{**fields, "torch": torch})


def child_run(**fields: Any) -> ChildRun:
    standard: dict[str, Any] = {
        "outcome": Finished(),
        "stage": "fingerprint",
        "hello": None,
        "facts": {},
        "self_test": None,
        "key": None,
        "suite": None,
        "probes": (),
        "confounds": (),
        "errors": (),
        "stderr_tail": "",
        "seconds": 1.0,
    }
    return ChildRun(**{**standard, **fields})


def fingerprint(**numerics: ProbeResult) -> Fingerprint:
    exact = ProbeResult(status="exact", values={"n": 1}, digest=digest({"n": 1}))
    return Fingerprint(
        suite=Suite(name="quick", version=1),
        key=Key(
            torch="2.9.1+cpu",
            cuda=None,
            cudnn=None,
            cublas=None,
            capability=None,
            sm_count=None,
            settings={},
            flags={},
            threads=2,
            model_version="1",
        ),
        challenge=None,
        device="some processor",
        layers=Layers(
            allocator={},
            tensors={},
            workspaces={},
            peaks={},
            numerics={"matmul": exact, **numerics},
            context={},
        ),
        digests={},
        short=Short(mem=None, num=None),
    )


def readers(**fields: Any) -> Readers:
    standard: dict[str, Any] = {
        "choose": lambda: TARGET,
        "driver_and_gpus": lambda: (NO_DRIVER, NO_GPU),
        "files": lambda _: FILES,
        "contract": lambda *_: Named(),
        "compared": lambda _, __, facts: facts,
        "deeply": lambda _: nullcontext(lambda *_: FilesFacts()),
        "child": lambda *_: child_run(),
        "imported": imported,
        "fingerprint": lambda *_, **__: fingerprint(),
        "identity": Identity(home="/home/ada.l", user="ada.l", host="lovelace"),
        "clock": lambda: "2026-11-30T12:00:00Z",
    }
    return Readers(**{**standard, **fields})
