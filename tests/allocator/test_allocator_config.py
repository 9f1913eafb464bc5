"""Reading settings texts: what each release takes, and what it makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.allocator import (
    OPTIONS,
    Config,
    ConfigError,
    SettingsSyntaxError,
    problems,
    unknown_options,
    variable_in_effect,
)
from envkit.allocator.options import LAST_VERSION, read_settings
from envkit.allocator.sizes import MIB, UNLIMITED_BYTES
from envkit.compat import tables, variables

#: Options that torch 2.13's device-independent reader knows; the recording says nothing of others.
COMMON = {
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "expandable_segments",
    "pinned_use_background_threads",
    "large_segment_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
}
#: Torch takes these as well: it reads numbers up to the first odd character and skips some
#: punctuation unseen.
STRICTER = {
    "max_split_size_mb:20.5",
    "max_split_size_mb:-1",
    "max_split_size_mb:+64",
    "max_split_size_mb:64x",
    "garbage_collection_threshold:0.5x",
    "roundup_power2_divisions:[1:2]]",
    "roundup_power2_divisions:[256,1]",
}


def is_common(text: str) -> bool:
    try:
        return {setting.name for setting in read_settings(text)} <= COMMON
    except SettingsSyntaxError:
        return True


def test_settings_are_taken_and_refused_as_torch_2_13_does(
    accepted_settings: list[tuple[str, bool]],
) -> None:
    compared = [(text, taken) for text, taken in accepted_settings if is_common(text)]
    assert len(compared) == 81
    differing = {text for text, taken in compared if (not problems(text, (2, 13))) != taken}
    assert differing == STRICTER


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        ("max_split_size_mb:19", (2, 11), "at least 20"),
        ("max_split_size_mb:20", (2, 9), "above 20"),
        ("large_segment_size_mb:40,max_split_size_mb:39", (2, 11), "at least 40"),
        ("max_split_size_mb:39,large_segment_size_mb:40", (2, 13), "at least 40"),
        ("large_segment_size_mb:10", (2, 11), "above 10"),
        ("max_non_split_rounding_mb:20", (2, 6), "above 20"),
        ("expandable_segments:true", (2, 11), "True or False"),
        ("garbage_collection_threshold:1.0", (2, 11), "below 1"),
        ("garbage_collection_threshold:0", (2, 11), "above 0"),
        ("roundup_power2_divisions:3", (2, 11), "power of two"),
        ("roundup_power2_divisions:0", (2, 11), "power of two"),
        ("roundup_power2_divisions:[256:3]", (2, 11), "powers of two or 0"),
        ("roundup_power2_divisions:[3:8]", (2, 11), "intervals"),
        ("roundup_power2_divisions:[a:8]", (2, 11), "numbers, not 'a'"),
        ("backend:other", (2, 11), "native or cudaMallocAsync"),
        ("per_process_memory_fraction:1.5", (2, 11), "0 to 1"),
        ("expandable_segments_handle_type:[1:2]", (2, 13), "is a list"),
        ("pinned_num_register_threads:x", (2, 11), "whole number"),
        ("nonsense:1", (2, 11), "no release"),
        ("large_segment_size_mb:40", (2, 10), "since 2.11"),
        ("roundup_bypass_threshold_mb:40", (2, 11), "from 1.13 to 2.0"),
        ("max_split_size_mb", (2, 11), "the text ends"),
        ("max_split_size_mb:", (2, 11), "value of max_split_size_mb is missing"),
        ("max_split_size_mb:64,,", (2, 11), "an option name is missing"),
        ("max_split_size_mb:64 backend:native", (2, 11), "',' after"),
        ("roundup_power2_divisions:[1:2", (2, 11), "the text ends"),
    ],
)
def test_wrong_settings_are_refused_with_the_reason(
    text: str, version: tuple[int, int], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Config.parse(text, version)
    assert caught.value.exit_code == 2
    assert caught.value.next_step


def test_values_are_read() -> None:
    text = (
        " max_split_size_mb : 6 4 ,max_non_split_rounding_mb:32,garbage_collection_threshold:.5,"
        "expandable_segments:True,large_segment_size_mb:24,per_process_memory_fraction:0.25,"
        "throw_on_cudamalloc_oom:True,pinned_num_register_threads:8,release_lock_on_hipmalloc:True,"
    )
    config = Config.parse(text, (2, 12))
    assert config.max_split_size_bytes == 64 * MIB
    assert config.max_non_split_rounding_bytes == 32 * MIB
    assert config.garbage_collection_threshold == 0.5
    assert config.expandable_segments
    assert config.large_segment_bytes == 24 * MIB
    assert config.memory_fraction == 0.25
    assert config.throw_on_oom
    assert config.others == (
        ("pinned_num_register_threads", "8"),
        ("release_lock_on_cudamalloc", "True"),
    )


def test_options_without_effect_on_the_model_are_kept_as_written() -> None:
    config = Config.parse("expandable_segments_reserve_by_class:[a:0.25, b:8G]", (2, 15))
    assert config.others == (("expandable_segments_reserve_by_class", "[a:0.25,b:8G]"),)


@pytest.mark.parametrize("text", ["", None, "  "])
def test_no_text_gives_the_defaults(text: str | None) -> None:
    config = Config.parse(text)
    assert config.max_split_size_bytes == UNLIMITED_BYTES
    assert config.roundup_divisions == (0,) * 16
    assert config.memory_fraction is None
    assert config.backend == "native"


@pytest.mark.parametrize(
    ("text", "version", "divisions"),
    [
        ("4", (2, 11), (4,) * 16),
        ("[256:1,512:2,1024:4,>:8]", (2, 11), (1,) * 9 + (2, 4) + (8,) * 5),
        ("[256:1,512:2,1024:4,>:8]", (2, 9), (1,) * 9 + (2,) + (8,) * 6),
        ("[64:8]", (2, 11), (8,) * 7 + (0,) * 9),
        ("[1:2,16:8]", (2, 11), (2, 0, 0, 0, 8) + (0,) * 11),
        ("[131072:4]", (2, 11), (4,) * 16),
        ("[]", (2, 11), (0,) * 16),
    ],
)
def test_divisions_fill_the_slots(
    text: str, version: tuple[int, int], divisions: tuple[int, ...]
) -> None:
    config = Config.parse(f"roundup_power2_divisions:{text}", version)
    assert config.roundup_divisions == divisions


def test_order_of_the_large_segment_size_matters_up_to_2_12_only() -> None:
    text = "max_split_size_mb:30,large_segment_size_mb:40"
    assert problems(text, (2, 11)) == ()
    assert [problem.kind for problem in problems(text, (2, 13))] == ["invalid"]


def test_every_problem_is_told() -> None:
    text = "nonsense:1,large_segment_size_mb:40,max_split_size_mb:1,expandable_segments:True"
    told = [(problem.option, problem.kind) for problem in problems(text, (2, 6))]
    assert told == [
        ("nonsense", "unknown"),
        ("large_segment_size_mb", "unavailable"),
        ("max_split_size_mb", "invalid"),
    ]


def test_unknown_options_are_those_of_other_releases_too() -> None:
    text = "nonsense:1,large_segment_size_mb:40,max_split_size_mb:1"
    assert unknown_options(text, (2, 10)) == ("nonsense", "large_segment_size_mb")
    assert unknown_options(text, (2, 11)) == ("nonsense",)
    with pytest.raises(SettingsSyntaxError):
        unknown_options("nonsense", (2, 11))


@pytest.mark.parametrize(
    ("names", "version", "rocm", "name"),
    [
        (["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"], (2, 9), False, 0),
        (["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"], (2, 10), False, 0),
        (["PYTORCH_ALLOC_CONF"], (2, 9), False, None),
        (["PYTORCH_ALLOC_CONF"], (2, 10), False, 0),
        (["PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"], (2, 10), True, 1),
        (["PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"], (2, 10), False, 0),
        ([], (2, 13), False, None),
    ],
)
def test_one_variable_is_in_effect(
    *, names: list[str], version: tuple[int, int], rocm: bool, name: int | None
) -> None:
    found = variable_in_effect(dict.fromkeys(names, ""), version, rocm=rocm)
    assert found == (None if name is None else names[name])


VERSIONS = st.integers(0, LAST_VERSION[1]).map(lambda minor: (2, minor))


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_compatibility_tables_date_the_options_alike(name: str) -> None:
    for minor in range(1, 16):
        told = tables.option_known(name, f"2.{minor}.0")
        if "hip" in name:  # hipify's names of the CUDA options; the tables leave them out
            assert isinstance(told, tables.Unknown)
        else:
            assert told == OPTIONS[name].known_to((2, minor)), minor


def test_the_compatibility_tables_have_no_other_options() -> None:
    assert {row.option for row in variables.table().options} <= set(OPTIONS)


@settings(deadline=None)
@given(name=st.sampled_from(sorted(OPTIONS)), version=VERSIONS)
def test_an_option_once_dropped_does_not_come_back(name: str, version: tuple[int, int]) -> None:
    option = OPTIONS[name]
    later = (2, version[1] + 1)
    if option.known_to(version) and not option.known_to(later):
        assert not option.known_to(LAST_VERSION)


@settings(deadline=None)
@given(text=st.text(alphabet="max_split_size_mb:,[]>0123456789 True.", max_size=40))
def test_any_text_is_taken_or_refused(text: str) -> None:
    found = problems(text, (2, 11))
    if found:
        with pytest.raises(ConfigError):
            Config.parse(text, (2, 11))
    else:
        assert Config.parse(text, (2, 11)).text == text
