"""Recorded hosts: plain Linux, WSL, containers, Jetson, and broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.model.facts import HostFacts
from envkit.model.observed import Absent, NotApplicable, Unreadable
from envkit.sources.host import read_host

from .trees import known, plant

PLAIN: dict[str, str] = {
    "proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
    "etc/os-release": 'NAME="Ubuntu"\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n',
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU 9000\nflags\t: a b\n",
    "proc/meminfo": "MemTotal:       131072 kB\nMemFree:  1 kB\n",
    "proc/1/cgroup": "0::/init.scope\n",
}


def host(root: Path, files: dict[str, str], *, system: str = "linux") -> HostFacts:
    return read_host(root=plant(root, files), system=system)


def test_a_plain_linux(tmp_path: Path) -> None:
    found = host(tmp_path, PLAIN)
    assert known(found.os) == "linux"
    assert known(found.os_release) == "Ubuntu 24.04.1 LTS"
    assert known(found.kernel) == "6.8.0-45-generic"
    assert known(found.cpu_model) == "Some CPU 9000"
    assert known(found.memory_bytes) == 131072 * 1024
    assert known(found.cpu_count) >= 1
    assert isinstance(found.container, Absent)
    assert known(found.jetson) is False


@pytest.mark.parametrize("release", ["5.15.146.1-microsoft-standard-WSL2", "4.4.0-19041-Microsoft"])
def test_wsl_by_its_kernel(tmp_path: Path, release: str) -> None:
    found = host(tmp_path, {**PLAIN, "proc/sys/kernel/osrelease": release})
    assert known(found.os) == "wsl"


def test_wsl_with_a_kernel_of_the_users_own(tmp_path: Path) -> None:
    found = host(tmp_path, {**PLAIN, "dev/dxg": "", "usr/lib/wsl/lib/": ""})
    assert known(found.os) == "wsl"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({".singularity.d/": ""}, "apptainer"),
        ({".dockerenv": "", "var/run/secrets/kubernetes.io/": ""}, "kubernetes"),
        ({"proc/1/cgroup": "12:devices:/docker/0123abc\n"}, "docker"),
        ({"proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/x\n"}, "kubernetes"),
        ({"proc/1/cgroup": "0::/machine.slice/libpod-0123.scope\n"}, "podman"),
        ({"proc/1/cgroup": "0::/lxc/box\n"}, "lxc"),
        ({"run/systemd/container": "lxc\n"}, "lxc"),
        ({"run/systemd/container": "my-own-thing\n"}, "unknown kind"),
    ],
)
def test_kinds_of_containers(tmp_path: Path, files: dict[str, str], kind: str) -> None:
    assert known(host(tmp_path, {**PLAIN, **files}).container) == kind


def test_a_host_that_runs_containers_is_not_one(tmp_path: Path) -> None:
    files = {"proc/1/cgroup": "0::/init.scope\n", "usr/bin/docker": ""}
    assert isinstance(host(tmp_path, {**PLAIN, **files}).container, Absent)


@pytest.mark.parametrize(
    "files",
    [
        {"etc/nv_tegra_release": "# R35 (release), REVISION: 4.1\n"},
        {"proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0"},
    ],
)
def test_jetson(tmp_path: Path, files: dict[str, str]) -> None:
    assert known(host(tmp_path, {**PLAIN, **files}).jetson) is True


def test_another_board_is_no_jetson(tmp_path: Path) -> None:
    files = {"proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0"}
    assert known(host(tmp_path, {**PLAIN, **files}).jetson) is False


def test_arm_servers_give_a_part_number(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": "processor\t: 0\nCPU part\t: 0xd4f\n"}
    assert known(host(tmp_path, {**PLAIN, **files}).cpu_model) == "Arm part 0xd4f"


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    found = host(tmp_path, {"proc/meminfo": b"\xff\x00MemTotal: many".decode("latin-1")})
    assert known(found.os) == "linux"
    assert isinstance(found.os_release, Absent)
    assert isinstance(found.kernel, Unreadable)
    assert isinstance(found.cpu_model, Absent)
    assert isinstance(found.memory_bytes, Unreadable)


def test_a_folder_in_place_of_a_file_is_unreadable(tmp_path: Path) -> None:
    found = host(tmp_path, {"etc/os-release/": "", "proc/meminfo/": "", "proc/cpuinfo/": ""})
    assert isinstance(found.os_release, Unreadable)
    assert isinstance(found.memory_bytes, Unreadable)
    assert isinstance(found.cpu_model, Unreadable)


def test_hostile_text_is_escaped_and_cut(tmp_path: Path) -> None:
    files = {"etc/os-release": 'PRETTY_NAME="\x1b]0;x\x07' + "y" * 5000 + '\nNAME="unclosed\n'}
    text = known(host(tmp_path, {**PLAIN, **files}).os_release)
    assert "\x1b" not in text
    assert len(text) < 300


@pytest.mark.parametrize(("system", "name"), [("win32", "windows"), ("darwin", "macos")])
def test_other_systems_say_what_does_not_apply(tmp_path: Path, system: str, name: str) -> None:
    found = read_host(root=tmp_path, system=system)
    assert known(found.os) == name
    assert isinstance(found.glibc, NotApplicable)
    assert isinstance(found.container, NotApplicable)


def test_an_unknown_system_is_said_to_be_unknown(tmp_path: Path) -> None:
    assert isinstance(read_host(root=tmp_path, system="plan9").os, Unreadable)
