"""How the facts on PyTorch builds and their GPU code become `torch.yaml` and `arch.yaml`.

What a text of the facts says in prose ("12.8 (win), 12.9 (linux)") is taken apart into fields; what
is added stands in a constant with its reason.
"""

from __future__ import annotations

import re

from compat_rows import Facts, Row, made_row, made_rules, made_table


def torch(facts: Facts, pairs: list[Row]) -> Row:
    """PyTorch releases and their builds; the companions come from conda's records."""
    given = facts["pytorch_builds"]
    body: Row = {
        "newest": given["newest_on_pypi"],
        "defaults_note": given["pypi_default_note"],
        "releases": [_release(row) for row in given["releases"]],
        "companions": pairs,
        "numpy": NUMPY,
        "rules": made_rules(given["channel_facts"]),
    }
    return made_table("torch", given, body)


#: Not in the compatibility facts; read from the sources named on 2026-11-30.
NUMPY = [
    {"platform": "linux", "torch_from": "2.3.0", "numpy": 2, "source": ["numpy_issue"]},
    {"platform": "linux", "torch_before": "2.3.0", "numpy": 1, "source": ["numpy_issue"]},
    {
        "platform": "windows",
        "torch_from": "2.4.1",
        "numpy": 2,
        "note": "the Windows wheels of 2.4.1 were not checked",
        "verified": False,
        "source": ["numpy_windows"],
    },
    {"platform": "windows", "torch_before": "2.4.1", "numpy": 1, "source": ["numpy_windows"]},
    {
        "platform": "conda-forge",
        "torch_from": "2.3.0",
        "numpy": 2,
        "note": "records say numpy <3 from 2.3.0 on",
        "source": ["conda_records"],
    },
    {
        "platform": "conda-forge",
        "torch_before": "2.3.0",
        "numpy": 1,
        "note": "records of 2.1.2 say numpy <2.0a0; no others before 2.3.0 were seen",
        "source": ["conda_records"],
    },
]


def _release(row: Row) -> Row:
    conda, forge, wheel = (
        row["conda_pytorch_channel"],
        row["conda_forge"],
        row["linux_x86_64_wheel"],
    )
    commits = {
        name: row[key]
        for name, key in (
            ("torch", "git_commit"),
            ("builder", "builder_commit"),
            ("matrix", "matrix_commit"),
        )
        if key in row
    }
    return made_row(
        row,
        version=row["version"],
        date=row["release_date"],
        python=row["python_wheels"],
        requires_python=row["requires_python"],
        pypi_default=row["pypi_default"],
        triton=row["triton"],
        builds=[_build(build, row["version"]) for build in row["cuda_builds"]],
        wheel=made_row(
            wheel,
            tag=wheel["filename_tag"],
            glibc_min=wheel["glibc_min"],
            glibc_measured=(wheel["glibc_measured"] or "").removeprefix("GLIBC_") or None,
            cxx11_abi=wheel["cxx11_abi"],
        ),
        conda_pytorch=made_row(
            conda,
            state=_availability(conda["available"]),
            selector=conda.get("selector"),
            cuda=conda.get("cuda"),
        ),
        conda_forge=made_row(
            forge,
            state=_availability(forge["available"]),
            first_date=forge.get("first_recipe_date"),
            variants=forge.get("variants"),
            triton=forge.get("triton"),
        ),
        commits=commits,
    )


#: (release, tag) -> glibc of a build that needs a newer one than the default wheel of its release,
#: and the source that says so (in the facts it stands in the note of the default wheel).
BUILD_GLIBC = {("2.6.0", "cu126"): ("2.28", "gbm_2.6")}


def _build(row: Row, release: str) -> Row:
    note = row.get("note", "")
    glibc, glibc_source = BUILD_GLIBC.get((release, row["tag"]), (None, None))
    row = {**row, "source": [*row["source"], *([glibc_source] if glibc_source else [])]}
    unsure = [
        field
        for field, sign in (
            ("published", "presence on the index"),
            ("cudnn", "pins not verified"),
            ("cudnn", "cuDNN from RELEASE.md"),
            ("nccl", "pins not verified"),
            ("nccl", "NCCL assumed"),
            ("nccl", "NCCL pin not found"),
        )
        if sign in note
    ]
    return made_row(
        row,
        tag=row["tag"],
        cuda=row["cuda"],
        cudnn=row["cudnn"],
        nccl=row["nccl"],
        pypi_default=row["pypi_default"] or None,
        unsure=list(dict.fromkeys(unsure)) or None,
        glibc_min=glibc,
        pins=row.get("pins"),
    )


def _availability(value: bool | None) -> str:  # noqa: FBT001  (the value of the facts)
    return {True: "published", False: "absent", None: "unknown"}[value]


