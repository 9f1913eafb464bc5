"""What can be known about a machine and a target environment, in families of named facts.

Every fact is `Observed`: a source fills in what it can read and leaves the rest `NOT_RECORDED`, so
a live machine, a saved report, a paste and an imagined machine are judged by the same code.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envkit.model.observed import NOT_RECORDED, Observed

Scalar: TypeAlias = bool | int | float | str
#: A setting of the allocator: `roundup_power2_divisions` is a table.
Setting: TypeAlias = Scalar | dict[str, int]
FailOnName: TypeAlias = Literal["error", "warning", "unknown"]
OsName: TypeAlias = Literal["linux", "windows", "wsl", "macos"]


class Waiver(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that the configuration says not to count."""

    code: str
    reason: str
    until: str
    """Last day on which it holds, `2027-01-31`."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a process in a job of several (`torchrun`)."""

    rank: int
    world: int
    """Number of ranks."""
    local: int
    """Number of the rank on its machine: the GPU that it takes."""
    job: str
    """The same for the ranks of one job: 16 hexadecimal digits."""


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the user asked to be judged; kept so that a saved report gives the same verdict."""

    device: Observed[str] = NOT_RECORDED
    """`auto`, `cpu`, `cuda:N` or `all`."""
    suite: Observed[str] = NOT_RECORDED
    """Name of the fingerprint suite; not applicable with `--no-fingerprint`."""
    spec: Observed[str] = NOT_RECORDED
    """The spec to judge by, `vit@1.0.0` or a path; not applicable where there is none."""
    lock: Observed[str] = NOT_RECORDED
    """The lock to judge by, by its path; not applicable where there is none."""
    strict: Observed[bool] = NOT_RECORDED
    """Whether the environment has to be the lock, not only to satisfy the spec."""
    rank: Observed[Rank] = NOT_RECORDED
    """Which rank of a job this is; not recorded outside of one."""
    needs_gpu: Observed[bool] = NOT_RECORDED
    """Whether the device asked for, or the spec, needs a usable NVIDIA GPU."""
    fail_on: Observed[FailOnName] = NOT_RECORDED
    """What fails the verdict; each includes those before it."""
    waivers: Observed[tuple[Waiver, ...]] = NOT_RECORDED
    """Waivers of the configuration in force, expired ones included."""


class CudaError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the CUDA driver or runtime (numbers of `cudaError` / `CUresult`)."""

    code: int
    name: str = ""
    message: str = ""


class DriverFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The NVIDIA driver, as its libraries and the kernel see it."""

    version: Observed[str] = NOT_RECORDED
    """Driver version, e.g. `580.159.04`; on WSL and Windows the Windows number."""
    kernel_module: Observed[str] = NOT_RECORDED
    """Version of the loaded kernel module."""
    user_library: Observed[str] = NOT_RECORDED
    """Version in the file name of the libcuda that the loader finds."""
    cuda_version: Observed[str] = NOT_RECORDED
    """Newest CUDA version that the driver says it supports, e.g. `13.0`."""
    libcuda: Observed[str] = NOT_RECORDED
    """Path of the libcuda that the loader finds, symbolic links resolved."""
    compat_library: Observed[str] = NOT_RECORDED
    """Path of a forward-compatibility libcuda (`cuda-compat`) in use."""
    nvml_error: Observed[str] = NOT_RECORDED
    """Why NVML could not be used, in its words; absent when it worked."""
    cuda_error: Observed[CudaError] = NOT_RECORDED
    """What `cuInit` answered; absent when it worked."""


class PciDevice(msgspec.Struct, frozen=True, kw_only=True):
    """An NVIDIA display or 3D controller on the PCI bus, driver or not."""

    address: str
    device_id: str
    """`10de:` and four hexadecimal digits."""
    kernel_driver: Observed[str] = NOT_RECORDED


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory on a GPU, as NVML lists it."""

    memory_bytes: Observed[int]
    own: bool
    """Whether it is envkit's own child."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU as the driver reports it."""

    index: int
    name: Observed[str] = NOT_RECORDED
    compute_capability: Observed[str] = NOT_RECORDED
    """`9.0`"""
    memory_bytes: Observed[int] = NOT_RECORDED
    free_bytes: Observed[int] = NOT_RECORDED
    uuid_hash: Observed[str] = NOT_RECORDED
    """First 16 hexadecimal digits of the SHA-256 of the UUID: tells cards apart, names none."""
    mig: Observed[bool] = NOT_RECORDED
    ecc_uncorrected: Observed[int] = NOT_RECORDED
    """Uncorrected errors since the last reset (volatile)."""
    row_remap_pending: Observed[bool] = NOT_RECORDED
    compute_mode: Observed[str] = NOT_RECORDED
    """`default`, `exclusive_process` or `prohibited`."""
    processes: Observed[tuple[GpuProcess, ...]] = NOT_RECORDED
    throttle_reasons: Observed[tuple[str, ...]] = NOT_RECORDED
    nvlinks_active: Observed[int] = NOT_RECORDED
    """NVLink connections of this GPU that are up."""


