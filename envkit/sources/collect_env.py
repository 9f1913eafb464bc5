"""The output of `python -m torch.utils.collect_env`, pasted by somebody: any version, any damage.

What a label says is taken only for what it means: "CUDA runtime version" is nvcc's, "cuDNN version"
is whatever lies on the system, the libc line is what the interpreter was linked with; none of the
three is torch's or the host's, so none becomes a fact.
"""

from __future__ import annotations

import re
from typing import Final

from envkit.model.distribution_name import canonical_name
from envkit.model.facts import (
    CondaFacts,
    CondaPackage,
    DriverFacts,
    EnvironmentFacts,
    Facts,
    Gpu,
    GpuFacts,
    HostFacts,
    OsName,
    PipDistribution,
    PipFacts,
    PythonFacts,
    TorchFacts,
)
from envkit.model.observed import (
    NOT_RECORDED,
    Absent,
    Known,
    NotApplicable,
    Observed,
    Unreadable,
)
from envkit.sources.collect_env_text import (
    clean,
    conda_rows,
    fields_of,
    first_line,
    has_package_list,
    pip_rows,
    says_nothing,
)
from envkit.sources.process_env import allowed

_GPU: Final = re.compile(r"GPU (\d{1,3}): ([^\n]+?)(?=\s*(?:GPU \d{1,3}: |\n|$))")
_MIG: Final = re.compile(r"^[ \t>|]*MIG \d+g\.\d+gb", re.MULTILINE)
_VARIABLE: Final = re.compile(r"^[ \t>|]*([A-Z][A-Z0-9_]{2,60})=(.*)$", re.MULTILINE)
#: A value is a whole word: what goes on after it (`2,5.1`) is no version that anybody can read.
_END: Final = r"(?![^\s<;)\]|])"
_VERSION: Final = re.compile(r"\d[\w.+!-]*" + _END)
_PYTHON: Final = re.compile(r"\d+\.\d+(?:\.\d+)?\S*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)+" + _END)
_NO_CUDA: Final = re.compile(r"No CUDA(?!\S)")
_COULD_NOT: Final = re.compile(r"Could not collect(?!\S)")
_YES_NO: Final = re.compile(r"(?:True|False)(?!\S)")


def read_collect_env(text: str) -> Facts:
    """Read what a paste says; what it does not say stays not recorded."""
    fields = fields_of(clean(text))
    pip = _pip(fields)
    conda = _conda(fields)
    return Facts(
        driver=_driver(fields),
        gpus=GpuFacts(devices=_gpus(fields)),
        host=_host(fields),
        environment=EnvironmentFacts(variables=_variables(fields)),
        python=PythonFacts(version=_matched(fields, "Python version", _PYTHON)),
        pip=pip,
        conda=conda,
        torch=_torch(fields, pip, conda),
    )


def _source(label: str) -> str:
    return f"collect_env: {label}"


def _matched(
    fields: dict[str, str], label: str, pattern: re.Pattern[str], *, none_is_absent: bool = False
) -> Observed[str]:
    """Read a value that must look like `pattern`."""
    line = first_line(fields, label)
    if line is None:
        return NOT_RECORDED
    found = pattern.match(line)
    if found is not None:
        return Known(value=found[0], source=_source(label))
    if none_is_absent and says_nothing(line):
        return Absent(source=_source(label), reason=line[:60] or "empty")
    return Unreadable(source=_source(label), reason=f"the paste says {line[:60]!r}")


def _driver(fields: dict[str, str]) -> DriverFacts:
    label = "Nvidia driver version"
    version = _matched(fields, label, _NUMBER)
    if _found_nothing(fields, label):
        version = Absent(source=_source(label), reason="nvidia-smi was not found or said nothing")
    return DriverFacts(version=version)


def _found_nothing(fields: dict[str, str], label: str) -> bool:
    """Tell whether the tool looked with nvidia-smi, found nothing, and torch sees no device either.

    "No CUDA" is written when nvcc is missing too, "Could not collect" when it is there. Where CUDA
    works, or nobody could ask torch, nvidia-smi's silence says nothing about the machine.
    """
    line = first_line(fields, label) or ""
    unavailable = (first_line(fields, "Is CUDA available") or "").startswith("False")
    return bool(_NO_CUDA.match(line)) or (unavailable and _COULD_NOT.match(line) is not None)


