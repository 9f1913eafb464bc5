"""The readers on the machine that runs the tests, whatever it is: consistent, and no crash."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from envkit.model.codec import decode, encode
from envkit.model.facts import Facts
from envkit.model.observed import Absent, Known
from envkit.sources.conda_prefix import read_conda
from envkit.sources.host import read_host
from envkit.sources.interpreter import read_python
from envkit.sources.nvidia import read_driver_and_gpus
from envkit.sources.pip_packages import read_pip
from envkit.sources.process_env import read_environment
from envkit.sources.torch_build import read_torch_build

from .trees import known

PREFIX = Path(sys.prefix)


def test_everything_together_is_a_document() -> None:
    driver, gpus = read_driver_and_gpus(os.environ)
    conda, pip = read_conda(PREFIX), read_pip(PREFIX, os.environ)
    facts = Facts(
        driver=driver,
        gpus=gpus,
        host=read_host(),
        environment=read_environment(os.environ),
        python=read_python(PREFIX, Path(sys.executable), conda),
        conda=conda,
        pip=pip,
        torch=read_torch_build(PREFIX, conda, pip, os.environ),
    )
    assert decode(encode(facts), Facts, origin="this machine") == facts


def test_a_machine_without_a_driver_has_no_gpus_of_one() -> None:
    driver, gpus = read_driver_and_gpus(os.environ)
    if not isinstance(driver.version, Absent):
        pytest.skip("this machine has an NVIDIA driver")
    assert isinstance(gpus.devices, Absent)


def test_the_distributions_are_those_that_the_interpreter_sees() -> None:
    found = {one.name for one in known(read_pip(PREFIX, os.environ).distributions)}
    assert {"pytest", "hypothesis"} <= found


def test_torch_is_found_where_the_interpreter_finds_it() -> None:
    already = "torch" in sys.modules
    spec = importlib.util.find_spec("torch")
    conda, pip = read_conda(PREFIX), read_pip(PREFIX, os.environ)
    found = read_torch_build(PREFIX, conda, pip, os.environ)
    if spec is None or spec.origin is None:
        assert isinstance(found.version, Absent)
        return
    assert isinstance(found.version, Known)
    assert ("torch" in sys.modules) is already
    if spec.origin.startswith(str(PREFIX)):
        assert PREFIX / known(found.location) == Path(spec.origin).parent


def test_the_c_library_of_a_linux_host_is_told() -> None:
    if sys.platform != "linux":
        pytest.skip("not Linux")
    glibc = read_host().glibc
    if isinstance(glibc, Known):
        assert glibc.value.split(".")[0] == "2"
