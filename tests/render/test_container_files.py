"""Nothing that a user, a spec or a lock says is read as anything but a text in a build folder."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.render.container.folder import render_folder
from envkit.render.container.plan import ImagePlan, Limits
from envkit.render.container.quoting import docker_quoted, filled, shell_quoted, sshd_quoted

PLAN = ImagePlan(
    name="vit",
    reference="vit@1.0.0",
    tag="1.0.0-base",
    mode="base",
    base="docker.io/library/debian:12",
    architecture="amd64",
    has_spec=True,
    needs_gpu=True,
    variables={"ENVKIT_SPEC": "vit@1.0.0"},
    requirements={"NVIDIA_REQUIRE_CUDA": "cuda>=12.0"},
    labels={"envkit.mode": "base"},
    limits=Limits(gpus="all", memory="16g", cpus="4"),
    port=2222,
    jupyter="lab",
    notebooks="/workspace",
    code="..",
)
PRINTABLE = st.text(max_size=40).filter(str.isprintable)
NASTY = [
    "",
    "$HOME",
    "${X:-y}",
    '"',
    "\\",
    "\\\\$a\\",
    "`id`",
    "$(id)",
    "'",
    "# x",
    "{{ x }}",
    "@{base}",
]


def _files(**changes: Any) -> dict[str, str]:
    plan = msgspec.structs.replace(PLAN, **changes)
    return render_folder(plan, wheel="envkit.whl", wheel_sha256="0" * 64)


def _docker_word(quoted: str) -> str:
    """Read a word in double quotes as Docker does: a backslash takes the meaning of three signs."""
    assert quoted[0] == quoted[-1] == '"'
    assert re.fullmatch(r'"(?:\\[\\"$]|[^\\"$])*"', quoted)
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


@given(text=PRINTABLE | st.sampled_from(NASTY))
def test_a_text_in_a_dockerfile_stays_itself(text: str) -> None:
    assert _docker_word(docker_quoted(text)) == text


@given(text=PRINTABLE | st.sampled_from(NASTY))
def test_a_text_in_a_shell_stays_itself_and_is_no_place_of_apptainer(text: str) -> None:
    quoted = shell_quoted(text)
    assert shlex.split(quoted) == [text]
    assert "{{" not in quoted


@given(text=PRINTABLE | st.sampled_from(NASTY))
def test_a_text_in_sshd_config_stays_itself(text: str) -> None:
    quoted = sshd_quoted(text)
    assert re.fullmatch(r'"(?:\\[\\"]|[^\\"])*"', quoted)
    assert re.sub(r"\\(.)", r"\1", quoted[1:-1]) == text


@pytest.mark.parametrize("quote", [docker_quoted, shell_quoted, sshd_quoted])
@pytest.mark.parametrize("text", ["a\nRUN id", "a\rb", "a\0b", "a\u2028b", "\x1b[0m"])
def test_a_text_that_would_leave_its_line_is_refused(quote: Any, text: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        quote(text)


@given(
    variables=st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), PRINTABLE, max_size=3)
)
@settings(max_examples=30)
def test_variables_add_no_instruction(variables: dict[str, str]) -> None:
    plain, with_them = _files(variables={}), _files(variables=variables)
    for name in ("Dockerfile", "Apptainer.def"):
        assert _instructions(with_them[name]) == _instructions(plain[name])


def _instructions(text: str) -> list[str]:
    joined = re.sub(r"\\\n", "", text)
    found = re.findall(r"^(?:[A-Z]+|%[a-z]+)(?= |$)", joined, re.MULTILINE)
    assert len(found) > 8
    return found


def test_what_was_put_in_is_not_filled_again() -> None:
    files = _files(variables={"X": "@{base} @{prefix}"})
    assert 'X="@{base} @{prefix}"' in files["Dockerfile"]
    assert "export X='@{base} @{prefix}'" in files["Apptainer.def"]


def test_a_place_that_is_not_filled_is_an_error() -> None:
    with pytest.raises(KeyError):
        filled("Dockerfile", {})


def test_apptainer_environment_sets_what_was_asked(tmp_path: Any) -> None:
    variables = {f"X{n}": text for n, text in enumerate(NASTY)}
    text = _files(variables=variables)["Apptainer.def"]
    script = text.partition("%environment\n")[2].partition("\n%")[0]
    shown = "".join(f'printf "%s\\0" "$X{n}"\n' for n in range(len(NASTY)))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{script}\nPATH=/usr/bin:/bin\n{shown}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.split("\0")[:-1] == NASTY


@pytest.mark.parametrize("code", ["../a b", "./$HOME", "./${X:-y}", "./a: b", "./'\"", "./# x"])
def test_compose_mounts_the_folder_that_was_named(code: str) -> None:
    said = yaml.safe_load(_files(code=code)["compose.yaml"])
    source = said["services"]["vit"]["volumes"][0]["source"]
    assert source.replace("$$", "").count("$") == 0  # nothing that Compose would replace
    assert source.replace("$$", "$") == code


@pytest.mark.parametrize(
    ("gpus", "devices"),
    [
        ("all", [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]),
        (("0", "2"), [{"driver": "nvidia", "device_ids": ["0", "2"], "capabilities": ["gpu"]}]),
        ((), None),
    ],
)
def test_compose_limits_gpus_memory_and_processors(gpus: Any, devices: Any) -> None:
    files = _files(limits=Limits(gpus=gpus, memory="32g", cpus="1.5"))
    resources = yaml.safe_load(files["compose.yaml"])["services"]["vit"]["deploy"]["resources"]
    assert resources["limits"] == {
        "cpus": "${ENVKIT_CPUS:-1.5}",
        "memory": "${ENVKIT_MEMORY:-32g}",
    }
    assert resources.get("reservations", {}).get("devices") == devices


def test_ports_are_opened_for_this_machine_alone_unless_the_user_says_so() -> None:
    for mode in ("jupyter", "ssh"):
        said = yaml.safe_load(_files(mode=mode)["compose.yaml"])
        assert said["services"]["vit"]["ports"] == ["${ENVKIT_BIND:-127.0.0.1}:2222:2222"]
    assert "ports" not in yaml.safe_load(_files()["compose.yaml"])["services"]["vit"]


def test_no_file_holds_a_key_or_a_token() -> None:
    for mode in ("base", "jupyter", "ssh"):
        files = _files(mode=mode)
        assert not [name for name in files if "host_key" in name or "authorized" in name]
        wanted = re.findall(
            r"JUPYTER_TOKEN[=:] ?(\S+)", files["compose.yaml"] + files["Dockerfile"]
        )
        assert wanted == (["'${JUPYTER_TOKEN:?JUPYTER_TOKEN:"] if mode == "jupyter" else [])


def test_the_last_stage_copies_and_installs_nothing() -> None:
    last = _files()["Dockerfile"].split("\nFROM ")[2]
    assert not re.search(r"pip |envkit create|apt-get|curl|wget", last)
    assert re.findall(r"^USER (.*)$", last, re.MULTILINE)[-1] == "${UID}:${GID}"


def test_dev_container_is_json_whatever_the_spec_is_called() -> None:
    files = _files(reference='a"b')
    assert json.loads(files[".devcontainer/devcontainer.json"])["name"] == 'a"b'
