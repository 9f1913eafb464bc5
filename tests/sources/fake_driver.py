"""Fakes of the NVIDIA libraries: a libcuda built from a few lines of C, an NVML in Python."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

#: Every function that the probe calls; INIT, COUNT and BEFORE_INIT are given by the test.
LIBCUDA = r"""
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
#include <signal.h>
int cuDriverGetVersion(int *v) { *v = VERSION; return VERSION ? 0 : 34; }
int cuInit(unsigned flags) {
    printf("noise that a library prints"); fflush(stdout);
    if (getenv("CUDA_VISIBLE_DEVICES")) return 100;
    BEFORE_INIT;
    return INIT;
}
int cuGetErrorName(int e, const char **t) {
    *t = e == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : 0;
    return 0;
}
int cuGetErrorString(int e, const char **t) { *t = e == 803 ? "halves differ" : 0; return 0; }
int cuDeviceGetCount(int *n) { *n = COUNT; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake GPU %d", d); return 0; }
int cuDeviceTotalMem_v2(size_t *b, int d) { *b = (size_t)80 << 30; return 0; }
int cuDeviceGetUuid(unsigned char *u, int d) { memset(u, 0x10 + d, 16); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
"""

#: Just enough of NVML's C interface for the real pynvml; INIT is given by the test.
LIBNVML = r"""
#include <string.h>
int nvmlInitWithFlags(unsigned flags) { return INIT; }
const char *nvmlErrorString(int e) { return e == 18 ? "Driver/library version mismatch" : "?"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strcpy(text, "550.54.15"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 0; return 0; }
"""

#: NVML in Python with one H100-like GPU, one without MIG and ECC, and one that is lost.
PYNVML = """
NVML_ERROR_FUNCTION_NOT_FOUND = 13

class NVMLError(Exception):
    def __init__(self, value, text):
        super().__init__(text)
        self.value = value

class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)

def nvmlInit():
    print("noise that a library prints", end="", flush=True)
    {on_init}

def nvmlSystemGetDriverVersion(): return b"570.86.15"
def nvmlSystemGetCudaDriverVersion_v2(): return 12080
def nvmlDeviceGetCount(): return 3
def nvmlDeviceGetHandleByIndex(i):
    if i == 2:
        raise NVMLError(15, "GPU is lost")
    return i
def nvmlDeviceGetName(h): return ["Fake H100", "Fake RTX\\x1b[31m"][h]
def nvmlDeviceGetCudaComputeCapability(h): return [(9, 0), (8, 6)][h]
def nvmlDeviceGetMemoryInfo(h): return Record(total=80 << 30, free=70 << 30)
def nvmlDeviceGetUUID(h): return "GPU-10101010-1010-1010-1010-101010101010"
def unsupported(h, *rest):
    if h == 1:
        raise NVMLError(3, "Not Supported")
def nvmlDeviceGetMigMode(h): return unsupported(h) or [1, 1]
def nvmlDeviceGetTotalEccErrors(h, kind, counter):
    assert (kind, counter) == (1, 0)
    return unsupported(h) or 4
def nvmlDeviceGetRemappedRows(h): return unsupported(h) or (0, 1, 1, 0)
def nvmlDeviceGetComputeMode(h): return [3, 7][h]
def nvmlDeviceGetComputeRunningProcesses(h):
    raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found")
def nvmlDeviceGetComputeRunningProcesses_v2(h):
    return [Record(pid=41, usedGpuMemory=None), Record(pid=42, usedGpuMemory=5 << 30)][:2 - h]
def nvmlDeviceGetCurrentClocksThrottleReasons(h): return [0x1 | 0x4 | 0x40 | 0x4000, 0x1][h]
"""


def build_libcuda(  # noqa: PLR0913 (what the fake answers)
    folder: Path,
    *,
    name: str = "libcuda.so.570.86.15",
    version: int = 12080,
    init: int = 0,
    count: int = 2,
    before_init: str = "(void)0",
) -> Path:
    """Compile a libcuda whose file is called `name`; the test is skipped without a compiler."""
    defines: Mapping[str, object] = {
        "VERSION": version,
        "INIT": init,
        "COUNT": count,
        "BEFORE_INIT": before_init,
    }
    return _compile(folder / name, LIBCUDA, [f"-D{key}={value}" for key, value in defines.items()])


def build_libnvml(folder: Path, *, init: int = 0) -> Path:
    """Compile an NVML for the real pynvml, which asks the loader for it by this name."""
    name = "libnvidia-ml.so.1"
    return _compile(folder / name, LIBNVML, [f"-DINIT={init}", f"-Wl,-soname,{name}"])


def _compile(library: Path, source: str, options: Sequence[str]) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a fake library with")
    library.parent.mkdir(parents=True, exist_ok=True)
    file = library.with_suffix(".c")
    file.write_text(source, encoding="ascii")
    subprocess.run(
        [compiler, "-shared", "-fPIC", *options, "-o", str(library), str(file)],
        check=True,
        timeout=60,
        capture_output=True,
    )
    return library


def write_pynvml(folder: Path, on_init: str = "pass") -> Path:
    """Write a `pynvml.py` and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = PYNVML.replace("{on_init}", on_init)
    (folder / "pynvml.py").write_text(text, encoding="utf-8")
    return folder
