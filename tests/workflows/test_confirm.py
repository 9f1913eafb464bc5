"""`--confirm` with a child that answers as a machine under the given settings would."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from compared import changed, facts, fingerprint, read, side

from envkit.compare.compare import Comparison, compare
from envkit.model.documents import Cause
from envkit.model.fingerprint import Fingerprint
from envkit.probes.events import ChildRequest
from envkit.probes.launch import ChildRun, Finished
from envkit.render.diff_words import confirmation
from envkit.workflows.confirm import ALONE_S, Here, confirm, differing_probes

BASE = fingerprint()
CONF = "expandable_segments:True"
HERS = fingerprint(conf=CONF)


class Machine:
    """Answers with the fingerprint that a rule picks, and keeps what it was asked."""

    def __init__(self, pick: Any) -> None:
        self.pick = pick
        self.asked: list[tuple[ChildRequest, Mapping[str, str]]] = []

    def run(self, python: Path, request: ChildRequest, environ: Mapping[str, str]) -> ChildRun:
        assert python == Path("python")
        self.asked.append((request, environ))
        nothing: dict[str, Any] = dict.fromkeys(("hello", "self_test", "key", "suite"))
        return ChildRun(
            outcome=Finished(),
            stage="done",
            facts={},
            probes=(),
            confounds=(),
            errors=(),
            stderr_tail="",
            seconds=0.0,
            **nothing,
        )

    def build(self, _: ChildRun) -> Fingerprint | None:
        found = self.pick(*self.asked[-1])
        return None if found is None else read(found)

    def confirm(self, comparison: Comparison) -> Cause:
        environ = {"PATH": "/bin", "PYTORCH_CUDA_ALLOC_CONF": "from my shell"}
        here = Here(python=Path("python"), environ=environ, run=self.run, build=self.build)
        return confirm(comparison, here).document.causes[0]


def comparison(plain: dict[str, Any], mine: dict[str, Any] = BASE, **variables: str) -> Comparison:
    hers = side("hers", plain, facts(variables=variables))
    return compare((side("mine", mine), hers))


def honest(_: ChildRequest, environ: Mapping[str, str]) -> dict[str, Any]:
    return HERS if environ.get("PYTORCH_CUDA_ALLOC_CONF") == CONF else BASE


def test_her_settings_give_her_values_here() -> None:
    machine = Machine(honest)
    cause = machine.confirm(comparison(HERS, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert (cause.code, cause.confirmed) == ("CAU001", True)
    control, changed_run = machine.asked
    assert "PYTORCH_CUDA_ALLOC_CONF" not in control[1], "mine had it unset"
    assert changed_run[1]["PYTORCH_CUDA_ALLOC_CONF"] == CONF
    assert changed_run[1]["PATH"] == "/bin"
    asked = changed_run[0].probes
    assert asked is not None
    assert asked
    assert all(name.startswith("exercises.") or name.endswith(".peaks") for name in asked)


def test_a_machine_that_does_not_follow_is_no_confirmation() -> None:
    cause = Machine(lambda *_: BASE).confirm(comparison(HERS, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert cause.confirmed is False
    assert "of them mine's, first " in cause.evidence[-1].seen


def test_values_of_neither_side_tell_nothing() -> None:
    """As cuDNN's trial gives them, which may choose another algorithm every time."""
    hers = changed(BASE, "numerics", "matmul")
    hers["key"]["flags"]["matmul.allow_tf32"] = True
    third = changed(hers, "numerics", "matmul")
    machine = Machine(lambda request, _: third if request.flags["matmul.allow_tf32"] else BASE)
    cause = machine.confirm(comparison(hers))
    assert cause.confirmed is None
    assert "than hers's and mine's" in cause.evidence[-1].seen


