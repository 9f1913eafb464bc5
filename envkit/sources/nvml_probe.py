"""Run as a program in a child process: what NVML and libcuda answer, one JSON object a line.

Started by path (`python -I -S -B nvml_probe.py`), so nothing of envkit can be imported here. Both
libraries are asked side by side, each in a thread of its own: either may never come back. Nothing
is changed on any GPU and no CUDA context is made.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
import threading
import time

TYPE_CHECKING = False  # importing `typing` costs 3 ms, and `hashlib` too, which waits for a GPU
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    Say: TypeAlias = Callable[..., None]

#: `CUresult` numbers that an installation can answer with, for a libcuda that cannot name them.
CUDA_ERRORS = {
    34: "CUDA_ERROR_STUB_LIBRARY",
    100: "CUDA_ERROR_NO_DEVICE",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "CUDA_ERROR_UNKNOWN",
}
#: `CUdevice_attribute` numbers.
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_MAX_GPUS = 64
#: Of more GPUs than any one machine has, the pairs are too many.
_MAX_LINKED = 16
#: `NVML_NVLINK_MAX_LINKS` of R580; a link that a GPU does not have is an error.
_MAX_NVLINKS = 36
#: `nvmlGpuP2PCapsIndex_t`
_P2P_CAPABILITIES = {"p2p_read": 0, "p2p_write": 1, "p2p_nvlink": 2}
_LINK_ANSWERS = ("path", *_P2P_CAPABILITIES)


def main() -> None:
    """Answer the request on standard input: library names, where pynvml is, and the time limit."""
    request = json.loads(sys.stdin.buffer.read())
    answers = os.dup(1)
    os.dup2(2, 1)  # what the libraries print must not mix with the answers
    # The question is what the machine has, in the order that NVML counts it.
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    lock = threading.Lock()

    def say(step: str, **fields: Any) -> None:
        line = json.dumps({"step": step, **fields}).encode("ascii") + b"\n"
        with lock:
            os.write(answers, line)

    def run_part(name: str, ask: Callable[[dict[str, Any], Say], None]) -> None:
        ask(request, say)
        say("finished", part=name)

    parts = {
        name: threading.Thread(target=run_part, args=(name, ask), daemon=True)
        for name, ask in (("nvml", ask_nvml), ("libcuda", ask_libcuda))
    }
    for thread in parts.values():
        thread.start()
    deadline = time.monotonic() + request["limit_s"]
    for name, thread in parts.items():
        thread.join(timeout=max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            say("hung", part=name)
    # A thread that hangs in a driver call would keep an ordinary exit waiting.
    os._exit(0)


def load_library(names: Iterable[str]) -> tuple[Any, str, bool]:
    """Load the first library that is there.

    Returns the handle or None, why not, and whether a file is there that could not be loaded.
    """
    missing = ""
    for name in names:
        library = _load(name)
        if not isinstance(library, str):
            return library, "", False
        if not library.startswith((f"{name}: cannot open shared object file", "Could not find")):
            return None, library, True
        missing = missing or library
    return None, missing or "there is no such library for this system", False


def _load(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        return str(error)


def text_of(value: Any) -> str:
    """Return the text of an answer: older versions of pynvml give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def uuid_hash(uuid: str) -> str:
    """Return what is kept of a UUID; the UUID itself never leaves this process."""
    digest: str = importlib.import_module("hashlib").sha256(uuid.encode()).hexdigest()
    return digest[:16]


# --- NVML ---------------------------------------------------------------------------------------


