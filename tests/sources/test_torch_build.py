"""torch read from recorded files of wheels, conda packages, checkouts and broken installations."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.model.facts import TorchFacts
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.sources.conda_prefix import read_conda
from envkit.sources.pip_packages import read_pip
from envkit.sources.torch_build import literal_assignments, read_torch_build
from envkit.sources.torch_origin import wheel_channel

from .trees import conda_record, dist_info, known, plant

SITE = "lib/python3.11/site-packages"
VERSION_FILE = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.6.0+cu124'
debug = False
cuda: Optional[str] = '12.4'
git_version = '0123456789abcdef'
hip: Optional[str] = None
"""


def read(root: Path, environ: dict[str, str] | None = None) -> TorchFacts:
    environ = environ or {}
    return read_torch_build(root, read_conda(root), read_pip(root, environ), environ)


def wheel(version: str, text: str = VERSION_FILE, **more: str) -> dict[str, str]:
    return {f"{SITE}/torch/version.py": text, **dist_info(SITE, "torch", version, **more)}


def test_a_wheel_of_the_python_index(tmp_path: Path) -> None:
    found = read(plant(tmp_path, wheel("2.6.0")))
    assert found.version == Known(value="2.6.0+cu124", source="torch/version.py")
    assert known(found.cuda) == "12.4"
    assert isinstance(found.hip, Absent)
    assert known(found.git_version) == "0123456789abcdef"
    assert known(found.channel) == "pypi"
    assert known(found.installer) == "pip"
    assert known(found.location) == f"{SITE}/torch"
    assert isinstance(found.import_failure, NotApplicable)


def test_a_build_without_cuda(tmp_path: Path) -> None:
    text = "__version__ = '2.6.0+cpu'\ncuda: Optional[str] = None\nhip = None\n"
    found = read(plant(tmp_path, wheel("2.6.0+cpu", text, installer="uv")))
    assert isinstance(found.cuda, Absent)
    assert known(found.channel) == "pytorch"
    assert known(found.installer) == "uv"
    assert isinstance(found.git_version, Unreadable)


@pytest.mark.parametrize(
    ("text", "beside", "accelerator"),
    [
        ("cuda = '12.4'\nhip = None\nxpu = None\n", "", "cuda"),
        ("cuda = None\nhip = '6.4.1'\n", "", "rocm"),
        ("cuda = None\nhip = None\nxpu = '20250101'\n", "", "xpu"),
        ("cuda = None\nhip = None\n", "torch-npu", "npu"),
        ("cuda = None\nhip = None\n", "torch_xla", "tpu"),
        ("cuda = '12.4'\nhip = None\n", "torch_xla", "cuda"),
    ],
)
def test_what_a_build_computes_on(tmp_path: Path, text: str, beside: str, accelerator: str) -> None:
    plant(tmp_path, wheel("2.6.0", f"__version__ = '2.6.0'\n{text}"))
    if beside:
        plant(tmp_path, dist_info(SITE, beside, "2.6.0"))
    assert known(read(tmp_path).accelerator) == accelerator


def test_a_build_for_nothing_else_computes_on_the_cpu_or_on_a_mac(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, wheel("2.6.0", "__version__ = '2.6.0'\ncuda = None\nhip = None\n"))
    for system, accelerator in (("linux", "cpu"), ("darwin", "mps")):
        monkeypatch.setattr("envkit.sources.torch_build.sys.platform", system)
        assert known(read(tmp_path).accelerator) == accelerator


def test_a_build_that_cannot_be_read_computes_on_nobody_knows_what(tmp_path: Path) -> None:
    assert isinstance(read(plant(tmp_path, wheel("2.6.0", "\0"))).accelerator, Unreadable)


def test_a_conda_package(tmp_path: Path) -> None:
    plant(tmp_path, wheel("2.5.1", installer="conda"))
    plant(tmp_path, conda_record("libtorch", "2.5.1", "cuda126_h1"))
    plant(tmp_path, conda_record("pytorch", "2.5.1", "cuda126_py311_h1"))
    found = read(tmp_path)
    assert found.channel == Known(value="conda-forge", source="conda-meta: pytorch")
    assert known(found.installer) == "conda"


def test_a_wheel_over_a_conda_package_is_pips(tmp_path: Path) -> None:
    plant(tmp_path, wheel("2.6.0"))
    plant(tmp_path, conda_record("pytorch", "2.5.1", "cuda126_py311_h1"))
    found = read(tmp_path)
    assert known(found.installer) == "pip"
    assert known(found.channel) == "pypi"


def test_no_torch(tmp_path: Path) -> None:
    found = read(plant(tmp_path, {f"{SITE}/": ""}))
    assert isinstance(found.version, Absent)
    assert "torch is not installed in lib/python3.11/site-packages" in found.version.reason
    assert isinstance(found.cuda, NotApplicable)
    assert isinstance(found.import_failure, NotApplicable)


