"""Reading locks: what is right is read, what is wrong is named, both readers say the same."""

from __future__ import annotations

import random
import time
from pathlib import Path

import locks
import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.errors import InputError
from envkit.model import lock_reading
from envkit.model.conda_lock import CondaLock
from envkit.model.lock_reading import read_conda_lock
from envkit.model.lock_writing import write_conda_lock

LOCK = locks.lock(
    locks.package("python", "3.12.11", "h9e4cc4f_0_cpython", dependencies={"libffi": ">=3.4,<3.5"}),
    locks.package("libffi", "3.4", "h0_0"),
    locks.package("lightning", "2.6.0", dependencies={"fsspec": "<2027.0,>=2022.5.0", "tqdm": ""}),
    noted={"envkit_spec": "vit", "envkit_variables": '{"A":"b c"}'},
)
TEXT = write_conda_lock(LOCK, header="Made by a test: do not edit.").decode()


def _read(text: str) -> CondaLock:
    return read_conda_lock(text.encode(), origin="a.yml")


def _fault(text: str) -> str:
    with pytest.raises(InputError) as caught:
        _read(text)
    return caught.value.message


def test_what_was_written_is_read() -> None:
    assert _read(TEXT).metadata == LOCK.metadata
    assert sorted(_read(TEXT).package, key=lambda one: one.name) == sorted(
        LOCK.package, key=lambda one: one.name
    )


def test_parts_of_an_address() -> None:
    python = next(one for one in LOCK.package if one.name == "python")
    assert python.file_name == "python-3.12.11-h9e4cc4f_0_cpython.conda"
    assert python.build_string == "h9e4cc4f_0_cpython"
    assert python.channel_url == "https://conda.anaconda.org/conda-forge"
    assert (python.channel, python.subdir) == ("conda-forge", "linux-64")


def test_recorded_locks_are_read_by_lines_as_by_yaml(shared: Path) -> None:
    found = sorted((shared / "facts" / "conda" / "examples").glob("*/conda-lock.yml"))
    assert len(found) >= 12
    for path in found:
        text = path.read_text(encoding="utf-8")
        by_lines = lock_reading._by_lines(text, path.name)
        assert by_lines is not None
        assert by_lines == lock_reading._by_yaml(text, path.name)
        plain = yaml.safe_load(text)
        assert len(by_lines.package) == len(plain["package"])
        assert [one.version for one in by_lines.package] == [p["version"] for p in plain["package"]]
        assert by_lines.package[-1].dependencies == plain["package"][-1]["dependencies"]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("  version: 2.6.0\n", "  version: 2.6\n", "package[1].version"),
        ("  manager: conda\n", "  manager: apt\n", "package[0].manager"),
        ("    md5: ", "    md5: z", "package[0].hash.md5"),
        ("  optional: false\n", "  optional: maybe\n", "package[0].optional"),
        ("  optional: false\n", "  optional: false\n  extra: 1\n", "package[0]"),
        ("https://conda.anaconda.org", "javascript://conda.anaconda.org", "package[0].url"),
        ("https://conda.anaconda.org", "https://[conda", "package[0].url"),
        ("libffi-3.4-h0_0.conda", "libffi-3.5-h0_0.conda", "package[0].url"),
        ("libffi-3.4-h0_0.conda", "..%2flibffi-3.4-h0_0.exe", "package[0].url"),
        ("/linux-64/libffi", "/win-64/libffi", "package[0].url"),
        ("- name: lightning\n", "- name: libffi\n", "package[1]"),
        ("  - linux-64\n", "  - linux 64\n", "metadata.platforms[0]"),
        ("version: 1\n", "version: 2\n", "format is '2'"),
        ("version: 1\n", "version: 1\nversion: 1\n", "'version' stands twice"),
        ("  sources:\n", "  source:\n", "metadata"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(old: str, new: str, place: str) -> None:
    assert old in TEXT
    assert place in _fault(TEXT.replace(old, new, 1)), _fault(TEXT.replace(old, new, 1))


def test_a_package_twice_is_refused() -> None:
    block = TEXT[TEXT.index("- name: libffi") : TEXT.index("- name: lightning")]
    assert "'libffi' is locked twice for linux-64" in _fault(TEXT + block)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "version: 1",
        "a: &x [1]\nb: *x\n",
        "version: !!python/object/apply:os.system ['true']\n",
        "version: 1\n---\nversion: 1\n",
        "[" * 20000,
        "{a: " * 20000,
        "version: 1\nmetadata: {}\npackage: []\n",
        "\x00",
        "version: 1\nmetadata: *x\n",
    ],
)
def test_hostile_text_is_refused(text: str) -> None:
    assert _fault(text).startswith("a.yml")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="not UTF-8"):
        read_conda_lock(b"\xff\xfe\x00", origin="a.yml")


def test_a_quote_left_open_above_the_packages_is_not_read_by_lines() -> None:
    # To YAML the whole list belongs to the quoted text.
    text = TEXT.replace("  - spec.yml\n", "  - 'spec.yml\n").replace("\npackage:\n", "\npackage:\n")
    assert lock_reading._by_lines(text, "a.yml") is None


