"""Whether a spec needs a GPU: by its registry entry, else by what it selects."""

from __future__ import annotations

import datetime as dt

from envkit.model.environment_spec import EnvironmentSpec
from envkit.specs.lint.cuda import selects_cuda
from envkit.specs.lint.subject import Subject, Surroundings
from envkit.specs.registry import Entry


def needs_gpu(spec: EnvironmentSpec, entry: Entry | None) -> bool:
    """Say whether an experiment of this spec needs an NVIDIA GPU.

    The registry says it of its own specs. Any other spec needs one if its conda half selects a
    CUDA build, or its pip half names one (`torch==2.4.0+cu121`). A torch of which nothing is said
    (pip's default has CUDA on Linux) needs none: it runs on the CPU too, and that may be meant.
    """
    if entry is not None:
        return entry.needs.gpu
    subject = Subject(spec, Surroundings(today=dt.date.min))
    if subject.cpu_chosen:
        return False
    pip = subject.pip_torch
    return selects_cuda(subject) or (pip is not None and (pip.build or "").startswith("cu"))