def test_a_peak_that_has_no_figure_is_compared_as_it_stands() -> None:
    """Under another allocator's backend the figures are reasons and not numbers."""
    hers = copy.deepcopy(HERS)
    for probe in hers["layers"]["peaks"].values():
        probe["values"]["segments"] = {"unreadable": "another backend keeps no segments"}
    machine = Machine(lambda _, environ: hers if CONF in environ.values() else BASE)
    cause = machine.confirm(comparison(hers, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert cause.confirmed is True


def with_peaks(plain: dict[str, Any], *names: str, more_bytes: int = 0) -> dict[str, Any]:
    copied = copy.deepcopy(plain)
    for probe in copied["layers"]["peaks"].values():
        probe["values"] = {name: probe["values"][name] for name in names}
        probe["values"]["allocated_bytes"] += more_bytes
    return copied


@pytest.mark.parametrize(
    "names",
    [("allocated_bytes", "reserved_bytes", "segments"), ("allocated_bytes",)],
    ids=["with segments", "as on the CPU"],
)
def test_a_peak_is_as_near_as_diff_would_have_it(names: tuple[str, ...]) -> None:
    mine = with_peaks(BASE, *names)
    hers = with_peaks(HERS, *names, more_bytes=100 << 20)
    found = with_peaks(hers, *names, more_bytes=512)
    machine = Machine(lambda _, environ: found if CONF in environ.values() else mine)
    cause = machine.confirm(comparison(hers, mine, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert cause.confirmed is (True if "segments" in names else None)


def test_a_run_that_gives_her_values_under_every_setting_is_no_confirmation() -> None:
    cause = Machine(lambda *_: HERS).confirm(comparison(HERS, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert cause.confirmed is False


def test_another_gpu_here_tells_nothing() -> None:
    other = fingerprint("NVIDIA A100-SXM4-80GB")
    cause = Machine(lambda *_: other).confirm(comparison(HERS, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert cause.confirmed is None
    assert "this machine has capability 8.0, not 9.0" in cause.evidence[-1].seen


def test_a_child_that_does_not_begin_tells_nothing() -> None:
    cause = Machine(lambda *_: None).confirm(comparison(HERS, PYTORCH_CUDA_ALLOC_CONF=CONF))
    assert cause.confirmed is None


def test_flags_are_set_as_hers_were() -> None:
    hers = changed(BASE, "numerics", "matmul")
    hers["key"]["flags"]["matmul.allow_tf32"] = True
    machine = Machine(lambda request, _: hers if request.flags["matmul.allow_tf32"] else BASE)
    assert machine.confirm(comparison(hers)).confirmed is True
    assert machine.asked[0][0].flags == {"matmul.allow_tf32": False}
    assert machine.asked[0][0].probes == ("numerics.matmul.fp32",)


def test_a_gpu_cannot_be_put_on() -> None:
    machine = Machine(honest)
    cause = machine.confirm(comparison(fingerprint("NVIDIA A100-SXM4-80GB")))
    assert cause.confirmed is None
    assert machine.asked == []


def test_the_context_is_never_run_again() -> None:
    result = comparison(changed(BASE, "context"))
    assert differing_probes(result.document.differences, result.sides[0]) == ()


def two_causes() -> dict[str, Any]:
    """Her report: TF32 for products and no flash attention, and both kinds of probes moved."""
    hers = changed(changed(BASE, "numerics", "matmul"), "numerics", "sdpa")
    hers["key"]["flags"].update({"matmul.allow_tf32": True, "sdp.flash": False})
    return hers


def together(machine: Machine, *, clock: Any = lambda: 0.0) -> dict[str, Cause]:
    here = Here(
        python=Path("python"), environ={}, run=machine.run, build=machine.build, clock=clock
    )
    causes = confirm(comparison(two_causes()), here).document.causes
    return {cause.code: cause for cause in causes if cause.code in {"CAU003", "CAU007"}}


def test_of_two_causes_only_the_one_that_moves_probes_by_itself_is_confirmed() -> None:
    def only_attention(request: ChildRequest, _: Mapping[str, str]) -> dict[str, Any]:
        return BASE if request.flags["sdp.flash"] else two_causes()

    machine = Machine(only_attention)
    causes = together(machine)
    tf32, attention = causes["CAU003"], causes["CAU007"]
    assert (attention.confirmed, attention.together_with) == (True, ())
    assert attention.evidence[-1].seen == "2 of 2 probes gave hers's values"
    assert (tf32.confirmed, tf32.together_with) == (None, ("CAU007",))
    assert tf32.evidence[-1].seen == "none of 2 probes gave hers's values"
    assert (confirmation(attention), confirmation(tf32)) == (
        "confirmed here",
        "confirmed together with CAU007",
    )
    tried = [request.flags for request, _ in machine.asked[2:]]
    assert {(flags["matmul.allow_tf32"], flags["sdp.flash"]) for flags in tried} == {
        (True, True),
        (False, False),
    }, "one run for each cause, with the other's settings our own"


def test_two_causes_that_each_move_their_own_probes_are_both_confirmed() -> None:
    def each_its_own(request: ChildRequest, _: Mapping[str, str]) -> dict[str, Any]:
        found = BASE
        if request.flags["matmul.allow_tf32"]:
            found = changed(found, "numerics", "matmul")
        return found if request.flags["sdp.flash"] else changed(found, "numerics", "sdpa")

    causes = together(Machine(each_its_own))
    assert [cause.confirmed for cause in causes.values()] == [True, True]


def test_causes_that_only_act_together_are_not_confirmed_by_themselves() -> None:
    def both_or_nothing(request: ChildRequest, _: Mapping[str, str]) -> dict[str, Any]:
        flags = request.flags
        return two_causes() if flags["matmul.allow_tf32"] and not flags["sdp.flash"] else BASE

    causes = together(Machine(both_or_nothing))
    assert causes["CAU003"].together_with == ("CAU007",)
    assert causes["CAU007"].together_with == ("CAU003",)


def test_no_cause_is_tried_by_itself_after_the_time_is_over() -> None:
    ticks = iter((0.0, 0.0, ALONE_S))
    machine = Machine(lambda request, _: BASE if request.flags["sdp.flash"] else two_causes())
    causes = together(machine, clock=lambda: next(ticks))
    assert len(machine.asked) == 3
    untried = [one for one in causes.values() if "not tried" in one.evidence[-1].seen]
    assert [one.confirmed for one in untried] == [None]
