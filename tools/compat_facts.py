"""How the facts on drivers, GPUs, cuDNN and variables become the tables of those names."""

from __future__ import annotations

import re

from compat_rows import Facts, Row, branch_number, made_row, made_rules, made_table

#: Variables whose values can name a folder, a host, a network card or a device of the user.
SENSITIVE = frozenset(
    {
        "CUDA_CACHE_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDNN_ERRATA_JSON_FILE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NCCL_SOCKET_IFNAME",
        "NCCL_TOPO_FILE",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    }
)


#: Old name -> newer name and the release from which the newer one is seen, as the effects and
#: notes of the facts say.
RENAMED = {
    "PYTORCH_CUDA_ALLOC_CONF": ("PYTORCH_ALLOC_CONF", "2.9"),
    "PYTORCH_HIP_ALLOC_CONF": ("PYTORCH_ALLOC_CONF", "2.9"),
    "NCCL_ASYNC_ERROR_HANDLING": ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2.2"),
    "NCCL_BLOCKING_WAIT": ("TORCH_NCCL_BLOCKING_WAIT", "2.2"),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": ("TORCH_FR_BUFFER_SIZE", "2.8"),
}


#: Option -> release without it, as the note of the facts says.
OPTION_REMOVED = {"roundup_bypass_threshold_mb": "2.0"}


#: What the error codes mean, in this project's words.
MEANING = {
    2: "The driver could not give the memory (or another resource) that was asked for.",
    34: "The libcuda that was loaded is a stub for linking, not a driver.",
    35: "The driver is too old for the CUDA runtime of this build.",
    100: "The driver sees no GPU.",
    209: "The build has no code for this GPU.",
    222: "The driver cannot compile this PTX: it comes from a newer toolkit than the driver.",
    802: "The GPUs are not ready yet: a service that they need is not running.",
    803: "The kernel module and the user-space CUDA driver have different versions.",
    804: "A cuda-compat driver library is in use on a GPU that it does not support.",
    919: "The NVLink fabric is still being set up; trying again later may work.",
    999: "The driver failed and does not say why.",
}


def driver(facts: Facts) -> Row:
    """Driver floors, toolkits, branches, cuda-compat, error codes."""
    given = facts["cuda_driver"]
    forward = given["forward_compat"]
    body: Row = {
        "floors": [
            made_row(
                floor,
                cuda_major=floor["cuda_major"],
                first_branch=floor["min_branch"],
                linux=floor["linux_min_driver"],
                windows=floor["windows_min_driver"],
            )
            for floor in given["minor_version_compat"]
        ],
        "toolkits": [
            made_row(
                kit,
                cuda=kit["version"],
                release=kit["release"],
                branch=branch_number(kit["driver_branch"]),
                linux=kit["linux_x86_64_driver"],
                windows=kit["windows_driver"],
            )
            for kit in given["toolkits"]
        ],
        "branches": [
            made_row(
                branch,
                branch=branch_number(branch["branch"]),
                cuda=branch["nvidia_smi_cuda_version"],
                last_for=branch.get("last_branch_for"),
            )
            for branch in given["driver_branches"]
        ],
        "forward": made_row(
            forward,
            applies_to=forward["applies_to"],
            not_for=forward["not_for"],
            package=forward["package"],
            libraries=forward["libraries"],
            not_supported=forward["not_supported"],
            virtual_memory=forward["vmm_note"],
        ),
        "forward_matrix": [_compat_row(row) for row in forward["matrix"]],
        "errors": [
            made_row(
                error,
                code=error["code"],
                name=error["name"],
                driver_name=error.get("driver_api_name"),
                meaning=MEANING[error["code"]],
                hint=_plain_hint(error.get("hint")),
                hint_verified=False if "not verified" in error.get("hint", "") else None,
            )
            for error in given["errors"]
        ],
        "rules": made_rules(given["rules"]),
    }
    return made_table("driver", given, body)


def _compat_row(row: Row) -> Row:
    by_state: dict[str, list[int]] = {}
    for branch, state in row["drivers"].items():
        by_state.setdefault(state, []).append(int(branch[1:]))
    return made_row(
        row,
        cuda=row["cuda"],
        works_on=by_state.get("compatible", []),
        needless_on=by_state.get("not_applicable", []),
        fails_on=by_state.get("not_compatible", []),
    )


def _plain_hint(hint: str | None) -> str | None:
    return hint and hint.replace(" (hint: not verified)", "")


def gpus(facts: Facts) -> Row:
    """GPU models, and per compute capability the toolkits and drivers that know it."""
    given = facts["gpus"]
    models = [_gpu(row) for row in given["gpus"]]
    body: Row = {
        "notes": {
            key: given["field_notes"][key]
            for key in ("min_driver_branch_for_cc", "first_open_kernel_driver", "device_names")
        },
        "capabilities": [
            _capability(architecture, capability, given["gpus"])
            for architecture in given["architectures"]
            for capability in architecture["cc"]
        ],
        "models": models,
    }
    body["notes"] = {
        "min_driver_branch": body["notes"]["min_driver_branch_for_cc"],
        "first_open_driver": body["notes"]["first_open_kernel_driver"],
        "device_names": body["notes"]["device_names"],
    }
    body["capabilities"].sort(key=lambda row: [int(part) for part in row["capability"].split(".")])
    return made_table("gpus", given, body)


