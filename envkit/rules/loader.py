"""What rules about libraries share: what the loader said, what it mapped, how to mend it."""

from __future__ import annotations

from envkit.model.facts import MappedLibrary
from envkit.model.finding import Evidence, Fix
from envkit.model.observed import value_of
from envkit.rules.fixes import same_torch
from envkit.rules.outcome import Outcome, fix, seen, skipped
from envkit.rules.subject import Subject, source_of


def without_cuda(subject: Subject) -> Outcome | None:
    """Skip rules about CUDA's libraries for a build without CUDA."""
    if subject.cpu_build:
        return skipped(f"{subject.torch_text} is built without CUDA")
    return None


def import_evidence(subject: Subject) -> Evidence:
    """Show the line with which the import of torch ended."""
    line = subject.import_words.partition("\n")[0]
    return seen("import torch", line, source_of(subject.facts.torch.import_failure))


def loader_fix(subject: Subject, what: str) -> Fix:
    """Say how the loader comes to find the libraries that came with torch."""
    if subject.library_path:
        return fix(
            f"Unset LD_LIBRARY_PATH (it is searched before the {what} that came with torch), or "
            "unload the module that set it.",
            "unset LD_LIBRARY_PATH",
        )
    return fix(
        f"Make the environment afresh, so that torch and its {what} come from one place.",
        same_torch(subject),
    )


def mapped(subject: Subject) -> tuple[MappedLibrary, ...]:
    """Return the libraries mapped into the process, none where they were not read."""
    return value_of(subject.facts.torch.libraries) or ()
