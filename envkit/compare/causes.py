"""The causes of differences, CAU001 to CAU017, as data.

What each one moves is measured where FINGERPRINT-like planted differences were run on a GPU (the
allocator settings, TF32, cudnn.benchmark, cuDNN off), on the CPU for threads, and from the sources
of torch otherwise; every cause says which. The order is that of specificity: of two causes that
explain as much, the one that stands first is named first (the GPU model before the workspace that
follows from it).
"""

from __future__ import annotations

from typing import Final

from envkit.compare.cause import FROM_SOURCES, ON_ONE_MODEL, CauseRule
from envkit.compare.cause_facts import (
    another_driver,
    another_gpu,
    another_process,
    another_processor,
    another_step,
    another_torch_package,
    mig_slices,
    no_caching,
    other_packages,
    workspaces_by_architecture,
)
from envkit.compare.contrast import Contrast
from envkit.model.finding import Evidence


def prove(contrast: Contrast) -> Evidence | None:
    """Replay the exercises in the allocator model, which is loaded only for this."""
    from envkit.compare import allocator_proof  # noqa: PLC0415

    return allocator_proof.prove(contrast)


_NOTES: Final = "https://docs.pytorch.org/docs/stable/notes"
_STREAMS: Final = frozenset({"tensors", "workspaces"})
_ALL: Final = frozenset({"allocator", *_STREAMS, "peaks", "numerics", "context"})
_MEASURED_OF_A_STEP: Final = frozenset({*_STREAMS, "peaks", "numerics"})
_LIBRARY: Final = frozenset({"workspaces", "peaks", "numerics", "context"})

