"""What has to hold for every machine, tried on many."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import BROKEN, CPU_BUILD, GOOD, NO_GPU, OLD_DRIVER, ROCM, facts, gpu, known, raised

from envkit.compat import tables
from envkit.compat.tables import ArchList, Build
from envkit.model.facts import Facts
from envkit.model.finding import Severity, Status
from envkit.model.observed import NOT_RECORDED, Absent, Known, NotApplicable, Unreadable, value_of
from envkit.rules.engine import judge
from envkit.rules.registry import RULES
from envkit.rules.verdict import decide

# No time limit an example: the machine that runs the tests may be busy.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

FAMILIES = tuple(name for name in Facts.__struct_fields__ if name != "request")
PATHS = tuple(
    f"{family}.{name}"
    for family in FAMILIES
    for name in type(getattr(GOOD, family)).__struct_fields__
)
DRIVERS = st.tuples(
    st.sampled_from([418, 450, 470, 510, 525, 535, 550, 560, 570, 575, 580, 595, 615, 640]),
    st.integers(0, 170),
    st.integers(0, 20),
)
BUILDS = st.sampled_from(
    [
        ("1.12.1+cu113", "11.3"),
        ("2.0.1+cu118", "11.8"),
        ("2.5.1+cu121", "12.1"),
        ("2.9.1+cu128", "12.8"),
        ("2.11.0+cu130", "13.0"),
        ("2.15.0+cu132", "13.2"),
    ]
)
GPUS = st.sampled_from(
    [
        gpu(),
        gpu("Tesla V100-SXM2-32GB", "7.0"),
        gpu("NVIDIA GeForce GTX 1080", "6.1"),
        gpu("NVIDIA GeForce RTX 5090", "12.0"),
        gpu("NVIDIA H200", "9.0"),
        gpu("Orin", "8.7"),
    ]
)
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    BROKEN,
    OLD_DRIVER,
    NO_GPU,
    CPU_BUILD,
    ROCM,
    raised("ImportError: undefined symbol: foo"),
    {"environment_variables": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
    {"environment_variables": {"CUDA_VISIBLE_DEVICES": "7"}},
    {"host_os": "wsl"},
    {"host_os": "windows"},
    {"host_container": "docker"},
)


@st.composite
def machines(draw: st.DrawFn) -> Facts:
    version, cuda = draw(BUILDS)
    driver = draw(DRIVERS)
    build = tables.build_of(version, version.partition("+")[2])
    architectures = tables.arch_list(version, version.partition("+")[2], "linux_x86_64")
    assert isinstance(build, Build)
    assert isinstance(architectures, ArchList)
    chosen: dict[str, Any] = {
        # What was measured agrees with the tables: two sources that contradict each other are
        # no machine, and the measured one counts.
        "torch_arch_list": architectures.archs,
        "torch_cudnn_compiled": tables.cudnn_encode(tables.parse_cudnn(build.cudnn or "9.1.0")),
        "driver_cuda_version": NOT_RECORDED,
        "torch_version": version,
        "torch_cuda": cuda,
        "driver_version": "{}.{}.{:02}".format(*driver),
        "gpus_devices": tuple(draw(st.lists(GPUS, max_size=2))),
        "torch_devices": (),
        "torch_cuda_available": draw(st.sampled_from([True, False, NOT_RECORDED])),
        "torch_cudnn": draw(st.sampled_from([8700, 90100, 91002, 91900])),
    }
    for more in draw(st.lists(st.sampled_from(CHANGES), max_size=2)):
        chosen |= more
    return facts(**chosen)


def with_fact(read: Facts, path: str, value: Any) -> Facts:
    family, _, name = path.partition(".")
    changed = msgspec.structs.replace(getattr(read, family), **{name: value})
    return msgspec.structs.replace(read, **{family: changed})


def errors(read: Facts) -> set[str]:
    found = judge(read).findings
    return {one.code for one in found if one.severity is Severity.ERROR}


@given(machines(), DRIVERS, DRIVERS)
def test_a_newer_driver_never_turns_a_pass_into_a_failure(
    read: Facts, one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    older, newer = (
        with_fact(read, "driver.version", known("{}.{}.{:02}".format(*version)))
        for version in sorted((one, other))
    )
    before = {check.code: check.status for check in judge(older).checks}
    after = {check.code: check.status for check in judge(newer).checks}
    for code in ("DRV001", "DRV002", "DRV004", "GPU002", "TOR012"):
        if before[code] is Status.PASS:
            assert after[code] is not Status.FAIL, code


@given(machines(), st.sampled_from(PATHS))
def test_a_fact_less_never_makes_an_error_more(read: Facts, path: str) -> None:
    assert errors(with_fact(read, path, NOT_RECORDED)) <= errors(read) | _freed(read, path)


def _freed(read: Facts, path: str) -> set[str]:
    """Errors that something else had answered: a finding that skipped them, or a measurement."""
    if path == "torch.cuda_available" and value_of(read.torch.cuda_available):
        return {rule.code for rule in RULES}  # CUDA that works outranks every table
    gone = {one.code for one in judge(read).findings}
    left = {one.code for one in judge(with_fact(read, path, NOT_RECORDED)).findings}
    lost = gone - left
    return {rule.code for rule in RULES if lost & set(rule.requires)}


@given(machines())
def test_judging_twice_gives_the_same_in_the_same_order(read: Facts) -> None:
    again = msgspec.json.decode(msgspec.json.encode(read), type=Facts)
    assert judge(read) == judge(again)
    one, other = judge(read), judge(again)
    assert decide(read, one.findings, one.checks) == decide(again, other.findings, other.checks)


@given(machines())
def test_a_cause_stands_before_its_consequence_and_is_there(read: Facts) -> None:
    found = judge(read).findings
    place = {one.code: at for at, one in enumerate(found)}
    for one in found:
        if one.caused_by is not None:
            assert place[one.caused_by] < place[one.code]


@given(machines())
def test_a_finding_has_evidence_with_its_source_and_a_fix(read: Facts) -> None:
    for one in judge(read).findings:
        assert one.evidence
        assert all(piece.seen and piece.source for piece in one.evidence)
        assert one.fix.text.endswith(".")


@given(machines())
def test_cuda_that_works_is_never_called_a_broken_driver(read: Facts) -> None:
    works = with_fact(read, "torch.cuda_available", Known(value=True, source="child"))
    found = {one.code for one in judge(works).findings}
    broken = {f"DRV{number:03}" for number in (1, 2, 5, 6, 7, 8, 9)}
    assert not found & broken


STATES = st.sampled_from(
    [
        Absent(source="test"),
        Unreadable(reason="broken", source="test"),
        NotApplicable(reason="no", source="test"),
        NOT_RECORDED,
    ]
)


@given(machines(), st.dictionaries(st.sampled_from(PATHS), STATES, max_size=6))
def test_no_combination_of_states_stops_a_rule(read: Facts, states: dict[str, Any]) -> None:
    for path, state in states.items():
        read = with_fact(read, path, state)
    result = judge(read)
    assert decide(read, result.findings, result.checks).exit_code in {0, 1, 3}


@given(
    st.sampled_from(
        [
            path
            for path in PATHS
            if isinstance(
                getattr(getattr(GOOD, path.partition(".")[0]), path.partition(".")[2]), Known
            )
        ]
    ),
    st.text(max_size=30),
)
def test_no_text_stops_a_rule(path: str, text: str) -> None:
    family, _, name = path.partition(".")
    fact = getattr(getattr(GOOD, family), name)
    if isinstance(fact.value, str):
        judge(with_fact(GOOD, path, known(text)))