def ask_nvml(request: dict[str, Any], say: Say) -> None:
    """Ask NVML for the driver and for every GPU."""
    say("begin", part="nvml", call="loading the library")
    handle, reason, is_broken = load_library(request["nvml_libraries"])
    if handle is None:
        say("nvml", found=is_broken, error={"code": 0, "message": reason})
        return
    if request["pynvml_folder"]:
        # Last: a folder of packages must not stand in front of the standard library.
        sys.path.append(request["pynvml_folder"])
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        say("nvml", found=True, error={"code": 0, "message": f"pynvml: {error}"})
        return
    say("begin", part="nvml", call="nvmlInit")
    started = _attempt(nvml, nvml.nvmlInit)
    if "error" in started:
        say("nvml", found=True, error=started["error"])
        return
    say("begin", part="nvml", call="asking for the driver")
    count = _attempt(nvml, nvml.nvmlDeviceGetCount)
    say(
        "nvml",
        found=True,
        driver_version=_attempt(nvml, lambda: text_of(nvml.nvmlSystemGetDriverVersion())),
        cuda_version=_attempt(nvml, lambda: int(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        gpu_count=count,
    )
    for index in range(min(int(count.get("value") or 0), _MAX_GPUS)):
        say("begin", part="nvml", call=f"asking GPU {index}")
        say("gpu", api="nvml", index=index, values=_nvml_gpu(nvml, index))
    _say_links(nvml, min(int(count.get("value") or 0), _MAX_LINKED), say)


def _say_links(nvml: Any, count: int, say: Say) -> None:
    """Ask for each pair of GPUs how they are connected."""
    handles = [_handle(nvml, index) for index in range(count)]
    for one in range(count):
        say("begin", part="nvml", call=f"asking for the links of GPU {one}")
        for other in range(one + 1, count):
            lost = next((end for end in (handles[one], handles[other]) if "error" in end), None)
            pair = (handles[one].get("value"), handles[other].get("value"))
            values = _link(nvml, pair) if lost is None else dict.fromkeys(_LINK_ANSWERS, lost)
            say("link", one=one, other=other, values=values)


def _handle(nvml: Any, index: int) -> dict[str, Any]:
    return _attempt(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))


def _link(nvml: Any, pair: tuple[Any, Any]) -> dict[str, Any]:
    def p2p(capability: int) -> dict[str, Any]:
        return _attempt(nvml, lambda: int(nvml.nvmlDeviceGetP2PStatus(*pair, capability)))

    found = {name: p2p(capability) for name, capability in _P2P_CAPABILITIES.items()}
    path = _attempt(nvml, lambda: int(nvml.nvmlDeviceGetTopologyCommonAncestor(*pair)))
    return {"path": path, **found}


def _attempt(nvml: Any, call: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"value": call()}
    except nvml.NVMLError as error:
        return {"error": {"code": int(getattr(error, "value", 0) or 0), "message": str(error)}}
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        # A pynvml or a driver that does not know the call, or answers in another shape.
        message = f"{type(error).__name__}: {error}"
        return {"error": {"code": 0, "message": message}}


def _nvml_gpu(nvml: Any, index: int) -> dict[str, Any]:
    found = _handle(nvml, index)
    if "error" in found:
        return {"name": found}
    gpu = found["value"]
    questions: dict[str, Callable[[], Any]] = {
        "name": lambda: text_of(nvml.nvmlDeviceGetName(gpu)),
        "compute_capability": lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(gpu)),
        "memory": lambda: _memory(nvml, gpu),
        "uuid_hash": lambda: uuid_hash(text_of(nvml.nvmlDeviceGetUUID(gpu))),
        "mig": lambda: int(nvml.nvmlDeviceGetMigMode(gpu)[0]) == 1,
        # 1, 0: uncorrected errors, since the last reset
        "ecc_uncorrected": lambda: int(nvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0)),
        # corrected, uncorrected, pending, failure
        "row_remap_pending": lambda: bool(nvml.nvmlDeviceGetRemappedRows(gpu)[2]),
        "compute_mode": lambda: int(nvml.nvmlDeviceGetComputeMode(gpu)),
        "processes": lambda: _processes(nvml, gpu),
        "throttle_mask": lambda: _throttle_mask(nvml, gpu),
        "nvlinks_active": lambda: _nvlinks_active(nvml, gpu),
    }
    return {name: _attempt(nvml, question) for name, question in questions.items()}


def _memory(nvml: Any, gpu: Any) -> list[int]:
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
    return [int(memory.total), int(memory.free)]


def _processes(nvml: Any, gpu: Any) -> list[dict[str, int | None]]:
    try:
        listed = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    except nvml.NVMLError as error:
        if getattr(error, "value", 0) != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        listed = nvml.nvmlDeviceGetComputeRunningProcesses_v2(gpu)  # drivers before R510
    return [
        {
            "pid": int(process.pid),
            "memory_bytes": None if process.usedGpuMemory is None else int(process.usedGpuMemory),
        }
        for process in listed
    ]