def _gpus(fields: dict[str, str]) -> Observed[tuple[Gpu, ...]]:
    label = "GPU models and configuration"
    raw = fields.get(label, fields.get("", ""))
    found = [(int(index), name.strip()) for index, name in _GPU.findall(raw)]
    if found:
        mig: Observed[bool] = NOT_RECORDED
        if _MIG.search(raw):
            mig = Known(value=True, source=_source(label))
        return Known(
            value=tuple(
                Gpu(index=index, name=Known(value=name, source=_source(label)), mig=mig)
                for index, name in found
            ),
            source=_source(label),
        )
    line = first_line(fields, label)
    if line is None:
        return NOT_RECORDED
    if _found_nothing(fields, label):
        reason = "nvidia-smi lists none, torch sees none"
        return Absent(source=_source(label), reason=reason)
    if says_nothing(line):
        return Unreadable(source=_source(label), reason=f"the paste says {line!r}")
    return NotApplicable(source=_source(label), reason=f"not an NVIDIA GPU: {line[:60]}")


def _host(fields: dict[str, str]) -> HostFacts:
    platform = first_line(fields, "Python platform") or ""
    system = first_line(fields, "OS") or ""
    source = _source("Python platform" if platform else "OS")
    name = _os_name(platform, system)
    arch = re.search(r"\b(x86_64|aarch64|arm64|AMD64)\b", f"{system} {platform}")
    kernel = re.match(r"Linux-(.+?)-(?:x86_64|aarch64)\b", platform)
    cpu = first_line(fields, "Model name")
    return HostFacts(
        os=Known(value=name, source=source) if name else NOT_RECORDED,
        os_release=Known(value=system, source=_source("OS")) if system else NOT_RECORDED,
        arch=Known(value=arch[1].replace("AMD64", "x86_64"), source=source)
        if arch
        else NOT_RECORDED,
        kernel=Known(value=kernel[1], source=source) if kernel else NOT_RECORDED,
        jetson=Known(value="-tegra" in platform, source=source) if platform else NOT_RECORDED,
        cpu_model=Known(value=cpu, source=_source("Model name")) if cpu else NOT_RECORDED,
    )


def _os_name(platform: str, system: str) -> OsName | None:
    if "microsoft" in platform.lower():
        return "wsl"
    names: tuple[tuple[str, OsName], ...] = (
        ("linux-", "linux"),
        ("windows-", "windows"),
        ("macos-", "macos"),
        ("darwin-", "macos"),
    )
    for start, name in names:
        if platform.lower().startswith(start):
            return name
    if not system or says_nothing(system):
        return None
    if "windows" in system.lower():
        return "windows"
    return "macos" if system.lower().startswith(("mac", "darwin")) else "linux"


#: What `pip list` calls a package that conda calls otherwise.
_PIP_NAMES: Final = {"pytorch": "torch"}


def _conda(fields: dict[str, str]) -> CondaFacts:
    source = _source("[conda], which lists only what concerns torch")
    rows = conda_rows(fields["*"])
    if not rows:
        if "[conda]" in fields["*"]:
            return CondaFacts(packages=Absent(source=source, reason="Could not collect"))
        return CondaFacts()
    packages = tuple(
        CondaPackage(name=name, version=version, build=build, channel=channel or "defaults")
        for name, version, build, channel in rows
        if channel != "pypi"
    )
    return CondaFacts(packages=Known(value=packages, source=source))


def _pip(fields: dict[str, str]) -> PipFacts:
    if not has_package_list(fields):
        return PipFacts()
    rows = sorted(conda_rows(fields["*"]), key=lambda row: row[3] == "pypi")
    installers = {
        (_PIP_NAMES.get(name) or canonical_name(name)): "pip" if channel == "pypi" else "conda"
        for name, _, _, channel in rows
    }
    named = ((canonical_name(name), version) for name, version in pip_rows(fields["*"]))
    found = {
        name: PipDistribution(name=name, version=version, installer=installers.get(name, ""))
        for name, version in named
    }
    source = _source("[pip3], which lists only what concerns torch")
    return PipFacts(
        distributions=Known(value=tuple(found[name] for name in sorted(found)), source=source)
    )


