"""A machine made of fakes: an NVML and a libcuda of a few lines of C, an nvidia-smi, a torch.

All four answer from `FAKE_*` variables, so that one build of the libraries serves every machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from running import bare_venv

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long long u64;
static const char *text(const char *name, const char *other) {
    const char *value = getenv(name);
    return value ? value : other;
}
static int number(const char *name, int other) { return atoi(text(name, "")) ?: other; }
static void copy(char *to, const char *from, unsigned size) { snprintf(to, size, "%s", from); }
"""

_NVML = r"""
struct memory { u64 total, free, used; };
struct process { unsigned pid; u64 used; unsigned gpu, compute; };
int nvmlInitWithFlags(unsigned flags) { return number("FAKE_NVML_ERROR", 0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int e) {
    return e == 18 ? "Driver/library version mismatch" : e == 3 ? "Not Supported" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *t, unsigned n) {
    copy(t, text("FAKE_DRIVER", ""), n);
    return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = number("FAKE_CUDA", 12040); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = number("FAKE_COUNT", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(size_t)(i + 1); return 0; }
int nvmlDeviceGetName(void *h, char *t, unsigned n) { copy(t, text("FAKE_GPU", "?"), n); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    return sscanf(text("FAKE_CAPABILITY", "8.0"), "%d.%d", major, minor) != 2;
}
int nvmlDeviceGetMemoryInfo(void *h, struct memory *m) {
    m->total = strtoull(text("FAKE_MEMORY", "85899345920"), 0, 10);
    m->used = strtoull(text("FAKE_USED", "0"), 0, 10);
    m->free = m->total - m->used;
    return 0;
}
int nvmlDeviceGetUUID(void *h, char *t, unsigned n) {
    copy(t, "GPU-00000000-0000-0000-0000-000000000000", n);
    return 0;
}
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *next) { return 3; }
int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, u64 *n) { *n = 0; return 0; }
int nvmlDeviceGetRemappedRows(void *h, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    *a = *b = *c = *d = 0;
    return 0;
}
int nvmlDeviceGetComputeMode(void *h, int *mode) { *mode = 0; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, struct process *list) {
    u64 used = strtoull(text("FAKE_USED", "0"), 0, 10);
    unsigned room = *count;
    *count = used ? 1 : 0;
    if (*count > room) return 7;
    if (used) { memset(list, 0, sizeof *list); list->pid = 1; list->used = used; }
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *mask) { *mask = 0; return 0; }
"""

_LIBCUDA = r"""
int cuDriverGetVersion(int *v) { *v = number("FAKE_CUDA", 12040); return 0; }
int cuInit(unsigned flags) { return number("FAKE_INIT_ERROR", 0); }
int cuGetErrorName(int e, const char **t) { *t = 0; return 0; }
int cuGetErrorString(int e, const char **t) { *t = 0; return 0; }
int cuDeviceGetCount(int *n) { *n = number("FAKE_COUNT", 1); return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *t, int n, int d) { copy(t, text("FAKE_GPU", "?"), n); return 0; }
int cuDeviceTotalMem_v2(size_t *b, int d) {
    *b = strtoull(text("FAKE_MEMORY", "85899345920"), 0, 10);
    return 0;
}
int cuDeviceGetUuid(unsigned char *u, int d) { memset(u, 0, 16); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
    int major = 0, minor = 0;
    sscanf(text("FAKE_CAPABILITY", "8.0"), "%d.%d", &major, &minor);
    *v = a == 75 ? major : a == 76 ? minor : 0;
    return 0;
}
"""

#: What envkit never needs; a program that parses it would see the same machine.
_NVIDIA_SMI = """\
#!/bin/sh
case "$*" in
*--query-gpu*) echo "$FAKE_GPU, $FAKE_DRIVER, $FAKE_CAPABILITY" ;;
*) echo "NVIDIA-SMI $FAKE_DRIVER  Driver Version: $FAKE_DRIVER" ;;
esac
"""