CAUSES: Final = (
    CauseRule(
        code="CAU001",
        title="Other settings of the CUDA caching allocator",
        moves=frozenset({"allocator", "peaks", "context"}),
        measured=frozenset({"allocator", "peaks"}),
        known_from=f"{ON_ONE_MODEL}: counters and peaks, never a stream; and the allocator model",
        source=f"{_NOTES}/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
        variables=("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"),
        all_settings=True,
        proof=prove,
    ),
    CauseRule(
        code="CAU011",
        title="Caching is off, or another allocator is in use",
        moves=frozenset({"allocator", "peaks", "context"}),
        known_from=FROM_SOURCES,
        source=f"{_NOTES}/cuda.html#memory-management",
        variables=("PYTORCH_NO_CUDA_MEMORY_CACHING",),
        facts=("torch.allocator_backend",),
        find=no_caching,
    ),
    CauseRule(
        code="CAU003",
        title="Another precision of matrix products (TF32, reduced precision)",
        moves=frozenset({"numerics", "workspaces", "peaks", "context"}),
        measured=frozenset({"numerics"}),
        known_from=f"{ON_ONE_MODEL}: TF32 for products moved matmul and loss bits only",
        source=f"{_NOTES}/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
        flags=(
            "matmul.allow_tf32",
            "cudnn.allow_tf32",
            "float32_matmul_precision",
            "matmul.allow_fp16_reduced_precision_reduction",
            "matmul.allow_bf16_reduced_precision_reduction",
            "matmul.allow_fp16_accumulation",
        ),
        variables=("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        numerics=r"(vit|resnet|gpt)\.|numerics\.(matmul|linear|conv|sdpa|linalg)",
    ),
    CauseRule(
        code="CAU004",
        title="cuDNN chooses its algorithms by trial (cudnn.benchmark)",
        moves=_LIBRARY | _STREAMS,
        measured=frozenset({"workspaces", "peaks", "numerics", "context"}),
        known_from=f"{ON_ONE_MODEL}: streams, peaks, ResNet loss bits, conv bits, context",
        source=f"{_NOTES}/randomness.html#cuda-convolution-benchmarking",
        flags=("cudnn.benchmark", "cudnn.benchmark_limit"),
        numerics=r"resnet\.|numerics\.conv",
    ),
    CauseRule(
        code="CAU006",
        title="cuDNN is off, or another version",
        moves=_LIBRARY | _STREAMS,
        measured=frozenset({"workspaces", "peaks", "numerics", "context"}),
        known_from=f"{ON_ONE_MODEL} for cuDNN off: streams, peaks, conv bits, context",
        source="https://docs.pytorch.org/docs/stable/backends.html#torch-backends-cudnn",
        flags=("cudnn.enabled",),
        variables=(
            "TORCH_CUDNN_V8_API_DISABLED",
            "TORCH_CUDNN_USE_HEURISTIC_MODE_B",
            "CUDNN_CONV_WSCAP_DBG",
            "CUDNN_ERRATA_JSON_FILE",
        ),
        facts=("torch.cudnn",),
        key=("cudnn",),
        numerics=r"resnet\.|vit\.|numerics\.(conv|sdpa\.cudnn)",
    ),
    CauseRule(
        code="CAU007",
        title="Another backend of attention",
        moves=_LIBRARY | _STREAMS,
        known_from=FROM_SOURCES,
        source="https://docs.pytorch.org/docs/stable/generated/"
        "torch.nn.functional.scaled_dot_product_attention.html",
        flags=("sdp.flash", "sdp.mem_efficient", "sdp.math", "sdp.cudnn"),
        variables=("TORCH_CUDNN_SDPA_ENABLED", "TORCH_CUDNN_SDPA_DEPRIORITIZED"),
        numerics=r"(vit|gpt)\.|numerics\.sdpa",
    ),
    CauseRule(
        code="CAU005",
        title="Deterministic algorithms are asked for on one side only",
        moves=_LIBRARY | _STREAMS,
        known_from=FROM_SOURCES,
        source=f"{_NOTES}/randomness.html#avoiding-nondeterministic-algorithms",
        flags=("deterministic_algorithms", "deterministic_warn_only", "cudnn.deterministic"),
    ),
    CauseRule(
        code="CAU014",
        title="A MIG slice instead of the whole GPU, or another slice",
        moves=frozenset({"workspaces", "peaks", "numerics", "context"}),
        known_from=FROM_SOURCES,
        source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
        find=mig_slices,
    ),
    CauseRule(
        code="CAU009",
        title="Another GPU model",
        moves=frozenset({"workspaces", "peaks", "numerics", "context"}),
        known_from=f"{FROM_SOURCES} across architectures",
        source=f"{_NOTES}/numerical_accuracy.html",
        key=("capability", "sm_count"),
        find=another_gpu,
    ),
    CauseRule(
        code="CAU002",
        title="Another cuBLAS or cuBLASLt workspace",
        moves=frozenset({"workspaces", "peaks", "numerics", "context"}),
        known_from=f"{FROM_SOURCES}; the size on one H200 was measured (33,554,432 B)",
        source="https://docs.nvidia.com/cuda/cublas/#results-reproducibility",
        flags=("preferred_blas_library",),
        variables=(
            "CUBLAS_WORKSPACE_CONFIG",
            "CUBLASLT_WORKSPACE_SIZE",
            "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
            "TORCH_BLAS_PREFER_CUBLASLT",
        ),
        facts=("torch.cublas",),
        find=workspaces_by_architecture,
    ),
    CauseRule(
        code="CAU010",
        title="Other CPU threads or another processor",
        moves=frozenset({"workspaces", "peaks", "numerics", "tensors", "context"}),
        measured=frozenset({"workspaces", "peaks", "numerics", "context"}),
        known_from="measured on one CPU (torch 2.13, 1 and 2 threads): workspaces, peaks and "
        "weights move, tensors do not; another processor is from the sources of torch",
        source=f"{_NOTES}/numerical_accuracy.html",
        key=("threads",),
        find=another_processor,
    ),
    CauseRule(
        code="CAU012",
        title="CUDA modules are loaded otherwise",
        moves=frozenset({"context"}),
        known_from=FROM_SOURCES,
        source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/#lazy-loading",
        variables=("CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS"),
    ),
    CauseRule(
        code="CAU013",
        title="Another process, or a limit, takes memory of the GPU",
        moves=frozenset({"context", "peaks"}),
        measured=frozenset({"context"}),
        known_from=f"{ON_ONE_MODEL}: 130 GiB held by another process moved no digest",
        source="https://docs.nvidia.com/deploy/nvml-api/",
        variables=("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        find=another_process,
    ),
    CauseRule(
        code="CAU008",
        title="Another build or version of torch",
        moves=_ALL | {"packages"},
        known_from=FROM_SOURCES,
        source="https://github.com/pytorch/pytorch/releases",
        facts=("torch.version", "torch.cuda", "torch.hip", "torch.git_version"),
        key=("torch", "cuda"),
        find=another_torch_package,
    ),
    CauseRule(
        code="CAU016",
        title="Another driver",
        moves=frozenset({"context"}),
        known_from=FROM_SOURCES,
        source="https://docs.nvidia.com/deploy/cuda-compatibility/",
        find=another_driver,
    ),
    CauseRule(
        code="CAU015",
        title="Another set of packages",
        moves=frozenset({"packages"}),
        known_from="the packages themselves, as listed on both sides",
        source="https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html",
        find=other_packages,
    ),
    CauseRule(
        code="CAU017",
        title="The step itself is another, or what it reads",
        moves=_MEASURED_OF_A_STEP,
        measured=frozenset({"tensors", "workspaces", "numerics"}),
        known_from="measured on one CPU (torch 2.13): one iteration more in the step moved its "
        "tensors, workspaces and outputs, and no probe of the suite",
        source=f"{_NOTES}/randomness.html",
        find=another_step,
    ),
)

BY_CODE: Final = {rule.code: rule for rule in sorted(CAUSES, key=lambda rule: rule.code)}
