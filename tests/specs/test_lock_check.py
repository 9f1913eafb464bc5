"""Whether a lock still fits its spec."""

from __future__ import annotations

from pathlib import Path

import locks
import msgspec
import pytest
from spec_texts import spec_of, spec_text

from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.specs.content_hash import content_hash
from envkit.specs.lock_check import why_stale
from envkit.specs.lock_metadata import Notes, notes_of
from envkit.specs.registry import Entry, Needs, Registry
from envkit.specs.resolve import ResolvedSpec

TEXT = spec_text("python=3.12", "pytorch=2.7.1=*cuda126*", "conda-forge::zlib>=1.3")
SPEC = spec_of(TEXT)
MACHINE = {"__cuda": "12.6", "__glibc": "2.28", "__linux": "5.10", "__unix": "0"}
MACHINE["__archspec"] = "1 x86_64"
NOTES = Notes(
    spec="vit",
    version="1.0.0",
    content_hash=content_hash(SPEC),
    variables={"A": "b"},
    virtual_packages={"linux-64": MACHINE},
)
PACKAGES = (
    locks.package("python", "3.12.1", dependencies={"zlib": ">=1.3,<2.0a0", "__glibc": ">=2.17"}),
    locks.package("pytorch", "2.7.1", "cuda126_py312_h0_200"),
    locks.package("zlib", "1.3.1"),
)
ENTRY = Entry(
    version="1.0.0",
    content_hash=content_hash(SPEC),
    purpose="a test",
    platforms=("linux-64",),
    needs=Needs(gpu=True),
    virtual_packages={"__cuda": "12.6"},
    measured="none",
)


def _resolved(entry: Entry | None = ENTRY) -> ResolvedSpec:
    folder = Path("environments")
    return ResolvedSpec(
        asked="vit",
        path=folder / "vit.yml",
        lock_path=folder / "vit.conda-lock.yml",
        name="vit" if entry else None,
        entry=entry,
        registry=Registry(folder=folder, specs={"vit": entry}) if entry else None,
    )


def _lock(*packages: LockedPackage, notes: Notes = NOTES) -> CondaLock:
    return locks.lock(*packages, noted=notes.as_metadata())


def _why(lock: CondaLock, text: str = TEXT, entry: Entry | None = ENTRY) -> str:
    return "\n".join(why_stale(lock, spec_of(text), _resolved(entry), ("linux-64",)))


def test_notes_come_back_as_they_were_written() -> None:
    assert notes_of(_lock(*PACKAGES)) == NOTES
    assert notes_of(_lock(*PACKAGES)).reference == "vit@1.0.0"
    broken = {"envkit_variables": "[", "envkit_virtual_packages": "7"}
    assert notes_of(locks.lock(noted=broken)) == Notes()


def test_a_lock_of_this_very_spec_is_fresh() -> None:
    assert _why(_lock(*PACKAGES)) == ""


def test_comments_and_order_do_not_make_it_stale() -> None:
    turned = spec_text("conda-forge::zlib>=1.3", "pytorch=2.7.1=*cuda126*  # x", "python=3.12")
    assert _why(_lock(*PACKAGES), turned) == ""


def test_a_changed_dependency_makes_it_stale_and_is_named() -> None:
    said = _why(_lock(*PACKAGES), TEXT.replace("python=3.12", "python=3.13"))
    assert "the spec has changed" in said
    assert "python=3.13 (line 6) is not met by python 3.12.1 h0_0 of conda-forge" in said


def test_build_and_channel_are_compared_too() -> None:
    cpu = locks.package("pytorch", "2.7.1", "cpu_generic_py312_h0_0")
    assert "pytorch=2.7.1=*cuda126*" in _why(_lock(PACKAGES[0], cpu, PACKAGES[2]))
    said = _why(_lock(*PACKAGES), TEXT.replace("conda-forge::zlib", "nvidia::zlib"))
    assert "nvidia::zlib>=1.3" in said


def test_a_package_that_is_missing_is_named() -> None:
    said = _why(_lock(*PACKAGES[:2]))
    assert "conda-forge::zlib>=1.3 (line 8) is not locked" in said
    assert "python needs zlib, which is not locked" in said


