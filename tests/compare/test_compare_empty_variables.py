"""A variable that is empty against one that is not set: where torch makes no difference."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from compared import facts, fingerprint, side
from running import environment

from envkit.compare.compare import compare
from envkit.compare.empty_variables import AS_IF_UNSET, CONF_NAMES, without_empty
from envkit.model.documents import Diff

SEEN = """
import json, torch
blas = torch.backends.cuda
print(json.dumps([blas.matmul.allow_tf32, str(blas.preferred_blas_library()),
                  torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()]))
"""
VALUES = {
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    "TORCH_BLAS_PREFER_CUBLASLT": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "default",
}


def diff(mine: dict[str, str], hers: dict[str, str]) -> Diff:
    named = (("mine", mine), ("hers", hers))
    sides = [side(name, fingerprint(), facts(variables=said)) for name, said in named]
    return compare(sides).document


def weight(document: Diff) -> tuple[list[str], list[str]]:
    software = [one.key for one in document.differences if one.layer == "software"]
    return software, [cause.code for cause in document.causes]


@pytest.mark.parametrize("name", sorted(CONF_NAMES | AS_IF_UNSET))
def test_empty_and_unset_are_no_difference_and_no_cause(name: str) -> None:
    assert weight(diff({name: ""}, {})) == ([], [])
    assert weight(diff({}, {name: ""})) == ([], [])
    assert weight(diff({name: ""}, {name: "1"}))[0] == [f"environment.variables.{name}"]


@pytest.mark.parametrize("name", ["PYTORCH_NO_CUDA_MEMORY_CACHING", "NVIDIA_TF32_OVERRIDE"])
def test_what_is_not_known_to_mean_the_same_stays_a_difference(name: str) -> None:
    assert weight(diff({name: ""}, {}))[0] == [f"environment.variables.{name}"]


def test_an_empty_name_that_hides_another_stays() -> None:
    hiding = {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert without_empty(hiding) == hiding
    assert weight(diff(hiding, {"PYTORCH_ALLOC_CONF": hiding["PYTORCH_ALLOC_CONF"]}))[0]


def test_torch_takes_them_as_unset() -> None:
    pytest.importorskip("torch")

    def seen(variables: dict[str, str]) -> list[object]:
        kept = {name: text for name, text in environment().items() if name not in VALUES}
        command = [sys.executable, "-W", "ignore", "-c", SEEN]
        done = subprocess.run(
            command, env={**kept, **variables}, capture_output=True, check=True, timeout=120
        )
        found: list[object] = json.loads(done.stdout)
        return found

    assert set(VALUES) == AS_IF_UNSET
    unset = seen({})
    assert seen(dict.fromkeys(AS_IF_UNSET, "")) == unset
    # Where there is one processor, or one set of instructions, the last two cannot change.
    changed = seen(VALUES)
    assert (changed[0], changed[1]) != (unset[0], unset[1])
    assert changed[2] == 1
