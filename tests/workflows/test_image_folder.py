"""A build folder is replaced whole, and what others put there is never lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from build_folders import small_wheel, write_folder

from envkit.errors import UsageError


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".whl"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder("cpu", tmp_path / "image")
    return tmp_path / "image"


def test_nothing_but_the_folder_is_left_beside(folder: Path) -> None:
    assert _left(folder.parent) == ["image"]
    write_folder("vit", folder, mode="ssh")
    assert _left(folder.parent) == ["image"]


def test_a_folder_of_envkit_is_replaced_whole(folder: Path) -> None:
    write_folder("vit", folder, mode="ssh")
    assert (folder / "entry/ssh.sh").is_file()
    write_folder("cpu", folder)
    assert not (folder / "entry/ssh.sh").exists()


def test_an_empty_folder_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    write_folder("cpu", tmp_path / "image")
    assert (tmp_path / "image/Dockerfile").is_file()


def test_a_linked_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "image").symlink_to("real")
    write_folder("cpu", tmp_path / "image")
    assert (tmp_path / "image").is_symlink()
    assert (tmp_path / "real/Dockerfile").is_file()


@pytest.mark.parametrize(
    "what", ["notes.txt", "deep/er/notes.txt", "link", "linked-folder", "empty"]
)
def test_files_of_others_are_refused_and_with_force_they_stay(what: str, folder: Path) -> None:
    path = folder / what
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "empty":
        path.mkdir()
    elif "link" in what:
        path.symlink_to(folder.parent if "folder" in what else "nowhere")
    else:
        path.write_text("mine")
    with pytest.raises(UsageError) as caught:
        write_folder("vit", folder)
    assert what in caught.value.message
    assert "pytorch" not in (folder / "Dockerfile").read_text()[:200]
    write_folder("vit", folder, mode="ssh", force=True)
    assert os.path.lexists(path)
    assert path.is_symlink() or path.is_dir() or path.read_text() == "mine"
    assert (folder / "entry/ssh.sh").is_file()
    assert _left(folder.parent) == ["image"]


def test_what_compose_reads_beside_is_the_users_and_stays(folder: Path) -> None:
    for name in (".env", "compose.override.yaml"):
        (folder / name).write_text("mine")
    write_folder("vit", folder)
    assert (folder / ".env").read_text() == "mine"
    assert (folder / "compose.override.yaml").read_text() == "mine"


@pytest.mark.parametrize("name", ["entry/mine.sh", "spec/mine.yml", "wheels/mine.whl", "a/b/c"])
def test_with_force_files_beside_ours_stay_in_a_folder_that_was_never_ours(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "image" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(UsageError, match=path.name):
        write_folder("cpu", tmp_path / "image")
    write_folder("cpu", tmp_path / "image", force=True)
    assert path.read_text() == "mine"
    assert (tmp_path / "image/entry/entrypoint.sh").is_file()


@pytest.mark.parametrize(("name", "content"), [("entry", "a file"), ("Dockerfile/mine", "deep")])
def test_what_cannot_stay_is_refused_even_with_force(
    name: str, content: str, tmp_path: Path
) -> None:
    path = tmp_path / "image" / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UsageError, match="another kind"):
        write_folder("cpu", tmp_path / "image", force=True)
    assert path.read_text() == content


def test_a_changed_file_of_envkit_is_refused_and_replaced_with_force(folder: Path) -> None:
    dockerfile = folder / "Dockerfile"
    written = dockerfile.read_bytes()
    dockerfile.write_bytes(written + b"RUN mine\n")
    with pytest.raises(UsageError, match="Dockerfile"):
        write_folder("cpu", folder)
    assert dockerfile.read_bytes().endswith(b"RUN mine\n")
    write_folder("cpu", folder, force=True)
    assert dockerfile.read_bytes() == written


@pytest.mark.parametrize("said", [None, "{}", "not json", '{"schema": "envkit.image/1"}'])
def test_a_folder_that_does_not_say_it_is_envkits_is_not_taken(
    said: str | None, folder: Path
) -> None:
    manifest = folder / "envkit-image.json"
    manifest.unlink()
    if said is not None:
        manifest.write_text(said)
    with pytest.raises(UsageError, match="did not write"):
        write_folder("cpu", folder)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "image").write_text("mine")
    with pytest.raises(UsageError, match="no folder"):
        write_folder("cpu", tmp_path / "image", force=True)
    assert (tmp_path / "image").read_text() == "mine"


@pytest.mark.parametrize("below", ["", "entry"])
def test_the_folder_that_a_shell_stands_in_is_not_replaced(
    below: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / below)
    with pytest.raises(UsageError, match="current folder"):
        write_folder("vit", folder)
    assert Path.cwd() == folder / below


def test_an_interrupt_leaves_the_old_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (folder / "Dockerfile").read_bytes()
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if target == folder and ".envkit-old-" not in self.name:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder("vit", folder)
    assert (folder / "Dockerfile").read_bytes() == before
    assert _left(folder.parent) == ["image"]


def test_an_interrupt_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = small_wheel(tmp_path)

    def interrupted(self: Path, content: bytes) -> int:
        del content
        raise KeyboardInterrupt(self.name)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder("cpu", tmp_path / "new/image", wheel=wheel)
    assert _left(tmp_path) == []
