"""Build folders of `envkit image` for tests, with a wheel that the test packs."""

from __future__ import annotations

import re
from pathlib import Path

import envkit
from envkit.model.image import Image
from envkit.workflows import own_wheel
from envkit.workflows.image import ImageRequest, write_image
from envkit.workflows.image_options import ImageOptions
from envkit.workflows.own_wheel import pack

ROOT = Path(__file__).parent.parent
#: In the registry, with Jupyter in its lock.
NOTEBOOK = "notebook"


def small_wheel(folder: Path) -> Path:
    """A wheel that is named as envkit's and holds nearly nothing."""
    wheel = pack({"envkit/__main__.py": b""}, {"METADATA": b"Metadata-Version: 2.1\n"})
    path = folder / wheel.name
    path.write_bytes(wheel.content)
    return path


def working_wheel(folder: Path) -> Path:
    """The envkit under test as a wheel that can be installed; it need not be installed here."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    needs = [f"Requires-Dist: {one}" for one in re.findall(r'"([^"]+)"', listed[1])]
    head = ["Metadata-Version: 2.1", "Name: envkit-torch", f"Version: {envkit.__version__}"]
    said = {
        "METADATA": ("\n".join([*head, *needs]) + "\n").encode(),
        "entry_points.txt": b"[console_scripts]\nenvkit = envkit.__main__:run\n",
    }
    wheel = pack(own_wheel._package_files(), said)
    path = folder / wheel.name
    path.write_bytes(wheel.content)
    return path


def write_folder(spec: str | Path, folder: Path, **options: object) -> Image:
    """Write a build folder; options are of `ImageOptions`, and `wheel`, `force`, `platform`."""
    kept = {name: options.pop(name) for name in ("wheel", "force", "platform") if name in options}
    if "wheel" not in kept:
        kept["wheel"] = small_wheel(folder.parent)
    asked = ImageOptions(**{"mode": "base", **options})  # type: ignore[arg-type]
    return write_image(
        ImageRequest(spec=str(spec), folder=folder, options=asked, **kept)  # type: ignore[arg-type]
    )
