"""The door to the compatibility tables: every question that other packages ask.

Each table is read once a process, when the first question about it is asked. What the tables do
not say is answered with `Unknown`, never with a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from envkit.compat import arch, cudnn, driver, gpus, torch_builds, variables
from envkit.compat.advice import (
    Choice,
    MachineLimits,
    NoBuild,
    newest_torch,
    newest_torch_for_driver,
)
from envkit.compat.answers import Fit, Platform, Run, System, Unknown, system_of
from envkit.compat.arch import (
    ArchList,
    Channel,
    arch_list,
    code_runs_on,
    runs_on,
    toolkit_compiles,
)
from envkit.compat.cudnn import (
    cudnn_accepted,
    cudnn_decode,
    cudnn_encode,
    cudnn_row,
    cudnn_supports,
    parse_cudnn,
)
from envkit.compat.driver import (
    CudaError,
    DriverCuda,
    DriverFit,
    Requirement,
    cuda_error,
    driver_fit,
    forward_compat,
    least_driver,
    newest_cuda_for,
    runtime_floor,
    toolkit_driver,
)
from envkit.compat.gpus import CapabilityRow, Model, capability_row, driven_by, find_gpu
from envkit.compat.rows import Row, Source, Table, sources_of
from envkit.compat.torch_builds import (
    Build,
    NumpyGeneration,
    Release,
    build_of,
    builds_for,
    companion_fits,
    companions,
    compatible_vision,
    newest_release,
    numpy_generation,
    python_fits,
    release_of,
    wheel_index,
)
from envkit.compat.variables import (
    Flag,
    Option,
    Variable,
    allocator_option,
    option_introduced,
    option_known,
    recorded_variables,
    replaced_variable,
    variable,
)

__all__ = [
    "ArchList",
    "Build",
    "CapabilityRow",
    "Channel",
    "Choice",
    "CudaError",
    "DriverCuda",
    "DriverFit",
    "Fit",
    "Flag",
    "MachineLimits",
    "Model",
    "NoBuild",
    "NumpyGeneration",
    "Option",
    "Platform",
    "Release",
    "Requirement",
    "Row",
    "Run",
    "Source",
    "System",
    "Table",
    "TableName",
    "Unknown",
    "Variable",
    "allocator_option",
    "arch_list",
    "build_of",
    "builds_for",
    "capability_row",
    "code_runs_on",
    "companion_fits",
    "companions",
    "compatible_vision",
    "cuda_error",
    "cudnn_accepted",
    "cudnn_decode",
    "cudnn_encode",
    "cudnn_row",
    "cudnn_supports",
    "driven_by",
    "driver_fit",
    "find_gpu",
    "forward_compat",
    "least_driver",
    "newest_cuda_for",
    "newest_release",
    "newest_torch",
    "newest_torch_for_driver",
    "numpy_generation",
    "option_introduced",
    "option_known",
    "parse_cudnn",
    "python_fits",
    "recorded_variables",
    "release_of",
    "replaced_variable",
    "runs_on",
    "runtime_floor",
    "sources_for",
    "system_of",
    "table_named",
    "tables_date",
    "toolkit_compiles",
    "toolkit_driver",
    "variable",
    "wheel_index",
]

TableName = Literal["arch", "cudnn", "driver", "gpus", "torch", "variables"]

_READERS: dict[TableName, Callable[[], Table]] = {
    "arch": arch.table,
    "cudnn": cudnn.table,
    "driver": driver.table,
    "gpus": gpus.table,
    "torch": torch_builds.table,
    "variables": variables.table,
}


def table_named(name: TableName) -> Table:
    """Return a whole table."""
    return _READERS[name]()


def tables_date(name: TableName | None = None) -> str:
    """Return the ISO date on which a table was gone through; without a name the oldest of all."""
    names = list(_READERS) if name is None else [name]
    return min(_READERS[one]().read for one in names)


def sources_for(name: TableName, row: Row) -> tuple[Source, ...]:
    """Return where a row of a table was read: the evidence that a finding rests on."""
    return sources_of(_READERS[name](), row)
