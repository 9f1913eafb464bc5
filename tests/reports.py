"""Six reports that every renderer must be able to draw."""

from __future__ import annotations

from typing import Any

from envkit.model.facts import (
    CudaError,
    DriverFacts,
    EnvironmentFacts,
    Facts,
    Gpu,
    GpuFacts,
    HostFacts,
    ImportFailure,
    PipDistribution,
    PipFacts,
    PythonFacts,
    RequestFacts,
    TorchFacts,
)
from envkit.model.finding import Check, Evidence, Finding, Fix, Severity, Status
from envkit.model.fingerprint import Fingerprint, Key, Layers, ProbeResult, Short, Suite
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.model.report import Report, Target, Verdict


def known(value: Any, source: str = "NVML") -> Known[Any]:
    return Known(value=value, source=source)


def exact(digit: str, *, modelled: bool = False) -> ProbeResult:
    return ProbeResult(
        status="exact", values={"n": 1}, digest="sha256:" + digit * 64, modelled=modelled
    )


def report(verdict: Verdict, **fields: Any) -> Report:
    standard: dict[str, Any] = {
        "envkit_version": "0.1.0",
        "created": "2026-11-30T12:00:00Z",
        "label": None,
        "target": Target(
            kind="conda",
            prefix="~/miniforge3/envs/vit",
            python="~/miniforge3/envs/vit/bin/python",
            chosen_by="CONDA_PREFIX",
        ),
        "facts": GPU_FACTS,
        "findings": (),
        "checks": (),
        "fingerprint": None,
    }
    return Report(**{**standard, **fields}, verdict=verdict)


