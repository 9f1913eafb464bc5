"""An image built for real, without root's rights over the machine: buildah with chroot isolation.

The base is made of the Debian packages of this machine, or is the folder that the variable
ENVKIT_TEST_BASE names (debootstrap makes one). The packages of the lock are written here and
served on the loopback address; the wheels that envkit needs are downloaded once.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from build_folders import working_wheel, write_folder
from conda_channel import Package, write_channel
from running import PACKAGE_ROOT

from envkit.workflows.lock import LockRequest, lock

pytestmark = [
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="builds for linux-64"
    ),
    pytest.mark.skipif(
        "site-packages" in PACKAGE_ROOT.parts, reason="slow: one build, of the source, is enough"
    ),
    pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed here"),
]
HOSTILE = """a "b" $HOME ${PATH} \\ `id` 'c' {{ d }} #e ${"""
SPEC = """\
name: small
channels: ["http://127.0.0.1:{port}/conda-forge"]
dependencies: [tool=1, python=3.11]
variables:
  HOSTILE: {hostile}
"""
DPKG_QUERY = "/usr/bin/dpkg-query"
ACTIVATION = b"export TOOL_ACTIVE=yes\n"
#: What a base needs: a shell, users, and a Python that makes virtual environments.
PACKAGES = ("base-files", "base-passwd", "bash", "dash", "coreutils", "passwd", "python3-venv")
#: Layers that share files need root; vfs copies everything, and so works everywhere and slowly.
DRIVER = "overlay" if sys.platform == "linux" and os.getuid() == 0 else "vfs"
BASE = "localhost/envkit-test-base:1"
IMAGE = "localhost/envkit-test:1"