def _gpu(row: Row) -> Row:
    unsure = [field for field, sure in row["verified"].items() if not sure]
    names = {"memory_gb": "memory_gb", "min_cuda_toolkit": "min_toolkit"}
    return made_row(
        {**row, "verified": True},
        name=row["name"],
        kind=row["class"],
        capability=row["compute_capability"],
        memory_gb=row["memory_gb"],
        device_names=row.get("device_names"),
        first_open_driver=row.get("first_open_kernel_driver"),
        unsure=[names.get(field, field) for field in unsure] or None,
    )


def _capability(architecture: Row, capability: str, models: list[Row]) -> Row:
    known = [row for row in models if row["compute_capability"] == capability]
    floors = {row["min_cuda_toolkit"] for row in known} or {architecture.get("min_cuda_toolkit")}
    branches = {row["min_driver_branch_for_cc"] for row in known} or {None}
    (floor,), (branch,) = floors, branches
    sure = all(row["verified"]["min_cuda_toolkit"] for row in known)
    return made_row(
        architecture,
        capability=capability,
        architecture=architecture["name"],
        min_toolkit=floor,
        max_toolkit=architecture.get("max_cuda_toolkit"),
        min_driver_branch=branch_number(branch),
        last_driver_branch=branch_number(architecture.get("last_driver_branch")),
        last_cudnn=architecture.get("last_cudnn_cu12"),
        unsure=None if sure else ["min_toolkit"],
    )


#: Names of the four sentences on cuDNN's version integer.
ENCODING_IDS = ("cudnn_8_and_older", "cudnn_9_and_newer", "decode", "build_number")


def cudnn(facts: Facts) -> Row:
    """CUDA majors and GPUs of each cuDNN version, and PyTorch's own checks."""
    given = facts["cudnn"]
    body: Row = {
        "versions": [_cudnn_versions(row) for row in given["versions"]],
        "wheels": [
            made_row(row, package=package, first=row["first"], last=row["last"])
            for package, row in given["pypi_wheels"].items()
        ],
        "encoding": [
            made_row(row, id=name, text=row.get("formula", row["rule"]))
            for name, row in zip(ENCODING_IDS, given["version_encoding"], strict=True)
        ],
        "rules": made_rules(given["rules"]),
    }
    return made_table("cudnn", given, body)


def _cudnn_versions(row: Row) -> Row:
    first, _, last = row["version"].partition("-")
    floors = re.findall(r"(\d+\.\d) with CUDA (\d+)", row.get("min_cc", ""))
    plain = row.get("min_cc") if not floors else None
    return made_row(
        row,
        first=first,
        last=last or first,
        cuda_majors=row["cuda_majors"],
        min_capability=plain,
        min_capability_by_cuda={int(cuda): floor for floor, cuda in floors} or None,
        linux=_first_words(row.get("linux_driver")),
        windows=_first_words(row.get("windows_driver")),
    )


def _first_words(drivers: Row | None) -> dict[int, str] | None:
    # "525.60.13 (570.26 for 12.8/12.9 with Blackwell)": the floor is the first word.
    if drivers is None:
        return None
    return {int(key): text.partition(" ")[0] for key, text in drivers.items() if text}


def variables(facts: Facts) -> Row:
    """Process variables, allocator options and torch flags that change memory or numbers."""
    given = facts["env_vars"]
    body: Row = {
        "variables": [_variable(row) for row in given["variables"]],
        "options": [_option(row) for row in given["allocator_options"]],
        "flags": [
            made_row(
                row,
                flag=row["flag"],
                changes=row["affects"],
                default=row["default"],
                values=row.get("values"),
                effect=row["effect"],
            )
            for row in given["torch_flags"]
        ],
    }
    return made_table("variables", given, body)


def _variable(row: Row) -> Row:
    newer, since = RENAMED.get(row["name"], (None, None))
    seen = row.get("seen_in_torch_wheels", {})
    return made_row(
        row,
        name=row["name"],
        kind=row["kind"],
        changes=row["affects"],
        compare=row["envkit_hint"],
        sensitive=row["name"] in SENSITIVE or None,
        default=row["default"],
        effect=row["effect"],
        introduced=row.get("introduced"),
        first_seen=seen.get("first"),
        last_seen=seen.get("last"),
        newer_name=newer,
        newer_since=since,
    )


def _option(row: Row) -> Row:
    earlier = row["introduced"].startswith("<=")
    default = row["default"]
    return made_row(
        row,
        option=row["option"],
        introduced=row["introduced"].removeprefix("<="),
        or_earlier=earlier or None,
        removed=OPTION_REMOVED.get(row["option"]),
        changes=row["affects"],
        default=None if default is None else str(default).lower(),
        values=row.get("values"),
        effect=row["effect"],
    )