def test_a_package_changed_by_hand_is_found() -> None:
    old = msgspec.structs.replace(PACKAGES[2], version="1.2.9")
    assert "python needs zlib >=1.3,<2.0a0, and 1.2.9 is locked" in _why(_lock(*PACKAGES[:2], old))


def test_another_version_or_machine_in_the_registry_makes_it_stale() -> None:
    newer = msgspec.structs.replace(ENTRY, version="1.1.0", virtual_packages={"__cuda": "12.9"})
    said = _why(_lock(*PACKAGES), entry=newer)
    assert "it was made for version 1.0.0; the registry has 1.1.0" in said
    assert "it was solved for __cuda 12.6; the registry has 12.9" in said


def test_a_lock_without_notes_cannot_be_told_fresh() -> None:
    said = _why(locks.lock(*PACKAGES), entry=None)
    assert said == "the lock does not say which content of the spec it was made from"


def test_a_platform_that_is_not_locked_is_named() -> None:
    lock = _lock(*PACKAGES)
    reasons = why_stale(lock, SPEC, _resolved(), ("linux-64", "osx-arm64"))
    assert reasons == ("osx-arm64 is not locked",)


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("https://elsewhere.example/conda-forge", "locked at https://elsewhere.example/conda-"),
        ("http://conda.anaconda.org/conda-forge", "locked at http://conda.anaconda.org/conda-"),
        ("https://conda.anaconda.org/conda-forge/../x", "which is no channel of the spec"),
        ("file:///srv/conda-forge", "locked at file:///srv/conda-forge"),
        ("https://me:SECRET@conda.anaconda.org/conda-forge", "zlib: locked at an address with"),
        ("https://conda.anaconda.org/t/SECRET/conda-forge", "zlib: locked at an address with"),
    ],
)
def test_an_address_that_is_no_channel_of_the_spec_is_found(channel: str, said: str) -> None:
    url = f"{channel}/linux-64/zlib-1.3.1-h0_0.conda"
    found = _why(_lock(*PACKAGES[:2], msgspec.structs.replace(PACKAGES[2], url=url)))
    assert said in found
    assert "SECRET" not in found


def test_a_channel_by_its_address_is_the_one_that_is_meant() -> None:
    text = TEXT.replace("conda-forge\n", "https://pkgs.example/own/\n").replace("conda-forge::", "")
    assert "https://pkgs.example/own/" in text
    own = tuple(
        msgspec.structs.replace(
            one, url=one.url.replace("conda.anaconda.org/conda-forge", "pkgs.example/own")
        )
        for one in PACKAGES
    )
    assert "no channel of the spec" not in _why(_lock(*own), text)
    assert "no channel of the spec" in _why(_lock(*PACKAGES), text)


@pytest.mark.parametrize("constraint", [">>><<garbage", "2.*|^$", "^1.*$"])
def test_a_constraint_that_cannot_be_read_does_not_hold(constraint: str) -> None:
    python = msgspec.structs.replace(PACKAGES[0], dependencies={"zlib": constraint})
    said = _why(_lock(python, *PACKAGES[1:]))
    assert f"python needs zlib {constraint}, and 1.3.1 is locked" in said


def test_a_package_of_pip_meets_no_dependency_of_conda() -> None:
    wheel = msgspec.structs.replace(PACKAGES[2], manager="pip")
    said = _why(_lock(*PACKAGES[:2], wheel))
    assert "conda-forge::zlib>=1.3 (line 8) is not locked" in said
    assert "python needs zlib, which is not locked" in said
    assert "zlib: locked for pip" in said


def test_a_package_that_nothing_needs_is_named() -> None:
    assert _why(_lock(*PACKAGES, locks.package("pip"))) == ""  # conda gives it to Python
    extra = [locks.package("stray", dependencies={"other": ""}), locks.package("other")]
    said = _why(_lock(*PACKAGES, *extra))
    assert said == "linux-64: stray, other: locked, and nothing needs it"