class GpuLink(msgspec.Struct, frozen=True, kw_only=True):
    """How two GPUs reach each other, by NVML; `one` and `other` are its indices."""

    one: int
    other: int
    path: Observed[str]
    """The nearest they share: `board`, `pci_switch`, `pci_switches`, `host_bridge`, `numa_node` or
    `system`."""
    p2p_read: Observed[str]
    """`ok`, or why one cannot read the other's memory: `chipset_not_supported` ..."""
    p2p_write: Observed[str]
    p2p_nvlink: Observed[str]
    """Whether they do so by NVLink."""


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """A device that was measured beside others, or the device of one rank of a job."""

    place: str
    """`cuda:1`, as torch numbers it, or `rank 1`."""
    name: str
    """Of the GPU or of the processor; empty where that is not known."""
    outcome: Literal["agrees", "differs", "incomplete"]
    layers: tuple[str, ...] = ()
    """Layers of the fingerprint that differ; `self_test` where a known answer came out wrong."""
    reason: str = ""
    """What it differs from and in what, or why it could not be compared."""
    mem: str | None = None
    """Short digest of allocator, tensors and workspaces."""
    num: str | None = None
    """Short digest of the numerics."""


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """GPUs on the bus and as the driver lists them, before CUDA_VISIBLE_DEVICES."""

    pci_devices: Observed[tuple[PciDevice, ...]] = NOT_RECORDED
    devices: Observed[tuple[Gpu, ...]] = NOT_RECORDED
    links: Observed[tuple[GpuLink, ...]] = NOT_RECORDED
    """Each pair of GPUs; not applicable with fewer than two."""
    siblings: Observed[tuple[Sibling, ...]] = NOT_RECORDED
    """How the devices that were measured side by side compare (`--device all`, ranks of a job)."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The machine and its operating system."""

    os: Observed[OsName] = NOT_RECORDED
    os_release: Observed[str] = NOT_RECORDED
    """Name and version of the distribution."""
    kernel: Observed[str] = NOT_RECORDED
    arch: Observed[str] = NOT_RECORDED
    """`x86_64`, `aarch64`"""
    glibc: Observed[str] = NOT_RECORDED
    """Version of the host's C library; never the one an interpreter was built against."""
    container: Observed[str] = NOT_RECORDED
    """Kind of container (`docker`, `podman`, `apptainer`, `kubernetes`, `lxc`, `unknown kind`)."""
    jetson: Observed[bool] = NOT_RECORDED
    cpu_model: Observed[str] = NOT_RECORDED
    cpu_count: Observed[int] = NOT_RECORDED
    """Processors this process may use."""
    memory_bytes: Observed[int] = NOT_RECORDED


class EnvironmentFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Variables of the process that change what torch does (an allow-list, redacted)."""

    variables: Observed[dict[str, str]] = NOT_RECORDED


class PythonFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The interpreter of the target."""

    version: Observed[str] = NOT_RECORDED
    executable: Observed[str] = NOT_RECORDED
    implementation: Observed[str] = NOT_RECORDED


class CondaPackage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of `conda-meta`."""

    name: str
    version: str
    build: str
    channel: str = ""
    """Name or address of the channel, credentials removed."""
    subdir: str = ""
    url: str = ""
    md5: str = ""
    sha256: str = ""
    requested: bool = False
    """Whether the user named it (a `requested_spec` is recorded)."""


class CondaFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The conda prefix of the target."""

    prefix: Observed[str] = NOT_RECORDED
    packages: Observed[tuple[CondaPackage, ...]] = NOT_RECORDED


