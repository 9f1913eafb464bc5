"""Whether a build's GPU code runs on a GPU."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from envkit.compat.answers import Fit, Platform, Unknown
from envkit.compat.arch import arch_list, code_runs_on, runs_on, table, toolkit_compiles
from envkit.compat.torch_builds import table as torch_table
from envkit.model.versions import cuda_tag, parse_arch, parse_cuda

capabilities = st.builds("{}.{}".format, st.integers(3, 13), st.integers(0, 9))
archs = st.lists(
    st.builds(
        "{}_{}{}".format,
        st.sampled_from(["sm", "compute"]),
        st.integers(30, 130),
        st.sampled_from(["", "", "a", "f"]),
    ),
    max_size=8,
)
ORDER = {Fit.NO: 0, Fit.UNKNOWN: 1, Fit.PTX: 2, Fit.NATIVE: 3}


@pytest.mark.parametrize(
    ("version", "tag", "capability", "fit", "via"),
    [
        ("2.6.0", "cu124", "9.0", Fit.NATIVE, "sm_90"),
        ("2.6.0", "cu124", "8.9", Fit.NATIVE, "sm_86"),
        ("2.6.0", "cu124", "12.0", Fit.NO, None),  # Blackwell needs cu128
        ("2.7.1", "cu128", "12.0", Fit.NATIVE, "sm_120"),
        ("2.7.1", "cu128", "12.1", Fit.NATIVE, "sm_120"),
        ("2.7.1", "cu128", "7.0", Fit.NO, None),
        ("2.8.0", "cu128", "7.0", Fit.NATIVE, "sm_70"),
        ("2.8.0", "cu128", "6.1", Fit.NO, None),  # Pascal left the default of PyPI
        ("2.8.0", "cu126", "6.1", Fit.NATIVE, "sm_60"),
        ("2.11.0", "cu130", "7.0", Fit.NO, None),
        ("1.12.1", "cu102", "8.0", Fit.NO, None),
    ],
)
def test_published_wheels(  # noqa: PLR0917  (a column each)
    version: str, tag: str, capability: str, fit: Fit, via: str | None
) -> None:
    found = runs_on(version, tag, "linux_x86_64", capability)
    assert (found.fit, found.via) == (fit, via)


def test_channels_have_lists_of_their_own() -> None:
    assert runs_on("2.5.1", "cu118", "linux_x86_64", "3.7", channel="pytorch").fit is Fit.NATIVE
    forge = runs_on("2.6.0", "cu126", "linux_x86_64", "12.0", channel="conda-forge")
    assert (forge.fit, forge.via) == (Fit.PTX, "compute_90")
    assert runs_on("2.9.1", "cu129", "linux_aarch64", "8.7", channel="conda-forge").fit is Fit.NO


@pytest.mark.parametrize(
    ("version", "tag", "platform"),
    [
        ("2.16.0", "cu132", "linux_x86_64"),
        ("2.6.0a0+git1234567", "cu124", "linux_x86_64"),
        ("2.8.0", "cu128", "windows"),
        ("2.6.0", "cu121", "linux_x86_64"),
    ],
)
def test_lists_that_no_source_gives_are_unknown(version: str, tag: str, platform: Platform) -> None:
    found = runs_on(version, tag, platform, "8.0")
    assert found.fit is Fit.UNKNOWN
    assert found.why
    assert isinstance(arch_list(version, tag, platform), Unknown)


@pytest.mark.parametrize(
    ("names", "capability", "cuda", "fit"),
    [
        (["sm_80"], "8.7", "12.6", Fit.NO),  # Jetson Orin before CUDA 13.2
        (["sm_80"], "8.7", "13.2", Fit.NATIVE),
        (["sm_80"], "8.7", None, Fit.UNKNOWN),
        (["sm_75"], "7.2", "13.2", Fit.NO),
        (["sm_50"], "5.3", "13.2", Fit.NO),
        (["sm_87"], "8.9", "12.6", Fit.NO),
        (["sm_110"], "10.1", "13.0", Fit.NATIVE),
        (["sm_100"], "10.1", "13.0", Fit.NO),
        (["sm_90a"], "9.0", "12.8", Fit.NATIVE),
        (["sm_100a"], "10.3", "12.9", Fit.NO),
        (["sm_100f"], "10.3", "12.9", Fit.UNKNOWN),
        (["sm_72"], "7.5", "12.4", Fit.UNKNOWN),
        (["sm_72"], "7.2", "12.4", Fit.NATIVE),
        (["compute_80"], "9.0", "12.4", Fit.PTX),
        (["compute_90"], "9.0", "12.4", Fit.PTX),
        (["compute_80"], "8.7", "12.4", Fit.PTX),
        (["compute_90"], "8.0", "12.4", Fit.NO),
        (["compute_90a"], "10.0", "12.8", Fit.NO),
        (["sm_61"], "6.1", "11.8", Fit.NATIVE),
        (["sm_37"], "3.5", "11.8", Fit.NO),
        (["gfx90a"], "9.0", None, Fit.UNKNOWN),
        (["gfx90a", "sm_90"], "9.0", None, Fit.NATIVE),
        ([], "9.0", None, Fit.UNKNOWN),
    ],
)
def test_rules_of_binary_compatibility(
    names: list[str], capability: str, cuda: str | None, fit: Fit
) -> None:
    assert code_runs_on(names, capability, cuda=cuda).fit is fit


@given(archs, capabilities)
def test_the_answer_names_an_entry_exactly_when_the_build_runs(
    names: list[str], capability: str
) -> None:
    found = code_runs_on(names, capability, cuda="12.8")
    assert (found.via in names) is (found.fit in {Fit.NATIVE, Fit.PTX})
    assert bool(found.why) is (found.fit in {Fit.NO, Fit.UNKNOWN})


@given(archs.filter(bool), archs, capabilities)
def test_more_code_never_makes_it_worse(names: list[str], more: list[str], capability: str) -> None:
    few, many = (code_runs_on(x, capability, cuda="12.8").fit for x in (names, names + more))
    assert ORDER[few] <= ORDER[many]


@given(archs, capabilities)
def test_code_for_the_very_capability_is_native(names: list[str], capability: str) -> None:
    own = "sm_" + capability.replace(".", "")
    assert code_runs_on([*names, own], capability, cuda=None).fit is Fit.NATIVE


def test_every_list_is_of_known_code_in_order_and_named_once() -> None:
    seen: set[tuple[Any, ...]] = set()
    for row in table().lists:
        codes = [parse_arch(name) for name in row.archs]
        numbers = [code.capability for code in codes if code.kind == "sm"]
        assert numbers == sorted(set(numbers))
        assert codes
        for release in row.releases:
            key = (row.channel, release, row.cuda, row.platform, row.variant)
            assert key not in seen
            seen.add(key)


def test_every_wheel_build_of_linux_has_its_list() -> None:
    for release in torch_table().releases:
        for build in release.builds:
            found = arch_list(release.version, build.tag, "linux_x86_64")
            assert not isinstance(found, Unknown), (release.version, build.tag)


def test_toolkits_are_ordered_without_gaps() -> None:
    rows = table().nvcc
    for older, newer in pairwise(rows):
        last, first = parse_cuda(older.last), parse_cuda(newer.first)
        assert last < first
        # There was no toolkit 12.7.
        assert first[0] == last[0] + 1 or first[1] - last[1] == (2 if first == (12, 8) else 1)


@pytest.mark.parametrize(
    ("cuda", "capability", "answer"),
    [
        ("12.8", "12.0", True),
        ("12.6", "12.0", False),
        ("13.0", "7.0", False),
        ("11.0", "8.6", False),
    ],
)
def test_what_a_toolkit_compiles_for(cuda: str, capability: str, answer: bool) -> None:  # noqa: FBT001
    assert toolkit_compiles(cuda, capability) is answer


@pytest.mark.parametrize(("cuda", "newer"), [("14.0", True), ("12.7", False), ("11.4", False)])
def test_what_was_not_measured_of_a_toolkit_is_unknown(cuda: str, newer: bool) -> None:  # noqa: FBT001
    found = toolkit_compiles(cuda, "8.0")
    assert isinstance(found, Unknown)
    assert found.newer is newer


def test_the_collected_facts_agree_on_every_capability_and_build(shared: Path) -> None:
    """The facts hold the same answers, derived by another program.

    That program left out that code of CUDA 13.2 and later runs on Jetsons (rule `jetson_from`).
    """
    path = shared / "facts" / "compat" / "gpus.yaml"
    facts = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)["cc_support_in_pytorch_wheels"]
    assert len(facts) > 10
    platforms: dict[Platform, str] = {
        "linux_x86_64": "linux_x86_64_native",
        "linux_aarch64": "linux_aarch64_native",
    }
    first_for_jetson = parse_cuda(table().jetson_from.cuda)
    for row in facts:
        is_jetson = row["compute_capability"] in table().jetson_from.devices
        for platform, key in platforms.items():
            expected = {(minor, tag) for minor, tags in row.get(key, {}).items() for tag in tags}
            found = {
                (release, cuda_tag(parse_cuda(item.cuda)))
                for item in table().lists
                for release in item.releases
                if (item.channel, item.platform) == ("wheel", platform)
                and not (is_jetson and parse_cuda(item.cuda) >= first_for_jetson)
                and code_runs_on(item.archs, row["compute_capability"], cuda=item.cuda).fit
                is Fit.NATIVE
            }
            assert found == expected, (row["compute_capability"], platform)


def test_what_left_the_default_of_pypi_and_what_cu126_keeps() -> None:
    for release in torch_table().releases:
        for build in release.builds:
            row = arch_list(release.version, build.tag, "linux_x86_64")
            assert not isinstance(row, Unknown)
            if build.pypi_default:
                assert not [name for name in row.archs if name.startswith("compute_")]
            if build.tag == "cu126":
                assert [row.archs[0], row.archs[-1]] == ["sm_50", "sm_90"]


def test_an_unknown_is_neither_true_nor_false() -> None:
    found = toolkit_compiles("14.0", "8.0")
    with pytest.raises(TypeError, match="neither true nor false"):
        assert found


def test_platforms_are_those_of_the_lists() -> None:
    assert {row.platform for row in table().lists} == set(get_args(Platform))
