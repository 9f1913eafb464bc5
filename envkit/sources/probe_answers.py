"""Start the probe of NVML and libcuda in a child process and read what it answered."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from envkit.process import Completed, NotStarted, run
from envkit.sources.redacted import clipped, escape_control

PROBE: Final = Path(__file__).parent / "nvml_probe.py"
#: A machine with eight GPUs and no persistence daemon takes about ten seconds to wake them.
LIMIT_S: Final = 30.0
#: What the child needs beyond the limit of its own threads to start and to end.
MARGIN_S: Final = 5.0
MAX_MESSAGE_CHARS: Final = 300

Part: TypeAlias = Literal["nvml", "libcuda"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error that a library answered with."""

    code: int
    message: str = ""
    name: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One question: its answer, or the error."""

    value: Any = None
    error: Failure | None = None


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="step"):
    pass


class Begin(_Line, frozen=True, kw_only=True, tag="begin"):
    """The probe goes on to a call that may not come back."""

    part: Part
    call: str


class Nvml(_Line, frozen=True, kw_only=True, tag="nvml"):
    """What NVML says about itself and the driver."""

    found: bool
    error: Failure | None = None
    driver_version: Asked | None = None
    cuda_version: Asked | None = None
    gpu_count: Asked | None = None


class GpuAnswer(_Line, frozen=True, kw_only=True, tag="gpu"):
    """What one library says about one GPU."""

    api: Part
    index: int
    values: dict[str, Asked]


class LinkAnswer(_Line, frozen=True, kw_only=True, tag="link"):
    """What NVML says about how two GPUs are connected."""

    one: int
    other: int
    values: dict[str, Asked]


class LibCuda(_Line, frozen=True, kw_only=True, tag="libcuda"):
    """Whether the loader finds libcuda, and which file that is."""

    found: bool
    """Whether it could be loaded."""
    broken: bool = False
    """Whether a file of that name is there and could not be loaded."""
    reason: str = ""
    paths: tuple[str, ...] = ()

    @property
    def is_missing(self) -> bool:
        """Whether the loader finds no file of that name."""
        return not self.found and not self.broken


class CudaVersion(_Line, frozen=True, kw_only=True, tag="cuda_version"):
    """Answer of cuDriverGetVersion."""

    code: int
    version: int


class CudaInit(_Line, frozen=True, kw_only=True, tag="cuda_init"):
    """Answer of cuInit; no error when it worked."""

    error: Failure | None


class CudaCount(_Line, frozen=True, kw_only=True, tag="cuda_count"):
    """Number of GPUs that libcuda lists."""

    count: int


class Finished(_Line, frozen=True, kw_only=True, tag="finished"):
    """A part has answered everything."""

    part: Part


class Hung(_Line, frozen=True, kw_only=True, tag="hung"):
    """A part did not come back within its limit."""

    part: Part


Line: TypeAlias = (
    Begin
    | Nvml
    | GpuAnswer
    | LinkAnswer
    | LibCuda
    | CudaVersion
    | CudaInit
    | CudaCount
    | Finished
    | Hung
)


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the probe said before it ended, however it ended."""

    nvml: Nvml | None = None
    libcuda: LibCuda | None = None
    cuda_version: CudaVersion | None = None
    cuda_init: CudaInit | None = None
    cuda_count: CudaCount | None = None
    gpus: tuple[GpuAnswer, ...] = ()
    links: tuple[LinkAnswer, ...] = ()
    why_silent: dict[Part, str] = {}
    """For a part that was not finished: why, and in which call."""