GPU_FACTS = Facts(
    request=RequestFacts(device=known("auto", "default")),
    driver=DriverFacts(version=known("580.159.04"), cuda_version=known("13.0")),
    gpus=GpuFacts(
        devices=known(
            (
                Gpu(
                    index=0,
                    name=known("NVIDIA H200"),
                    compute_capability=known("9.0"),
                    memory_bytes=known(150_754_820_096),
                ),
            )
        )
    ),
    host=HostFacts(
        os=known("linux", "platform"),
        os_release=known("Ubuntu 22.04", "/etc/os-release"),
        arch=known("x86_64", "platform"),
        glibc=known("2.35", "gnu_get_libc_version"),
        container=known("docker", "/.dockerenv"),
        cpu_model=known("Intel(R) Xeon(R) Platinum 8481C", "/proc/cpuinfo"),
        cpu_count=known(16, "sched_getaffinity"),
        memory_bytes=known(137_438_953_472, "/proc/meminfo"),
    ),
    environment=EnvironmentFacts(
        variables=known({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "environment")
    ),
    python=PythonFacts(version=known("3.12.7", "child")),
    pip=PipFacts(distributions=known((PipDistribution(name="torch", version="2.11.0"),), "pip")),
    torch=TorchFacts(
        version=known("2.11.0+cu130", "torch/version.py"),
        cuda=known("13.0", "torch/version.py"),
        cudnn=known(91501, "torch.backends.cudnn.version()"),
        nccl=known("2.28.9", "torch.cuda.nccl.version()"),
        installer=known("pip", "INSTALLER"),
        cuda_available=known(value=True, source="torch.cuda.is_available()"),
    ),
)

FINGERPRINT = Fingerprint(
    suite=Suite(name="standard", version=1),
    key=Key(
        torch="2.11.0+cu130",
        cuda="13.0",
        cudnn=91501,
        cublas="13.1",
        capability="9.0",
        sm_count=132,
        settings={},
        flags={},
        threads=16,
        model_version="1",
    ),
    challenge=None,
    device="NVIDIA H200",
    layers=Layers(
        allocator={f"exercise-{n}": exact("a") for n in range(9)},
        tensors={"vit.fp32": exact("b"), "resnet.fp32": exact("c")},
        workspaces={"vit.fp32": exact("d"), "resnet.fp32": exact("e")},
        peaks={"vit.fp32": ProbeResult(status="unstable", values=None, digest=None, reason="ties")},
        numerics={
            "vit.fp32": ProbeResult(status="unstable", values=None, digest=None, reason="atomics"),
            "matmul": exact("f"),
        },
        context={},
    ),
    digests=dict.fromkeys(("allocator", "tensors"), "sha256:" + "0123456789ab" * 5),
    short=Short(mem="0123456789ab", num=None),
)

CLEAN = report(
    Verdict(status="pass", exit_code=0, headline="torch 2.11.0+cu130 works on NVIDIA H200."),
    label="lab-1",
    findings=(
        Finding(
            code="DRV003",
            severity=Severity.INFO,
            title="CUDA minor-version compatibility in use",
            evidence=(Evidence(what="driver", seen="580.159.04", source="NVML"),),
            fix=Fix(text="Nothing has to be done."),
            url="https://docs.nvidia.com/deploy/cuda-compatibility/",
        ),
    ),
    checks=(
        Check(code="DRV002", status=Status.PASS, reason="580.159.04 is not under 580.65.06"),
        Check(code="DRV003", status=Status.FAIL, reason="older than 580.200"),
        Check(code="GPU004", status=Status.SKIP, reason="the GPU has no MIG"),
    ),
    fingerprint=FINGERPRINT,
)

FAILING = report(
    Verdict(status="fail", exit_code=1, headline="CUDA cannot work here: driver too old."),
    findings=(
        Finding(
            code="DRV002",
            severity=Severity.ERROR,
            title="Driver older than the floor of the build's CUDA major",
            evidence=(
                Evidence(what="driver", seen="470.57.02", source="NVML"),
                Evidence(
                    what="oldest driver for CUDA 13",
                    seen="580.65.06",
                    source="compat/data/cuda_driver.yaml, CUDA 13.x, NVIDIA CUDA compatibility"
                    " guide",
                ),
            ),
            fix=Fix(
                text="Update the NVIDIA driver to 580.65.06 or newer, or install a torch that"
                " this driver can run.",
                command="~/miniforge3/envs/vit/bin/python -m pip install 'torch==2.6.0' "
                "--index-url https://download.pytorch.org/whl/cu118",
            ),
            url="https://docs.nvidia.com/deploy/cuda-compatibility/",
        ),
        Finding(
            code="TOR009",
            severity=Severity.ERROR,
            title="A CUDA self-test failed",
            evidence=(Evidence(what="matmul", seen="not run", source="self-test"),),
            fix=Fix(text="Mend DRV002 first."),
            url="https://pytorch.org/docs/stable/",
            caused_by="DRV002",
        ),
        Finding(
            code="GPU006",
            severity=Severity.WARNING,
            title="Other processes hold memory on the GPU",
            evidence=(Evidence(what="GPU 0", seen="12.3 GiB by 2 processes", source="NVML"),),
            fix=Fix(text="Wait, or use another GPU.", command="nvidia-smi"),
            url="https://docs.nvidia.com/deploy/nvml-api/",
        ),
    ),
    checks=(
        Check(code="DRV002", status=Status.FAIL, reason="470.57.02 is under 580.65.06"),
        Check(code="GPU002", status=Status.UNKNOWN, reason="torch.arch_list: torch did not say"),
    ),
)

SKIPPED = report(
    Verdict(status="pass", exit_code=0, headline="Nothing here is about CUDA."),
    target=Target(kind="prefix", prefix="/opt/bare", python=None, chosen_by="--prefix"),
    facts=Facts(
        torch=TorchFacts(
            version=known("2.11.0+cpu", "torch/version.py"),
            cuda_available=NotApplicable(reason="no interpreter in the prefix"),
        )
    ),
    checks=(
        Check(code="DRV001", status=Status.SKIP, reason="a build without CUDA"),
        Check(code="DRV002", status=Status.SKIP, reason="a build without CUDA"),
    ),
)

UNKNOWN = report(
    Verdict(status="incomplete", exit_code=3, headline="torch could not be imported in time."),
    facts=Facts(
        driver=DriverFacts(
            version=Unreadable(reason="NVML did not answer within 10 s", source="NVML"),
            cuda_error=known(CudaError(code=999, name="CUDA_ERROR_UNKNOWN"), "cuInit"),
        ),
        gpus=GpuFacts(devices=Unreadable(reason="NVML did not answer within 10 s", source="NVML")),
        host=HostFacts(container=Absent(source="/proc/1/cgroup")),
        torch=TorchFacts(
            version=known("2.11.0+cu130", "torch/version.py"),
            import_failure=known(
                ImportFailure(how="timed_out", message="hung in stage importing_torch"), "child"
            ),
        ),
    ),
    checks=(
        Check(code="DRV002", status=Status.UNKNOWN, reason="driver.version: NVML did not answer"),
        Check(code="GPU002", status=Status.UNKNOWN, reason="gpus.devices: NVML did not answer"),
    ),
)

EMPTY = report(
    Verdict(status="incomplete", exit_code=3, headline="Nothing could be judged."),
    target=Target(kind="recorded", prefix=None, python=None, chosen_by="--from empty.json"),
    facts=Facts(),
)

HUGE = report(
    Verdict(status="fail", exit_code=1, headline="x" * 300),
    label="\x1b[2J\u202elabel",
    facts=Facts(
        gpus=GpuFacts(devices=known(tuple(Gpu(index=n, name=known("é" * 90)) for n in range(64)))),
        environment=EnvironmentFacts(variables=known({"LD_LIBRARY_PATH": "/a:" * 300}, "env")),
    ),
    findings=tuple(
        Finding(
            code=f"CON{n:03}",
            severity=Severity.ERROR,
            title="Package \x1b]8;;http://evil\x07differs \u2066",
            evidence=(Evidence(what="line\none", seen="y" * 5000, source="conda-meta"),),
            fix=Fix(text="z " * 900, command="a\nb"),
            url="https://example.org",
        )
        for n in range(1, 40)
    ),
    checks=tuple(
        Check(code=f"CON{n:03}", status=Status.FAIL, reason="differs") for n in range(1, 40)
    ),
)

REPORTS = {
    "clean": CLEAN,
    "failing": FAILING,
    "skipped": SKIPPED,
    "unknown": UNKNOWN,
    "empty": EMPTY,
    "huge": HUGE,
}