@dataclass(frozen=True)
class Engine:
    """buildah with a store of its own."""

    folder: Path

    def run(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        store = ("--root", self.folder / "store", "--runroot", self.folder / "run")
        command = ["buildah", *map(str, store), "--storage-driver", DRIVER, *map(str, words)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.folder)},
        )
        if check and done.returncode:
            pytest.fail(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done

    def inside(self, *words: str) -> str:
        """What a command prints in a new container of the image, started as the image says."""
        container = self.run("from", IMAGE).stdout.strip()
        entry = ("/bin/bash", "/opt/entry/entrypoint.sh")
        done = self.run("run", "--isolation", "chroot", container, "--", *entry, *words)
        self.run("rm", container)
        return done.stdout


def _closure(names: tuple[str, ...]) -> list[str]:
    """Debian packages with all that they depend on, as they are installed here."""
    asked = subprocess.run(
        [DPKG_QUERY, "-W", "-f", "${Package}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\n"],
        capture_output=True,
        text=True,
        check=False,
    )
    depends: dict[str, list[str]] = {}
    providers: dict[str, str] = {}
    for line in asked.stdout.splitlines():
        name, needs, provides = line.split("\t")
        depends[name] = [one.split("|")[0].split()[0].split(":")[0] for one in _parts(needs)]
        providers |= {one.split()[0]: name for one in _parts(provides)}
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        name = name if name in depends else providers.get(name, name)
        if name in found:
            continue
        if name not in depends:
            pytest.skip(f"the Debian package {name} is not installed here")
        found[name] = None
        waiting += depends[name]
    return list(found)


def _parts(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _base_of_this_machine(folder: Path) -> Path:
    """Copy the files of the packages to a folder, and make of it a root that programs start in."""
    if not Path(DPKG_QUERY).is_file():
        pytest.skip("this is no Debian, and ENVKIT_TEST_BASE names no folder of one")
    listed = subprocess.run(
        [DPKG_QUERY, "-L", *_closure(PACKAGES)], capture_output=True, text=True, check=True
    )
    skipped = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info")
    names = sorted(
        line.lstrip("/")
        for line in set(listed.stdout.splitlines())
        if line.startswith("/") and line != "/." and not line.startswith(skipped)
        if os.path.lexists(line)
    )
    folder.mkdir()
    for link in ("bin", "sbin", "lib", "lib64"):
        if Path("/", link).is_symlink():
            (folder / "usr" / link).mkdir(parents=True, exist_ok=True)
            (folder / link).symlink_to(f"usr/{link}")
    packed = subprocess.run(
        ["/bin/tar", "-C", "/", "-c", "--no-recursion", "-T", "-"],
        input="\n".join(names).encode(),
        capture_output=True,
        check=True,
    )
    subprocess.run(
        ["/bin/tar", "-C", str(folder), "-x", "--keep-directory-symlink", "--no-same-owner"],
        input=packed.stdout,
        check=True,
    )
    # Made when the package of certificates was installed, and so in no list of files. py-rattler
    # does not start without it, even for addresses that need none.
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if not certificates.is_file():
        pytest.skip("ca-certificates is not installed here")
    (folder / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    shutil.copy(certificates, folder / "etc/ssl/certs")
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    (folder / "usr/local/bin").mkdir(parents=True)
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    return folder


def _wheels(base: Path, folder: Path, written: Path) -> None:
    """Download what the requirement files of a build folder name, for the Python of the base."""
    versions = [path.name for path in (base / "usr/bin").glob("python3.*")]
    version = next(one.removeprefix("python") for one in versions if one[-1].isdigit())
    files = [written / "requirements.txt", written / "builder-requirements.txt"]
    own = f"./wheels/{next((written / 'wheels').iterdir()).name}"
    lines = "".join(file.read_text().partition(own)[0] for file in files)
    (folder / "wanted.txt").write_text(lines)
    platforms = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--only-binary", ":all:", "--python-version", version, "--implementation", "cp"),
            *(word for one in platforms for word in ("--platform", one)),
            *("--requirement", str(folder / "wanted.txt"), "--dest", str(base / "wheels")),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the wheels cannot be downloaded: {done.stderr.strip()[-500:]}")


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A folder of channels and the port that it is served on."""
    folder = tmp_path_factory.mktemp("channels")
    python = {"bin/python": b'#!/bin/sh\nexec /usr/bin/python3 "$@"\n'}
    write_channel(
        folder / "conda-forge",
        Package("tool", depends=("base >=2",), files={"etc/conda/activate.d/tool.sh": ACTIVATION}),
        Package("base", "2.5", ending=".tar.bz2"),
        Package("python", "3.11.2", "h0_0_cpython", files=python),
    )
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def written(channel: tuple[Path, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of a small lock."""
    pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
    pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")
    folder = tmp_path_factory.mktemp("small")
    spec = folder / "small.yml"
    spec.write_text(SPEC.format(port=channel[1], hostile=json.dumps(HOSTILE)), encoding="utf-8")
    lock(LockRequest(specs=(str(spec),), solver="builtin"), os.environ, lambda *_: None)
    write_folder(spec, folder / "image", base=BASE, wheel=working_wheel(folder))
    return folder / "image"


@pytest.fixture(scope="module")
def engine(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has the base; what it stores is gone in the end."""
    folder = tmp_path_factory.mktemp("engine")
    engine = Engine(folder)
    named = os.environ.get("ENVKIT_TEST_BASE")
    base = folder / "base"
    if named:
        shutil.copytree(named, base, symlinks=True, ignore=shutil.ignore_patterns("dev", "proc"))
    else:
        _base_of_this_machine(base)
    _wheels(base, folder, written)
    (base / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    made = engine.run("from", "scratch", check=False)
    if made.returncode:
        pytest.skip(f"buildah cannot work here: {made.stderr.strip()[-500:]}")
    container = made.stdout.strip()
    engine.run("add", "--quiet", container, base, "/")
    tried = engine.run("run", "--isolation", "chroot", container, "--", "/bin/true", check=False)
    if tried.returncode:
        pytest.skip(f"the kernel allows no chroot isolation: {tried.stderr.strip()[-500:]}")
    engine.run("commit", "--quiet", container, BASE)
    engine.run("rm", container)
    shutil.rmtree(base)
    yield engine
    engine.run("rm", "--all", check=False)
    engine.run("rmi", "--all", "--force", check=False)


def _build(engine: Engine, folder: Path, *, check: bool) -> subprocess.CompletedProcess[str]:
    build = ("bud", "--isolation", "chroot", "--format", "docker", "--tag", IMAGE)
    return engine.run(*build, folder, check=check)


def test_image_is_what_the_lock_says_or_is_not_built(engine: Engine, written: Path) -> None:
    """One test, so that processes that share the tests prepare an engine once."""
    _build_and_look(engine, written)
    _refuse_another_wheel(engine, written)


def _build_and_look(engine: Engine, written: Path) -> None:
    _build(engine, written, check=True)
    said = json.loads(engine.run("inspect", IMAGE).stdout)["Docker"]["config"]
    assert f"HOSTILE={HOSTILE}" in said["Env"]
    assert said["User"] == "1000:1000"
    assert said["Labels"]["envkit.packages"] == "3"

    asked = "import os; print(os.environ['HOSTILE'], os.environ['TOOL_ACTIVE'], os.getuid())"
    assert engine.inside("python", "-c", asked) == f"{HOSTILE} yes 1000\n"
    assert engine.inside("tool") == "/opt/env/share\n"  # the prefix inside is the final one
    left = "ls /build /opt/env/pkgs /opt/env/conda-meta/cache; command -v conda gcc cc pip; true"
    assert engine.inside("sh", "-c", f"{left} 2>/dev/null") == ""

    verify = "envkit verify --no-fingerprint --json; test $? = 3"  # there is no torch in it
    report = json.loads(engine.inside("sh", "-c", verify))
    assert report["target"]["prefix"] == "/opt/env"
    statuses = {check["code"]: check["status"] for check in report["checks"]}
    assert {statuses[f"CON00{n}"] for n in (1, 2, 3, 4, 5, 8)} == {"pass"}
    assert statuses["CON009"] == "pass"  # the variables of the spec are in effect
    assert report["verdict"]["status"] == "incomplete"


def _refuse_another_wheel(engine: Engine, written: Path) -> None:
    wheel = next((written / "wheels").iterdir())
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    done = _build(engine, written, check=False)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stdout + done.stderr