def test_a_prefix_without_python_and_no_prefix(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path).version, Absent)
    none = read_torch_build(None, read_conda(None), read_pip(None, {}), {})
    assert isinstance(none.version, NotApplicable)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe",
        b"x" * 100_000,
        b"__version__ = " + b"(" * 50_000,
        b"__version__ = __import__('os').system('touch hacked')\n",
        b"__version__ = 5\n",
        b"__version__ = ['2.6.0']\n",
        b"def f():\n    __version__ = '2.6.0'\n",
    ],
    ids=lambda content: repr(content[:24]),
)
def test_a_broken_version_file_leaves_the_metadata(tmp_path: Path, content: bytes) -> None:
    plant(tmp_path, wheel("2.6.0"))
    plant(tmp_path, {f"{SITE}/torch/version.py": content})
    found = read(tmp_path)
    assert found.version == Known(value="2.6.0", source="metadata of the distribution torch")
    assert isinstance(found.cuda, Unreadable)
    assert not (tmp_path / "hacked").exists()


def test_a_broken_version_file_without_metadata_is_unreadable(tmp_path: Path) -> None:
    found = read(plant(tmp_path, {f"{SITE}/torch/version.py/": ""}))
    assert isinstance(found.version, Unreadable)
    assert isinstance(found.installer, Unreadable)
    assert isinstance(found.channel, Unreadable)


def test_a_checkout_installed_in_place_is_known_by_its_metadata(tmp_path: Path) -> None:
    found = read(plant(tmp_path, dist_info(SITE, "torch", "2.9.0a0+git0123abc")))
    assert known(found.version) == "2.9.0a0+git0123abc"
    assert known(found.channel) == "source"
    assert isinstance(found.location, Absent)
    assert isinstance(found.cuda, Unreadable)


def test_a_torch_in_the_users_folder_comes_before_the_environments(tmp_path: Path) -> None:
    users = "home/.local/lib/python3.11/site-packages"
    plant(tmp_path / "env", wheel("2.5.1", installer="conda"))
    plant(tmp_path / "env", conda_record("pytorch", "2.5.1", "cuda126_py311_h1"))
    plant(tmp_path, dist_info(users, "torch", "2.6.0"))
    plant(tmp_path, {f"{users}/torch/version.py": VERSION_FILE})
    found = read(tmp_path / "env", {"HOME": str(tmp_path / "home")})
    assert known(found.location) == "~/.local/lib/python3.11/site-packages/torch"
    assert known(found.installer) == "pip"
    assert known(found.channel) == "pypi"


def test_a_checkout_on_pythonpath_has_neither_installer_nor_channel(tmp_path: Path) -> None:
    plant(tmp_path / "env", wheel("2.5.1"))
    plant(tmp_path / "env", conda_record("pytorch", "2.5.1", "cuda126_py311_h1"))
    plant(tmp_path, {"checkout/torch/version.py": VERSION_FILE})
    found = read(tmp_path / "env", {"PYTHONPATH": str(tmp_path / "checkout")})
    assert known(found.version) == "2.6.0+cu124"
    assert isinstance(found.installer, Unreadable)
    assert isinstance(found.channel, Unreadable)


def test_broken_conda_records_do_not_become_a_guess(tmp_path: Path) -> None:
    plant(tmp_path, wheel("2.5.1", installer="conda"))
    plant(tmp_path, {"conda-meta/pytorch-2.5.1-0.json": "{"})
    found = read(tmp_path)
    assert known(found.installer) == "conda"
    assert isinstance(found.channel, Unreadable)
    assert "none of the 1 records" in found.channel.reason


@pytest.mark.parametrize(
    ("version", "channel"),
    [
        ("2.6.0", "pypi"),
        ("2.6.0.post1", "pypi"),
        ("2.6.0+cu124", "pytorch"),
        ("2.6.0+cpu", "pytorch"),
        ("2.6.0+cpu.cxx11.abi", "pytorch"),
        ("2.9.1+rocm6.4", "pytorch"),
        ("2.8.0+xpu", "pytorch"),
        ("2.9.0.dev20250801+cu129", "pytorch"),
        ("2.7.0a0+79aa17489c.nv25.04", "nvidia"),
        ("2.7.0a0+git1234567", "source"),
        ("2.1.0+my.build", "source"),
    ],
)
def test_where_a_wheel_was_published(version: str, channel: str) -> None:
    assert wheel_channel(version) == channel


def test_only_plain_assignments_are_read() -> None:
    text = "a = 'x'  # why\nb: int = 3\nc = a\nd = f'{a}'\n  e = 1\nf = None\ng == 2\nh = True\n"
    assert literal_assignments(text) == {"a": "x", "b": 3, "f": None, "h": True}