def arch(facts: Facts) -> Row:
    """Architectures compiled into each build, and which code runs on which GPU."""
    given = facts["arch_list"]
    lists = [
        *(item for row in given["wheels"] for item in _wheel_lists(row)),
        *(_windows_list(row) for row in given["wheels_windows"]),
        *(_channel_list(row) for row in given["conda_pytorch_channel"]),
        *(item for row in given["conda_forge"] for item in _forge_lists(row)),
    ]
    body: Row = {
        "lists": lists,
        "runs": [
            made_row(given["binary_compat"], code=code, **RUNS[code])
            for code in given["binary_compat"]["map"]
        ],
        "runs_rule": made_row(
            {"source": ["arch_how"]},
            text="Code for capability X.y runs on devices X.z with z >= y; PTX for X.y can be "
            "compiled by the driver for every device of capability >= X.y. Jetson devices "
            "(5.3, 6.2, 7.2, 8.7) do not run the code of the desktop GPUs of their major.",
        ),
        "jetson_from": made_row(
            given["binary_compat"],
            cuda="13.2",
            codes=["7.0", "8.0", "8.6"],
            devices=["7.2", "8.7"],
            note=given["binary_compat"]["cuda_13_2_exception"],
        ),
        "nvcc": [
            made_row(
                row,
                first=row["cuda"].partition("-")[0],
                last=row["cuda"].rpartition("-")[2],
                min_sm=row["min_sm"],
                max_sm=row["max_sm"],
                sm=row.get("sm"),
                measured_with=row.get("measured_with"),
            )
            for row in given["nvcc_targets"]
        ],
    }
    return made_table("arch", given, body)


#: The texts of `binary_compat.map` as numbers: minors that run, without the ones left out.
RUNS: dict[str, Row] = {
    "50": {"on": "5.0", "to_minor": 9, "but": ["5.3"]},
    "60": {"on": "6.0", "to_minor": 9, "but": ["6.2"]},
    "70": {"on": "7.0", "to_minor": 9, "but": ["7.2"]},
    "75": {"on": "7.5", "to_minor": 5},
    "80": {"on": "8.0", "to_minor": 9, "but": ["8.7"]},
    "86": {"on": "8.6", "to_minor": 9, "but": ["8.7"]},
    "87": {"on": "8.7", "to_minor": 7},
    "89": {"on": "8.9", "to_minor": 9},
    "90": {"on": "9.0", "to_minor": 0},
    "100": {"on": "10.0", "to_minor": 9, "but": ["10.1"]},
    "103": {"on": "10.3", "to_minor": 9},
    "110": {"on": "11.0", "to_minor": 0, "also": ["10.1"]},
    "120": {"on": "12.0", "to_minor": 9},
    "121": {"on": "12.1", "to_minor": 9},
}


def _wheel_lists(row: Row) -> list[Row]:
    lists = []
    for platform, archs in row["TORCH_CUDA_ARCH_LIST"].items():
        measured = platform == "linux_x86_64"
        lists.append(
            made_row(
                row,
                channel="wheel",
                releases=[row["release"]],
                cuda=_tag_cuda(row["build"]),
                platform=platform,
                archs=_archs(archs),
                measured_on=row.get("measured_on") if measured else None,
            )
        )
    return lists


def _windows_list(row: Row) -> Row:
    main = "main, mid 2026" in row["release"]
    releases = ["2.12", "2.13", "2.14"] if main else [row["release"]]
    return made_row(
        row,
        channel="wheel",
        releases=releases,
        cuda=_tag_cuda(row["build"]),
        platform="windows",
        archs=_archs(row["list"]),
        note="read on main in mid 2026" if main else None,
    )


def _channel_list(row: Row) -> Row:
    return made_row(
        row,
        channel="pytorch",
        releases=[row["release"]],
        cuda=row["cuda"],
        platform="linux_x86_64",
        archs=_archs(row["list"]),
    )


#: The `cuda` texts of conda-forge as (CUDA, platform, variant, verified).
FORGE: dict[str, list[tuple[str, str, str | None, bool]]] = {
    "12.8 (win), 12.9 (linux)": [
        ("12.9", "linux_x86_64", None, True),
        ("12.9", "linux_aarch64", None, True),
    ],
    "13.0 (linux-64, win-64)": [
        ("13.0", "linux_x86_64", None, True),
        ("13.0", "windows", None, False),
    ],
    "13.0 (linux-aarch64)": [("13.0", "linux_aarch64", None, True)],
    "12.9 tegra (linux-aarch64)": [("12.9", "linux_aarch64", "tegra", True)],
}


def _forge_lists(row: Row) -> list[Row]:
    usual: list[tuple[str, str, str | None, bool]] = [(row["cuda"], "linux_x86_64", None, True)]
    places = FORGE.get(row["cuda"], usual)
    return [
        made_row(
            row,
            channel="conda-forge",
            releases=[re.sub(r" \(build \d+\)", "", release) for release in row["releases"]],
            cuda=cuda,
            platform=platform,
            variant=variant,
            archs=_archs(row["list"]),
            verified=None if verified else False,
            note=row.get("note") if verified else "the list of win-64 was not read in bld.bat",
        )
        for cuda, platform, variant, verified in places
    ]


def _tag_cuda(tag: str) -> str:
    return f"{tag[2:-1]}.{tag[-1]}"


def _archs(text: str) -> list[str]:
    """`5.0;8.6+PTX` -> sm_50, sm_86, compute_86, in the order of the capability."""
    found: list[tuple[bool, int, str]] = []
    for item in text.split(";"):
        capability, _, ptx = item.partition("+")
        number = capability.replace(".", "")
        found.append((False, int(number), f"sm_{number}"))
        if ptx:
            found.append((True, int(number), f"compute_{number}"))
    return [name for _, _, name in sorted(found)]