class PipDistribution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installed Python distribution (`*.dist-info`, `*.egg-info`)."""

    name: str
    """Normalised: lower case, runs of `-_.` become `-`."""
    version: str
    installer: str = ""
    """Content of INSTALLER: `pip`, `uv`, `conda` ..."""
    location: str = ""
    """Folder it lies in, relative to the prefix where it can be."""
    requires: tuple[str, ...] = ()
    """`Requires-Dist` lines that name torch, triton, NumPy or an NVIDIA package, as written."""


class PipFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The Python distributions of the target, conda's own records included."""

    distributions: Observed[tuple[PipDistribution, ...]] = NOT_RECORDED


class SpecDependency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conda dependency of a spec; an empty text asks for nothing in particular."""

    name: str
    version: str = ""
    """Constraint as written, `>=1.26,<2`."""
    build: str = ""
    """With `*` for any text."""
    channel: str = ""


class SpecRequirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pip requirement of a spec that has a name."""

    name: str
    """Normalised."""
    version: str = ""
    """Specifier of PEP 440, `==2.4.0`."""


class SpecVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that a spec sets, and whether it is set; never what it is set to instead."""

    name: str
    wanted: str
    state: Literal["in_effect", "on_activation", "different", "missing"]
    """`on_activation`: the environment sets it, but is not the active one here."""


class InstalledFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The lock that `envkit create` made an environment from."""

    spec: str
    """`vit@1.0.0`; empty where the lock does not say."""
    sha256: str
    """Of the lock's bytes."""


class BaselineCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a measured report differs, as `envkit diff` names it."""

    code: str
    title: str


class BaselineComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How this machine compares with a measured report, as `envkit diff` would say it."""

    name: str
    """The baseline, or the file of the report without its folder."""
    named_by: str
    """`--against`, or the spec that says it was measured so."""
    status: Literal["same", "different", "incomplete"]
    headline: str
    agreement: dict[str, Literal["same", "different", "not_comparable"]]
    """Layer to answer."""
    differing: tuple[str, ...] = ()
    """Layers that must agree and do not."""
    unchecked: tuple[str, ...] = ()
    """Layers that must agree and could not be compared."""
    differences: tuple[str, ...] = ()
    """The first values that differ where they must not: layer and key."""
    causes: tuple[BaselineCause, ...] = ()


class ContractFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the environment is to be: its lock and its spec, for the platform it is on.

    Not applicable where neither was named.
    """

    platform: Observed[str] = NOT_RECORDED
    """conda's name: `linux-64`."""
    packages: Observed[tuple[CondaPackage, ...]] = NOT_RECORDED
    """Locked conda packages; absent where the spec has no lock."""
    distributions: Observed[tuple[PipDistribution, ...]] = NOT_RECORDED
    """Locked pip packages."""
    lock_sha256: Observed[str] = NOT_RECORDED
    created_from: Observed[InstalledFrom] = NOT_RECORDED
    """What the environment says it was made from; absent where it says nothing."""
    dependencies: Observed[tuple[SpecDependency, ...]] = NOT_RECORDED
    requirements: Observed[tuple[SpecRequirement, ...]] = NOT_RECORDED
    channels: Observed[tuple[str, ...]] = NOT_RECORDED
    """Channels of the spec."""
    variables: Observed[tuple[SpecVariable, ...]] = NOT_RECORDED
    """Of the spec, else those that the lock has noted."""
    stale: Observed[tuple[str, ...]] = NOT_RECORDED
    """Why the lock is no longer that of the spec, a sentence each."""
    baselines: Observed[tuple[BaselineComparison, ...]] = NOT_RECORDED
    """The measured reports that the machine was held against."""


class FileProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that is not as the record of its package says."""

    package: str
    path: str
    """Relative to the prefix."""
    problem: Literal["missing", "altered", "not_a_file", "leads_outside"]
    written_by: str = ""
    """Distribution that wrote over it, where one lists the file too."""
    by_pip: bool = False
    """Whether the package is a distribution of pip, and the record its RECORD."""


class Overlap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A distribution of pip where conda has put a package."""

    name: str
    """Of the distribution."""
    version: str
    package: str
    """conda's name of the package underneath."""
    package_version: str
    files: int = 0
    """Files that both list; 0 where only the names were compared."""


class FilesFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files of a conda prefix against the records of conda and pip (`--deep`)."""

    checked: Observed[int] = NOT_RECORDED
    """Files hashed and compared."""
    checked_bytes: Observed[int] = NOT_RECORDED
    unhashed: Observed[int] = NOT_RECORDED
    """Files that are there and for which no record has a hash."""
    problem_count: Observed[int] = NOT_RECORDED
    problems: Observed[tuple[FileProblem, ...]] = NOT_RECORDED
    """The first of them, by path."""
    foreign_count: Observed[int] = NOT_RECORDED
    foreign: Observed[tuple[str, ...]] = NOT_RECORDED
    """Entries of site-packages of which nobody says that they installed them, the first by path."""
    overlaps: Observed[tuple[Overlap, ...]] = NOT_RECORDED
    """By name, and with `--deep` by file too."""


class ImportFailure(msgspec.Struct, frozen=True, kw_only=True):
    """How `import torch` ended when it did not work."""

    how: Literal["raised", "crashed", "timed_out", "exited"]
    message: str
    """Last line of the error, or the signal, or the stage it hung in."""


class TorchDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One CUDA device as torch sees it (after CUDA_VISIBLE_DEVICES)."""

    index: int
    name: str
    capability: str
    memory_bytes: int
    sm_count: int


class MappedLibrary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A library file mapped into the process after torch was imported."""

    name: str
    """File name, e.g. `libcudnn.so.9`."""
    path: str
    """Inside the target: relative to its prefix; elsewhere: the full path, home shortened."""
    owner: str = ""
    """Distribution or conda package that installed the file; empty when nobody says."""


class SelfTest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation with a known answer."""

    name: str
    status: Literal["pass", "fail", "not_run"]
    reason: str = ""


class TorchFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """torch in the target: first read from its files, then from the imported module."""

    version: Observed[str] = NOT_RECORDED
    """`2.11.0+cu130`"""
    cuda: Observed[str] = NOT_RECORDED
    """CUDA version of the build; absent for a build without CUDA."""
    hip: Observed[str] = NOT_RECORDED
    accelerator: Observed[str] = NOT_RECORDED
    """`cuda`, `rocm`, `xpu`, `mps`, `npu`, `tpu` or `cpu`: what the build computes on, where more
    than `cuda` and `hip` says so."""
    channel: Observed[str] = NOT_RECORDED
    """Where it came from: `pypi`, `pytorch`, `conda-forge`, `defaults`, `source` ..."""
    installer: Observed[str] = NOT_RECORDED
    """`conda`, `pip`, `uv`, `source`"""
    location: Observed[str] = NOT_RECORDED
    git_version: Observed[str] = NOT_RECORDED
    import_failure: Observed[ImportFailure] = NOT_RECORDED
    """Absent when the import worked; not applicable when it was not tried."""
    arch_list: Observed[tuple[str, ...]] = NOT_RECORDED
    """`sm_90`, `compute_120` ..."""
    cuda_available: Observed[bool] = NOT_RECORDED
    cuda_error: Observed[CudaError] = NOT_RECORDED
    """Why CUDA could not be initialised; absent when it could."""
    devices: Observed[tuple[TorchDevice, ...]] = NOT_RECORDED
    cudnn_compiled: Observed[int] = NOT_RECORDED
    """cuDNN version integer that torch was compiled with."""
    cudnn: Observed[int] = NOT_RECORDED
    """cuDNN version integer that is loaded."""
    nccl: Observed[str] = NOT_RECORDED
    cublas: Observed[str] = NOT_RECORDED
    allocator_backend: Observed[str] = NOT_RECORDED
    allocator_settings: Observed[dict[str, Setting]] = NOT_RECORDED
    """The settings in effect, as torch reports them."""
    allocator_conforms: Observed[bool] = NOT_RECORDED
    """Whether the exercises' counters are those of envkit's model of the allocator."""
    flags: Observed[dict[str, Scalar]] = NOT_RECORDED
    """Switches such as `cudnn.benchmark`, `matmul.allow_tf32`."""
    threads: Observed[int] = NOT_RECORDED
    numpy: Observed[str] = NOT_RECORDED
    libraries: Observed[tuple[MappedLibrary, ...]] = NOT_RECORDED
    self_tests: Observed[tuple[SelfTest, ...]] = NOT_RECORDED
    stderr_tail: Observed[str] = NOT_RECORDED
    """End of what torch wrote to standard error while it was imported, redacted."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read, by family."""

    request: RequestFacts = RequestFacts()
    driver: DriverFacts = DriverFacts()
    gpus: GpuFacts = GpuFacts()
    host: HostFacts = HostFacts()
    environment: EnvironmentFacts = EnvironmentFacts()
    python: PythonFacts = PythonFacts()
    conda: CondaFacts = CondaFacts()
    pip: PipFacts = PipFacts()
    contract: ContractFacts = ContractFacts()
    files: FilesFacts = FilesFacts()
    torch: TorchFacts = TorchFacts()