def _nvlinks_active(nvml: Any, gpu: Any) -> int:
    active = int(nvml.nvmlDeviceGetNvLinkState(gpu, 0))  # an error here: it has none at all
    try:
        for link in range(1, _MAX_NVLINKS):
            active += int(nvml.nvmlDeviceGetNvLinkState(gpu, link))
    except nvml.NVMLError:
        pass  # it has no more of them
    return active


def _throttle_mask(nvml: Any, gpu: Any) -> int:
    # The old name works with every driver; the new one needs R535.
    return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))


# --- libcuda ------------------------------------------------------------------------------------


def ask_libcuda(request: dict[str, Any], say: Say) -> None:
    """Ask libcuda where it is, which CUDA it supports, whether it works and which GPUs it sees."""
    say("begin", part="libcuda", call="loading the library")
    library, reason, is_broken = load_library(request["cuda_libraries"])
    if library is None:
        say("libcuda", found=False, broken=is_broken, reason=reason)
        return
    say("libcuda", found=True, paths=mapped_paths("libcuda.so"))
    try:
        _ask_loaded(library, say)
    except AttributeError as error:  # a library of that name without CUDA's functions
        message = f"not a CUDA driver library: {error}"
        say("cuda_init", error={"code": -1, "name": "", "message": message})


def _ask_loaded(library: Any, say: Say) -> None:
    say("begin", part="libcuda", call="cuDriverGetVersion")
    version = ctypes.c_int(0)
    code = library.cuDriverGetVersion(ctypes.byref(version))
    say("cuda_version", code=code, version=version.value)
    say("begin", part="libcuda", call="cuInit")
    code = library.cuInit(0)
    if code != 0:
        say("cuda_init", error=_cuda_error(library, code))
        return
    say("cuda_init", error=None)
    say("begin", part="libcuda", call="listing GPUs")
    count = ctypes.c_int(0)
    if library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return
    for index in range(min(count.value, _MAX_GPUS)):
        say("gpu", api="libcuda", index=index, values=_cuda_gpu(library, index))
    say("cuda_count", count=count.value)


def mapped_paths(name: str) -> list[str]:
    """Return the files of this name that are mapped into this process, links resolved."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
            lines = maps.read().splitlines()
    except OSError:
        return []
    # address permissions offset device inode path
    paths = [line.split(None, 5)[5] for line in lines if f"/{name}" in line]
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _cuda_error(library: Any, code: int) -> dict[str, Any]:
    texts = []
    for function in (library.cuGetErrorName, library.cuGetErrorString):
        text = ctypes.c_char_p()
        function(code, ctypes.byref(text))
        texts.append(text_of(text.value or b""))
    return {"code": code, "name": texts[0] or CUDA_ERRORS.get(code, ""), "message": texts[1]}


def _cuda_gpu(library: Any, index: int) -> dict[str, Any]:
    device = ctypes.c_int(0)
    if library.cuDeviceGet(ctypes.byref(device), index) != 0:
        return {}
    name = ctypes.create_string_buffer(256)
    total = ctypes.c_size_t(0)
    uuid = ctypes.create_string_buffer(16)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    values: dict[str, Any] = {}
    if library.cuDeviceGetName(name, 256, device) == 0:
        values["name"] = {"value": text_of(name.value)}
    if library.cuDeviceTotalMem_v2(ctypes.byref(total), device) == 0:
        values["memory"] = {"value": [total.value]}
    if library.cuDeviceGetUuid(uuid, device) == 0:
        digits = uuid.raw.hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        values["uuid_hash"] = {"value": uuid_hash("GPU-" + "-".join(parts))}
    get = library.cuDeviceGetAttribute
    codes = (
        get(ctypes.byref(major), _CAPABILITY_MAJOR, device),
        get(ctypes.byref(minor), _CAPABILITY_MINOR, device),
    )
    if codes == (0, 0):
        values["compute_capability"] = {"value": f"{major.value}.{minor.value}"}
    return values


if __name__ == "__main__":
    main()