def ask_driver(  # noqa: PLR0913 (the parts that a test replaces, each by its name)
    environ: Mapping[str, str],
    *,
    limit_s: float = LIMIT_S,
    python: str = sys.executable,
    pynvml_folder: Path | None = None,
    nvml_libraries: Sequence[str] | None = None,
    cuda_libraries: Sequence[str] | None = None,
) -> Answers:
    """Ask NVML and libcuda in a child process of envkit's own interpreter.

    Args:
        environ: the environment that the target runs in; its LD_LIBRARY_PATH decides which
            libraries are found. The child takes CUDA_VISIBLE_DEVICES out for itself.
        limit_s: how long each library may take.
        python: the interpreter of the child.
        pynvml_folder: the folder that holds `pynvml.py`; by default the one envkit imports.
        nvml_libraries: names to try for NVML; by default those of this system.
        cuda_libraries: names to try for libcuda; by default those of this system.

    """
    if not python:
        return _silent("envkit does not know its own interpreter, so no probe could be started")
    names = _LIBRARIES.get(sys.platform, _LIBRARIES["linux"])
    request = {
        "nvml_libraries": list(nvml_libraries if nvml_libraries is not None else names[0]),
        "cuda_libraries": list(cuda_libraries if cuda_libraries is not None else names[1]),
        "pynvml_folder": str(pynvml_folder or _own_pynvml() or ""),
        "limit_s": limit_s,
    }
    ended = run(
        [python, "-I", "-S", "-B", str(PROBE)],
        timeout_s=limit_s + MARGIN_S,
        stdin=msgspec.json.encode(request),
        env=environ,
        max_stdout_bytes=1 << 20,
    )
    if isinstance(ended, NotStarted):
        return _silent(f"the probe could not be started: {ended.reason}")
    return fold(_lines(ended.stdout), how_ended=_how_ended(ended, limit_s))


#: Names of NVML and of the CUDA driver library. On WSL the folder is not always in ld.so.conf.
_LIBRARIES: Final = {
    "linux": (
        ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"),
        ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"),
    ),
    "win32": (("nvml.dll",), ("nvcuda.dll",)),
    "darwin": ((), ()),
}


def fold(lines: Sequence[Line], *, how_ended: str) -> Answers:
    """Put the lines of the probe together; `how_ended` is why the rest did not come."""
    last_call: dict[Part, str] = {"nvml": "starting", "libcuda": "starting"}
    why_silent: dict[Part, str] = dict.fromkeys(last_call, how_ended)
    found: dict[str, Any] = {}
    gpus: list[GpuAnswer] = []
    links: list[LinkAnswer] = []
    for line in lines:
        match line:
            case Begin():
                last_call[line.part] = line.call
            case Hung():
                why_silent[line.part] = "it did not answer in time"
            case Finished():
                why_silent.pop(line.part, None)
            case GpuAnswer():
                gpus.append(line)
            case LinkAnswer():
                links.append(line)
            case _:
                found[_FIELDS[type(line)]] = line
    reasons = {part: f"{why} ({last_call[part]})" for part, why in why_silent.items()}
    return Answers(**found, gpus=tuple(gpus), links=tuple(links), why_silent=reasons)


_FIELDS: Final[dict[type, str]] = {
    Nvml: "nvml",
    LibCuda: "libcuda",
    CudaVersion: "cuda_version",
    CudaInit: "cuda_init",
    CudaCount: "cuda_count",
}
_DECODER: Final = msgspec.json.Decoder(Line)


def _lines(stdout: bytes) -> list[Line]:
    # After a crash the last line may be cut; nothing else can write to this descriptor.
    return [line for line in map(_line, stdout.splitlines()) if line is not None]


def _line(content: bytes) -> Line | None:
    try:
        return _DECODER.decode(content)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None


def _how_ended(ended: Completed, limit_s: float) -> str:
    if ended.timed_out:
        return f"the probe did not end within {limit_s:g} s"
    if ended.signal:
        return f"the probe was ended by {ended.signal}"
    if ended.returncode:
        tail = ended.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        return f"the probe ended with exit code {ended.returncode}: {readable(tail)}"
    return "the probe did not ask further"


def readable(text: str) -> str:
    """Make a text from a library fit for a reason: one line, bounded, no control characters."""
    return clipped(escape_control(" ".join(text.split())), MAX_MESSAGE_CHARS)


def _silent(reason: str) -> Answers:
    return Answers(why_silent={"nvml": reason, "libcuda": reason})


def _own_pynvml() -> Path | None:
    try:
        spec = importlib.util.find_spec("pynvml")
    except (ImportError, ValueError):
        spec = None
    # Without it the child says that it cannot import pynvml.
    return Path(spec.origin).parent if spec is not None and spec.origin else None