def _variables(fields: dict[str, str]) -> Observed[dict[str, str]]:
    found = {name: value.strip() for name, value in _VARIABLE.findall(fields["*"])}
    conf = first_line(fields, "Caching allocator config")
    if conf is not None and not says_nothing(conf):
        found.setdefault("PYTORCH_CUDA_ALLOC_CONF", conf)
    if not found and "Environment Variables" not in fields:
        return NOT_RECORDED
    return Known(value=allowed(found), source=_source("variables"))


def _torch(fields: dict[str, str], pip: PipFacts, conda: CondaFacts) -> TorchFacts:
    version = _torch_version(fields, pip, conda)
    if isinstance(version, Absent):
        return TorchFacts(version=version)
    hip = _matched(fields, "ROCM used to build PyTorch", _VERSION, none_is_absent=True)
    for label in ("HIP used to build PyTorch", "ROCm SDK used to build PyTorch"):
        if not isinstance(hip, Known) and label in fields:
            hip = _matched(fields, label, _VERSION, none_is_absent=True)
    channel, installer = _origin(pip, conda)
    return TorchFacts(
        version=version,
        cuda=_matched(fields, "CUDA used to build PyTorch", _NUMBER, none_is_absent=True),
        hip=hip,
        accelerator=_accelerator(fields, hip),
        cuda_available=_yes_no(fields, "Is CUDA available"),
        channel=channel,
        installer=installer,
    )


def _torch_version(fields: dict[str, str], pip: PipFacts, conda: CondaFacts) -> Observed[str]:
    label = "PyTorch version"
    said = _matched(fields, label, _VERSION)
    if isinstance(said, Known):
        return said
    listed = _listed(pip, conda)
    if listed is not None:
        return listed
    if label in fields:
        reason = "N/A and not in the list of packages" if has_package_list(fields) else "N/A"
        return Absent(
            source=_source(label), reason=f"{reason}: not installed, or it cannot be imported"
        )
    return NOT_RECORDED


def _listed(pip: PipFacts, conda: CondaFacts) -> Known[str] | None:
    for distribution in pip.distributions.value if isinstance(pip.distributions, Known) else ():
        if distribution.name == "torch":
            return Known(value=distribution.version, source=_source("[pip3] torch"))
    for package in conda.packages.value if isinstance(conda.packages, Known) else ():
        if package.name == "pytorch":
            return Known(value=package.version, source=_source("[conda] pytorch"))
    return None


def _origin(pip: PipFacts, conda: CondaFacts) -> tuple[Observed[str], Observed[str]]:
    """Return channel and installer of the torch that the lists name."""
    in_pip = [
        d
        for d in (pip.distributions.value if isinstance(pip.distributions, Known) else ())
        if d.name == "torch"
    ]
    for package in conda.packages.value if isinstance(conda.packages, Known) else ():
        if package.name == "pytorch" and not any(d.installer == "pip" for d in in_pip):
            source = _source("[conda] pytorch")
            return Known(value=package.channel, source=source), Known(value="conda", source=source)
    if not in_pip:
        return NOT_RECORDED, NOT_RECORDED
    source = _source("[pip3] torch")
    # Only PyTorch's own wheel index serves versions with a local part; the Python index has none.
    channel = "pytorch" if "+" in in_pip[0].version else "pypi"
    return Known(value=channel, source=source), Known(value="pip", source=source)


def _accelerator(fields: dict[str, str], hip: Observed[str]) -> Observed[str]:
    if isinstance(hip, Known):
        return Known(value="rocm", source=hip.source)
    for label in ("Is XPU available", "XPU used to build PyTorch"):
        line = first_line(fields, label)
        if line and not says_nothing(line) and not line.startswith("False"):
            return Known(value="xpu", source=_source(label))
    return NOT_RECORDED


def _yes_no(fields: dict[str, str], label: str) -> Observed[bool]:
    line = first_line(fields, label)
    if line is None:
        return NOT_RECORDED
    found = _YES_NO.match(line)
    if found is not None:
        return Known(value=found[0] == "True", source=_source(label))
    return Unreadable(source=_source(label), reason=f"the paste says {line[:60]!r}")
