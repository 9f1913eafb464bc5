"""Checks of the file as such: keys nobody reads, content that its version does not stand for."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.specs.lint.rule import Fault
from envkit.specs.lint.subject import Subject


def unknown_key(subject: Subject) -> Iterator[Fault]:
    """SPC010: keys that neither conda nor conda-lock has."""
    for key in subject.spec.unknown_keys:
        yield Fault(
            line=key.line,
            seen=(("key", key.text),),
            fix="Delete or correct it: conda ignores it and says so in the middle of its output.",
        )


def version_not_bumped(subject: Subject) -> Iterator[Fault]:
    """SPC017: the content is not what its version in the registry stands for."""
    known = subject.surroundings.registered
    if known is None:
        return
    from envkit.specs.content_hash import content_hash  # noqa: PLC0415 (rfc8785, only for these)

    now = content_hash(subject.spec)
    expected = known.published_hash or known.content_hash
    if now == known.content_hash == expected:
        return
    reference = f"{known.name}@{known.version}"
    what = "published as" if known.published_hash else "registered as"
    yield Fault(
        line=subject.spec.line_of("name"),
        seen=(("content hash", now),),
        known=((f"{what} {reference}", expected, known.source),),
        fix=f"Raise the version of {known.name}: `envkit lock --update {known.name}`.",
    )
