"""Which variables of the process environment change what torch does, and their values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from envkit.model.facts import EnvironmentFacts
from envkit.model.observed import Known
from envkit.sources.redacted import home_folders, redact

SOURCE: Final = "process environment"

#: Names are listed one by one: what is not named here never enters a report. From the variables
#: that PyTorch's and NVIDIA's documentation and PyTorch's libraries name as changing memory,
#: numbers, visible devices or stability (looked up 2026-11-30), without those for logs and dumps.
_NAMES: Final = (
    # allocator
    "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF "
    "PYTORCH_NO_CUDA_MEMORY_CACHING TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC "
    # cuBLAS, cuDNN and the choice between libraries
    "CUBLAS_WORKSPACE_CONFIG CUBLASLT_WORKSPACE_SIZE TORCH_CUBLASLT_UNIFIED_WORKSPACE "
    "TORCH_CUBLAS_WORKSPACE_CACHE TORCH_BLAS_PREFER_CUBLASLT TORCH_LINALG_PREFER_CUSOLVER "
    "TORCH_CUDNN_V8_API_ENABLED TORCH_CUDNN_V8_API_DISABLED TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT "
    "TORCH_CUDNN_USE_HEURISTIC_MODE_B TORCH_CUDNN_SDPA_ENABLED TORCH_CUDNN_SDPA_DEPRIORITIZED "
    "TORCH_CUDNN_SDPA_AVOID_RECOMPILE CUDNN_CONV_WSCAP_DBG CUDNN_ERRATA_JSON_FILE "
    "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK PYTORCH_TUNABLEOP_ENABLED "
    # precision
    "NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE "
    # CUDA: devices, loading of kernels, sharing of a GPU
    "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING CUDA_LAUNCH_BLOCKING "
    "CUDA_CACHE_DISABLE CUDA_FORCE_PTX_JIT CUDA_DISABLE_PTX_JIT CUDA_DEVICE_MAX_CONNECTIONS "
    "CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUDA_MPS_PINNED_DEVICE_MEM_LIMIT "
    "NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES PYTORCH_NVML_BASED_CUDA_CHECK "
    "TORCH_CUDA_ARCH_LIST HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION "
    # the loader and Python's own path
    "LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PYTHONHOME PYTHONNOUSERSITE PYTHONHASHSEED "
    # CPU
    "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS MKL_DYNAMIC MKL_CBWR "
    "MKL_ENABLE_INSTRUCTIONS MKL_SERVICE_FORCE_INTEL KMP_AFFINITY KMP_BLOCKTIME "
    "KMP_DUPLICATE_LIB_OK ATEN_CPU_CAPABILITY "
    # communication
    "TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_HIGH_PRIORITY "
    "TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC "
    "TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_NAN_CHECK TORCH_NCCL_AVOID_RECORD_STREAMS "
    "TORCH_NCCL_USE_COMM_NONBLOCKING TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK "
    "TORCH_NCCL_CUDA_EVENT_CACHE NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_P2P_DISABLE "
    "NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_SOCKET_IFNAME NCCL_ALGO NCCL_PROTO "
    "NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_BUFFSIZE NCCL_NTHREADS NCCL_CUMEM_ENABLE "
    "NCCL_CUMEM_HOST_ENABLE NCCL_NVLS_ENABLE NCCL_GRAPH_REGISTER NCCL_LOCAL_REGISTER "
    "NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_NET_GDR_READ NCCL_RUNTIME_CONNECT "
    "NCCL_MNNVL_ENABLE NCCL_LAUNCH_MODE NCCL_TOPO_FILE NCCL_IGNORE_CPU_AFFINITY"
)
ALLOWED: Final = frozenset(_NAMES.split())
#: How CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES may name a card or a slice of one.
_UUID: Final = re.compile(r"(?i)\b(GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def read_environment(environ: Mapping[str, str]) -> EnvironmentFacts:
    """Return the variables on the allow-list, by name; addresses and the home folder redacted."""
    found = allowed(environ, homes=home_folders(environ))
    return EnvironmentFacts(variables=Known(value=found, source=SOURCE))


def allowed(variables: Mapping[str, str], *, homes: Sequence[str] = ()) -> dict[str, str]:
    """Return the variables on the allow-list, redacted, wherever they were recorded."""
    return {
        name: _UUID.sub(_hashed, redact(variables[name], homes=homes))
        for name in sorted(ALLOWED)
        if name in variables
    }


def _hashed(uuid: re.Match[str]) -> str:
    # As `Gpu.uuid_hash` has it, so that a variable still says which card it names.
    return f"{uuid[1]}-{hashlib.sha256(uuid[0].encode()).hexdigest()[:16]}"
