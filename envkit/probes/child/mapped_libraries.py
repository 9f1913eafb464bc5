"""Which library files are mapped into this process, and the versions they themselves report."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Optional, Union

from .torch_api import Missing, attempt

#: Beginnings of the file names that say something about what torch computes with.
PREFIXES = (
    "libc10",
    "libcublas",
    "libcuda",
    "libcudnn",
    "libcudart",
    "libcufft",
    "libcufile",
    "libcupti",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnccl",
    "libnvJitLink",
    "libnvToolsExt",
    "libnvidia",
    "libnvrtc",
    "libnvshmem",
    "libtorch",
    "libshm",
    "libtriton",
    "libmkl",
    "libopenblas",
    "libblas",
    "liblapack",
    "libiomp",
    "libgomp",
    "libomp",
    "libvomp",
    "libittnotify",
    "libstdc++",
    "libgcc_s",
    "libgfortran",
    "libc.so",
    "libc-",
    "libm.so",
    "libm-",
    "libamdhip",
    "librocblas",
    "libMIOpen",
)


def mapped_libraries() -> "Union[list[dict[str, str]], Missing]":
    """Return `{path, realpath}` of the mapped libraries on the allow-list, sorted by path."""
    if not sys.platform.startswith("linux"):
        return Missing("which files are mapped can be read on Linux only")
    content = attempt(lambda: _read_text("/proc/self/maps"))
    if isinstance(content, Missing):
        return content
    paths = sorted(set(_paths(content)))
    return [{"path": path, "realpath": os.path.realpath(path)} for path in paths]


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _paths(maps: str) -> "list[str]":
    paths = []
    for line in maps.splitlines():
        # address perms offset dev inode pathname; the name may hold spaces
        path = line.split(None, 5)[-1]
        if not path.startswith("/"):
            continue
        path = path.rsplit(" (deleted)", 1)[0]
        name = os.path.basename(path)
        if name.startswith(PREFIXES) and ".so" in name:
            paths.append(path)
    return paths


def library_path(name_start: str) -> "Union[str, Missing]":
    """Return the path of the one mapped library whose file name starts so (`libcudart`)."""
    libraries = mapped_libraries()
    if isinstance(libraries, Missing):
        return libraries
    for library in libraries:
        if os.path.basename(library["path"]).startswith(name_start):
            return library["path"]
    return Missing("no {} is mapped into the process".format(name_start))


def _loaded(name_start: str) -> Any:
    """Return a ctypes handle on a library that is already mapped; nothing new is loaded."""
    path = library_path(name_start)
    if isinstance(path, Missing):
        return path
    # RTLD_NOLOAD (Linux: 4): only if it is there already, so that asking changes nothing.
    return attempt(lambda: ctypes.CDLL(path, mode=os.RTLD_NOW | getattr(os, "RTLD_NOLOAD", 4)))


def _integer_from(library: Any, function: str, *arguments: Any) -> "Union[int, Missing]":
    """Call `function(arguments..., int *out)`, which returns 0 when it worked."""
    if isinstance(library, Missing):
        return library
    out = ctypes.c_int(0)

    def ask() -> int:
        return int(getattr(library, function)(*arguments, ctypes.byref(out)))

    status = attempt(ask)
    if isinstance(status, Missing):
        return status
    if status != 0:
        return Missing("{} gave error {}".format(function, status))
    return out.value


def runtime_version() -> "Union[int, Missing]":
    """Return the CUDA runtime's version, 12040 for 12.4, from the mapped libcudart."""
    return _integer_from(_loaded("libcudart"), "cudaRuntimeGetVersion")


def driver_version() -> "Union[int, Missing]":
    """Return the newest CUDA version the loaded driver supports, 13000 for 13.0 (0: no driver)."""
    seen = _integer_from(_loaded("libcudart"), "cudaDriverGetVersion")
    if not isinstance(seen, Missing):
        return seen
    return _integer_from(_loaded("libcuda.so"), "cuDriverGetVersion")


def cublas_version() -> "Union[str, Missing]":
    """Return the version of the mapped cuBLAS as it reports it itself, `13.0.2`."""
    library = _loaded("libcublas.so")
    # 0, 1, 2: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL of CUDA's libraryPropertyType
    parts = [_integer_from(library, "cublasGetProperty", which) for which in range(3)]
    for part in parts:
        if isinstance(part, Missing):
            return part
    return ".".join(str(part) for part in parts)


def runtime_error() -> Any:
    """Ask the mapped CUDA runtime for its devices; `{code, name, message}`, or None if fine."""
    library = _loaded("libcudart")
    if isinstance(library, Missing):
        return library
    count = ctypes.c_int(0)

    def ask() -> "Optional[dict[str, Any]]":
        code = int(library.cudaGetDeviceCount(ctypes.byref(count)))
        if code == 0:
            return None
        library.cudaGetErrorName.restype = ctypes.c_char_p
        library.cudaGetErrorString.restype = ctypes.c_char_p
        name = library.cudaGetErrorName(code) or b""
        message = library.cudaGetErrorString(code) or b""
        return {
            "code": code,
            "name": name.decode("ascii", "replace"),
            "message": message.decode("ascii", "replace"),
        }

    return attempt(ask)
