"""Names of conda channels."""

from __future__ import annotations

import pytest

from envkit.sources.conda_channel import channel_of

HOST = "https://conda.anaconda.org"


@pytest.mark.parametrize(
    ("url", "channel", "name"),
    [
        (f"{HOST}/conda-forge/linux-64/numpy-1.26.4-py311_0.conda", "", "conda-forge"),
        (f"{HOST}/pytorch/noarch/x-1-0.tar.bz2", "", "pytorch"),
        (f"{HOST}/conda-forge/label/dev/linux-64/x-1-0.conda", "", "conda-forge/label/dev"),
        (f"{HOST}/t/tk-secret/my-team/linux-64/x-1-0.conda", "", "my-team"),
        ("https://repo.anaconda.com/pkgs/main/linux-64/x-1-0.conda", "", "defaults"),
        ("https://repo.anaconda.com/pkgs/r/noarch/x-1-0.conda", "", "defaults"),
        ("", "pkgs/main", "defaults"),
        ("", "conda-forge", "conda-forge"),
        ("", f"{HOST}/conda-forge/linux-64", "conda-forge"),
        ("", f"{HOST}/conda-forge/", "conda-forge"),
        (
            "https://me:pw@mirror.example.org/cloud/conda-forge/linux-aarch64/x-1-0.conda",
            "conda-forge",
            "https://mirror.example.org/cloud/conda-forge",
        ),
        ("file:///srv/channel/linux-64/x-1-0.conda", "", "file:///srv/channel"),
        ("", "", ""),
    ],
)
def test_names(url: str, channel: str, name: str) -> None:
    assert channel_of(url, channel) == name


def test_hostile_names_are_escaped_and_cut() -> None:
    name = channel_of("", "\x1b[31m" + "x" * 10_000)
    assert "\x1b" not in name
    assert len(name) < 400