def test_a_document_mark_above_the_packages_is_not_read_by_lines() -> None:
    text = TEXT.replace("\npackage:\n", "\n...\npackage:\n")
    assert lock_reading._by_lines(text, "a.yml") is None
    assert "a.yml" in _fault(text)


def _mutated(text: str, seed: int) -> str:
    """Exchange, drop, double or bend a few lines."""
    chance = random.Random(seed)  # noqa: S311 (mistakes, not secrets)
    lines = text.splitlines()
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        bend = chance.choice(["drop", "double", "move", "character", "value"])
        if bend == "drop":
            del lines[at]
        elif bend == "double":
            lines.insert(at, lines[at])
        elif bend == "move":
            lines.insert(chance.randrange(len(lines)), lines.pop(at))
        elif bend == "character":
            place = chance.randrange(len(lines[at]) + 1)
            sign = chance.choice("'\":#-&*!|>%@`{}[],?~ \t\\\x85\u2028\ufeff1eé")
            lines[at] = lines[at][:place] + sign + lines[at][place:]
        else:
            key = lines[at].partition(":")[0]
            word = chance.choice(
                ["1.0", "1e3", "0x1f", "yes", "~", "=", "<<", "12:30", "2026-01-01", "1_0", ".inf",
                 "'a''b'", "'a'b", "a:", "a: b", "a #b", "0o7", "017", "{}", "null", "1,2", "<1"]
            )  # fmt: skip
            lines[at] = f"{key}: {word}"
    return "\n".join(lines) + chance.choice(["\n", "", "\n\n"])


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32))
def test_lines_are_never_read_otherwise_than_yaml_reads_them(seed: int) -> None:
    text = _mutated(TEXT, seed)
    try:
        by_lines = lock_reading._by_lines(text, "a.yml")
    except InputError:
        by_lines = None
    if by_lines is None:
        return
    assert by_lines == lock_reading._by_yaml(text, "a.yml")
    plain = yaml.safe_load(text)
    assert msgspec.to_builtins(by_lines.package[0])["version"] == plain["package"][0]["version"]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_mutated_locks_are_read_or_refused(seed: int) -> None:
    try:
        read = _read(_mutated(TEXT, seed))
    except InputError:
        return
    assert len(read.package) <= len(LOCK.package)


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@settings(max_examples=200, deadline=None)
@given(
    noted=st.dictionaries(_TEXTS, _TEXTS, max_size=3),
    constraint=st.text(st.sampled_from("<>=!*.,|1 2a:'\"#{}[]&%@~\\é"), max_size=8),
)
def test_any_lock_comes_back_as_it_was_written(noted: dict[str, str], constraint: str) -> None:
    one = locks.package("a", "1.0", dependencies={"b": constraint})
    lock = locks.lock(one, noted=noted or None)
    written = write_conda_lock(lock, header="x")
    assert read_conda_lock(written, origin="a.yml") == lock
    assert write_conda_lock(read_conda_lock(written, origin="a.yml"), header="x") == written
    assert yaml.safe_load(written)["package"][0]["dependencies"] == {"b": constraint}


def test_order_of_packages_does_not_change_what_is_written() -> None:
    turned = msgspec.structs.replace(LOCK, package=LOCK.package[::-1])
    assert write_conda_lock(turned, header="x") == write_conda_lock(LOCK, header="x")


def test_our_layout_is_read_by_lines() -> None:
    assert lock_reading._by_lines(TEXT, "a.yml") is not None


HEAD, PACKAGES = TEXT.split("\npackage:\n")
HOSTILE = {
    "items": f"{HEAD}\npackage:\n" + "- a\n" * 1_500_000,
    "flow": f"{HEAD}\npackage: [" + "{a: 1}," * 700_000 + "]\n",
    "brackets": f"{HEAD}\npackage: " + "[" * 5_000_000,
    "keys": f"{HEAD}\npackage: {{" + ",".join(f"k{n}: 1" for n in range(400_000)) + "}\n",
    "aliases": f"{HEAD}\nx: &a 1\npackage: [" + "*a," * 1_600_000 + "]\n",
    "head": "version: 1\n"
    + "".join(f"k{n}: v\n" for n in range(350_000))
    + f"package:\n{PACKAGES}",
    "comments": f"{HEAD}\npackage:\n" + PACKAGES.replace("\n", " # c\n") * 4000,
    "packages": f"{HEAD}\npackage:\n" + PACKAGES * 20_000,
    "number": "version: " + "9" * 5_000_000 + "\nmetadata: {}\npackage: []\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_lock_is_refused_before_it_is_worked_through(kind: str) -> None:
    used = time.process_time()
    assert _fault(HOSTILE[kind])
    assert time.process_time() - used < 3, "whole, the largest of them take 20 seconds"


def test_a_lock_of_four_platforms_in_another_layout_is_read() -> None:
    many = [
        locks.package(
            f"p{n}", platform=platform, dependencies={f"d{i}": ">=1,<2" for i in range(8)}
        )
        for platform in ("linux-64", "linux-aarch64", "osx-64", "osx-arm64")
        for n in range(885)
    ]
    text = write_conda_lock(locks.lock(*many), header="x").decode()
    other = text.replace("  category: main", "  # not by conda-lock 4\n  category: main")
    assert _read(other) == _read(text)