_TORCH = '''\
"""A torch that answers from FAKE_* variables and computes a little in plain Python."""
import os, time
from types import SimpleNamespace
from torch import version
# A real torch takes seconds to be imported, and the driver is asked meanwhile.
time.sleep(float(os.environ.get("FAKE_IMPORT_S", "0")))
__version__ = version.__version__
_works = os.environ.get("FAKE_WORKS") == "1"
_card = SimpleNamespace(
    name=os.environ.get("FAKE_GPU", "?"), multi_processor_count=108,
    major=int(os.environ.get("FAKE_CAPABILITY", "8.0").split(".")[0]),
    minor=int(os.environ.get("FAKE_CAPABILITY", "8.0").split(".")[1]),
    total_memory=int(os.environ.get("FAKE_MEMORY", "85899345920")),
)
float32 = float64 = "float"
class _Tensor(list):
    cpu = lambda self: self
    tolist = lambda self: list(self)
    __float__ = lambda self: float(self[0])
    def sum(self):
        return _Tensor([float(sum(list(self)))])
    def cumsum(self, dim):
        return _Tensor(sum(self[: at + 1]) for at in range(len(self)))
    def sort(self):
        order = sorted(range(len(self)), key=lambda at: self[at])
        return _Tensor(float(self[at]) for at in order), _Tensor(order)
def tensor(values, dtype=None, device=None):
    return _Tensor(values)
def matmul(left, right):
    columns = list(zip(*right))
    return _Tensor([sum(a * b for a, b in zip(row, one)) for one in columns] for row in left)
def _init():
    if not _works:
        raise RuntimeError(os.environ.get("FAKE_WORDS") or "No CUDA GPUs are available")
cuda = SimpleNamespace(
    is_available=lambda: _works, device_count=lambda: int(_works), init=_init,
    is_initialized=lambda: False, is_bf16_supported=lambda: True,
    get_device_properties=lambda index: _card, get_device_name=lambda index=0: _card.name,
    get_device_capability=lambda index=0: (_card.major, _card.minor),
    get_arch_list=lambda: os.environ["FAKE_ARCHS"].split() if _works else [],
)
_C = SimpleNamespace(_cuda_getArchFlags=lambda: os.environ.get("FAKE_ARCHS", ""))
_cudnn = int(os.environ.get("FAKE_CUDNN", "0"))
backends = SimpleNamespace(cudnn=SimpleNamespace(
    version=lambda: _cudnn or None, is_available=lambda: bool(_cudnn), enabled=True))
'''


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the fakes say."""

    torch: str
    cuda: str | None
    archs: str = ""
    cudnn: int = 0
    works: bool = True
    words: str = ""
    """What torch raises where CUDA does not work."""
    driver: str | None = "580.95.05"
    gpu: str = "NVIDIA A100-SXM4-80GB"
    capability: str = "8.0"
    memory_bytes: int = 80 << 30
    used_bytes: int = 0
    """Memory of the one other process, if there is one."""
    init_error: int = 0
    nvml_error: int = 0

    def variables(self) -> dict[str, str]:
        """Return what the fakes read."""
        return {
            "FAKE_DRIVER": self.driver or "",
            "FAKE_GPU": self.gpu,
            "FAKE_CAPABILITY": self.capability,
            "FAKE_MEMORY": str(self.memory_bytes),
            "FAKE_USED": str(self.used_bytes),
            "FAKE_ARCHS": self.archs,
            "FAKE_CUDNN": str(self.cudnn),
            "FAKE_WORKS": str(int(self.works)),
            # Where who else uses the card matters: the driver must have answered by then.
            "FAKE_IMPORT_S": "3" if self.used_bytes else "0",
            "FAKE_WORDS": self.words,
            "FAKE_INIT_ERROR": str(self.init_error),
            "FAKE_NVML_ERROR": str(self.nvml_error),
        }


def build_libraries(folder: Path) -> Path:
    """Compile both libraries; the test is skipped without a compiler, or beside a real driver."""
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("the real kernel module of this machine would contradict the fake driver")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build fake libraries with")
    folder.mkdir()
    for name, source in (("libnvidia-ml.so.1", _NVML), ("libcuda.so", _LIBCUDA)):
        file = folder / f"{name}.c"
        file.write_text(_SOURCE + source, encoding="ascii")
        command = [compiler, "-w", "-shared", "-fPIC", "-o", str(folder / name), str(file)]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
    return folder


def install(machine: Machine, folder: Path, libraries: Path) -> tuple[Path, dict[str, str]]:
    """Lay out one machine; return the interpreter of its environment and the variables to set."""
    folder.mkdir(parents=True, exist_ok=True)
    python = bare_venv(folder / "env")
    _install_torch(machine, next((folder / "env" / "lib").glob("python*/site-packages")))
    drivers = folder / "driver"
    drivers.mkdir()
    if machine.driver is not None:
        shutil.copy(libraries / "libnvidia-ml.so.1", drivers)
        shutil.copy(libraries / "libcuda.so", drivers / f"libcuda.so.{machine.driver}")
        (drivers / "libcuda.so.1").symlink_to(f"libcuda.so.{machine.driver}")
    tool = folder / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(_NVIDIA_SMI)
    tool.chmod(0o755)
    path = os.pathsep.join((str(tool.parent), os.environ.get("PATH", "")))
    variables = {**machine.variables(), "LD_LIBRARY_PATH": str(drivers), "PATH": path}
    return python, variables


def _install_torch(machine: Machine, site_packages: Path) -> None:
    package = site_packages / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(_TORCH)
    told = {"__version__": machine.torch, "cuda": machine.cuda, "hip": None}
    lines = (f"{name} = {value!r}\n" for name, value in told.items())
    (package / "version.py").write_text("".join(lines))
    records = site_packages / f"torch-{machine.torch}.dist-info"
    records.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {machine.torch}\n"
    (records / "METADATA").write_text(metadata)
    (records / "INSTALLER").write_text("pip\n")
    (records / "RECORD").write_text("torch/__init__.py,,\ntorch/version.py,,\n")
