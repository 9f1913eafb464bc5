"""What goes with a torch: the packages it pins, extensions compiled for it, known regressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from envkit.compat import tables
from envkit.compat.tables import Build
from envkit.model.distribution_name import canonical_name
from envkit.model.observed import value_of
from envkit.rules.cite import cite
from envkit.rules.requirements import requirement
from envkit.rules.subject import Subject


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement of torch on another distribution."""

    name: str
    specifier: str
    source: str


def pins(subject: Subject) -> dict[str, Pin]:
    """Return what torch requires of nvidia-* and triton: its own metadata, else the tables."""
    own = {pin.name: pin for pin in _own_pins(subject)}
    return own or {pin.name: pin for pin in _table_pins(subject)}


def pin_of(subject: Subject, name: str) -> Pin | None:
    """Return what torch requires of one distribution."""
    return pins(subject).get(name)


def _own_pins(subject: Subject) -> Iterator[Pin]:
    distributions = value_of(subject.facts.pip.distributions) or ()
    torch = next((one for one in distributions if one.name == "torch"), None)
    for text in torch.requires if torch is not None else ():
        wanted = requirement(text)
        if wanted is None:
            continue
        optional = wanted.marker is not None and "extra" in str(wanted.marker)
        if wanted.specifier and not optional and _is_ours(wanted.name):
            yield Pin(
                name=canonical_name(wanted.name),
                specifier=str(wanted.specifier),
                source="Requires-Dist of the installed torch",
            )


def _table_pins(subject: Subject) -> Iterator[Pin]:
    if not subject.upstream or subject.conda or subject.torch is None or subject.tag is None:
        return
    build = tables.build_of(subject.torch.base, subject.tag)
    if not isinstance(build, Build):
        return
    source = cite("torch", f"releases {subject.torch.base} {subject.tag}", build)
    for name, specifier in build.pins.items():
        yield Pin(name=canonical_name(name.partition("[")[0]), specifier=specifier, source=source)
    named = {canonical_name(name.partition("[")[0]) for name in build.pins}
    for library, version in (("cudnn", build.cudnn), ("nccl", build.nccl)):
        package = f"nvidia-{library}-{subject.tag[:4]}"
        if version is not None and library not in build.unsure and package not in named:
            yield Pin(name=package, specifier=f"=={version}", source=source)


def _is_ours(name: str) -> bool:
    return canonical_name(name).startswith(("nvidia-", "triton", "cuda-toolkit"))


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution whose version says what it was compiled for."""

    name: str
    version: str
    built_for: str


_BUILT_FOR = (
    # flash-attn 2.5.9+cu122torch2.3cxx11abifalse
    re.compile(r"cu(?P<cuda>\d{2,3})\.?torch(?P<major>\d)\.(?P<minor>\d+)"),
    # torch-scatter 2.1.2+pt24cu121
    re.compile(r"pt(?P<major>\d)(?P<minor>\d{1,2})\.?cu(?P<cuda>\d{2,3})"),
)
_TORCH_BOUND = re.compile(r"(xformers|detectron2|mmcv|torch-|torchtext|flash-attn|natten|spconv)")


def foreign_extensions(subject: Subject) -> tuple[Extension, ...]:
    """Return extensions whose version names another torch series or another CUDA major."""
    if subject.torch is None:
        return ()
    found = (_foreign(subject, name, version) for name, version in sorted(subject.packages.items()))
    return tuple(one for one in found if one is not None)


def _foreign(subject: Subject, name: str, version: str) -> Extension | None:
    local = version.partition("+")[2]
    if not local or name in {"torch", "torchvision", "torchaudio"} or subject.torch is None:
        return None
    for pattern in _BUILT_FOR:
        found = pattern.search(local)
        if found is None:
            continue
        series = (int(found["major"]), int(found["minor"]))
        other_torch = series != subject.torch.release[:2]
        if other_torch or _other_major(subject, found["cuda"]):
            built_for = f"torch {series[0]}.{series[1]}, cu{found['cuda']}"
            return Extension(name=name, version=version, built_for=built_for)
        return None
    plain = re.match(r"cu(\d{2,3})", local)
    if plain and _TORCH_BOUND.match(name) and _other_major(subject, plain[1]):
        return Extension(name=name, version=version, built_for=f"cu{plain[1]}")
    return None


def _other_major(subject: Subject, digits: str) -> bool:
    # cu12 and cu121 are both CUDA 12.
    return subject.cuda_numbers is not None and int(digits[:2]) != subject.cuda_numbers[0]


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """A version that is known to use more memory."""

    what: str
    remedy: str
    source: str
    on_gpu: bool


#: Series with a known regression, and the facts of torch on which it depends.
REGRESSED = {(2, 0): ("cuda",), (2, 9): ("cuda", "cudnn")}


def regressions(subject: Subject) -> tuple[Regression, ...]:
    """Return the known memory regressions of this torch."""
    return tuple(one for one in (_conv3d(subject), _plan_cache(subject)) if one is not None)


def _conv3d(subject: Subject) -> Regression | None:
    if subject.torch is None or subject.torch.release[:2] != (2, 9) or subject.cuda is None:
        return None
    loaded = value_of(subject.facts.torch.cudnn)
    if loaded is None or loaded >= 91500:  # noqa: PLR2004  (cuDNN 9.15)
        return None
    return Regression(
        what="3D convolutions in bf16 need several times the workspace of torch 2.8",
        remedy="Install nvidia-cudnn of 9.15 or newer, or torch 2.10.",
        source="https://github.com/pytorch/pytorch/issues/166643",
        on_gpu=True,
    )


def _plan_cache(subject: Subject) -> Regression | None:
    if subject.torch is None or subject.torch.release[:2] != (2, 0) or subject.cuda is None:
        return None
    if {"TORCH_CUDNN_V8_API_DISABLED", "TORCH_CUDNN_V8_LRU_CACHE_LIMIT"} & set(subject.variables):
        return None
    return Regression(
        what="host memory grows with every new shape of a convolution (cuDNN plan cache)",
        remedy="Set TORCH_CUDNN_V8_LRU_CACHE_LIMIT, if shapes vary.",
        source="https://github.com/pytorch/pytorch/issues/98688",
        on_gpu=False,
    )
