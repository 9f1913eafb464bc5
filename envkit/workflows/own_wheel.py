"""The wheel of envkit that an image gets: one that was given, or this envkit packed as it is here.

A wheel is a zip of the files of a package with their list (PyPA: Binary distribution format). The
same files give the same bytes: names are sorted, times are one, and nothing is compressed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Final

import msgspec

from envkit import __version__
from envkit.errors import InputError, UsageError
from envkit.specs import folders

DISTRIBUTION: Final = "envkit-torch"
_FILE: Final = re.compile(r"envkit_torch-(?P<version>[A-Za-z0-9.!+]{1,60})-py3-none-any\.whl")
_MOST_BYTES: Final = 64 << 20
#: The earliest time that a zip can hold.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_TAG: Final = b"Wheel-Version: 1.0\nGenerator: envkit image\nRoot-Is-Purelib: true\n"
_KIND: Final = b"Tag: py3-none-any\n"


class OwnWheel(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel of envkit."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """Its SHA-256 as hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


def given_wheel(path: Path) -> OwnWheel:
    """Read a wheel that the user named.

    Raises:
        InputError: it cannot be read, or is no wheel of envkit.

    """
    step = "Build one in a clone of envkit: pip wheel --no-deps ."
    found = _FILE.fullmatch(path.name)
    if found is None:
        message = f"{path.name[:80]} is not named as a wheel of {DISTRIBUTION} is."
        raise InputError(message, next_step=step)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            message = f"{path} has more than {_MOST_BYTES >> 20} MiB."
            raise InputError(message, next_step=step)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = frozenset(archive.namelist())
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        raise InputError(message, next_step="Check the path and its permissions.") from error
    except zipfile.BadZipFile as error:
        message = f"{path} is no wheel: {error}."
        raise InputError(message, next_step=step) from error
    if "envkit/__main__.py" not in names:
        message = f"{path} does not hold envkit."
        raise InputError(message, next_step=step)
    return OwnWheel(name=path.name, content=content)


def packed_wheel() -> OwnWheel:
    """Pack the envkit that is running.

    Raises:
        UsageError: it is not installed, so that nothing says what it needs.

    """
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        distribution = None
    said = {} if distribution is None else _dist_info(distribution)
    if "METADATA" not in said or distribution is None:
        message = "envkit runs from a folder in which it is not installed."
        step = "Give the wheel for the image: --envkit-wheel FILE (pip wheel --no-deps .)"
        raise UsageError(message, next_step=step)
    return pack(_package_files(), said)


def pack(files: Mapping[str, bytes], dist_info: Mapping[str, bytes]) -> OwnWheel:
    """Write a wheel.

    Args:
        files: those of the package, by their path in the wheel.
        dist_info: what an installation has beside it: METADATA, entry points, licence.

    """
    folder = f"envkit_torch-{__version__}.dist-info"
    inside = {**files, **{f"{folder}/{name}": text for name, text in dist_info.items()}}
    inside[f"{folder}/WHEEL"] = _TAG + _KIND
    record = "".join(f"{name},{_digest(inside[name])}\n" for name in sorted(inside))
    inside[f"{folder}/RECORD"] = f"{record}{folder}/RECORD,,\n".encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(inside):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # the system of the packing machine would be in the bytes
            archive.writestr(entry, inside[name])
    return OwnWheel(name=f"envkit_torch-{__version__}-py3-none-any.whl", content=made.getvalue())


def _digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(content)}"


def _package_files() -> dict[str, bytes]:
    package = Path(str(resources.files("envkit")))
    found = _below(package, "envkit")
    found |= _below(folders.environments(), "envkit/_environments")
    return found | _below(folders.baselines(), "envkit/_baselines")


def _below(folder: Path, name: str) -> dict[str, bytes]:
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _is_kept(path.relative_to(folder))
    }


def _is_kept(path: Path) -> bool:
    return "__pycache__" not in path.parts and not path.name.startswith(".")


def _dist_info(distribution: metadata.Distribution) -> dict[str, bytes]:
    """Return what is said about the package and does not depend on how it was installed."""
    found = {
        name: text.encode()
        for name in ("METADATA", "entry_points.txt")
        if (text := distribution.read_text(name)) is not None
    }
    for file in distribution.files or ():
        if "licenses" in file.parts and ".dist-info" in file.parts[0]:
            found["/".join(file.parts[1:])] = Path(str(file.locate())).read_bytes()
    return found
