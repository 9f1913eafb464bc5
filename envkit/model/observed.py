"""The four states of a fact: known, absent, unreadable, not applicable."""

from __future__ import annotations

from typing import Generic, TypeVar, Union

import msgspec

T = TypeVar("T")


class Known(msgspec.Struct, Generic[T], frozen=True, kw_only=True, tag_field="state", tag="known"):
    """The value was read."""

    value: T
    source: str
    """Where it was read: a file, a library call, a variable."""


class Absent(msgspec.Struct, frozen=True, kw_only=True, tag_field="state", tag="absent"):
    """It was looked for, and is not there."""

    source: str
    reason: str = ""


class Unreadable(msgspec.Struct, frozen=True, kw_only=True, tag_field="state", tag="unreadable"):
    """It could not be told. Two unreadable facts never compare equal."""

    reason: str
    source: str = ""


class NotApplicable(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="state", tag="not_applicable"
):
    """The question has no meaning here."""

    reason: str
    source: str = ""


Observed = Union[Known[T], Absent, Unreadable, NotApplicable]  # noqa: UP007  (`|` cannot be subscripted on 3.10)

#: Default of every fact: a document without the field says nothing about it. Left out of JSON.
NOT_RECORDED = Unreadable(reason="not recorded")


def value_of(fact: Observed[T]) -> T | None:
    """Return the value of a known fact, else None.

    For code that treats all other states alike; a rule that must tell them apart uses `match`.
    """
    return fact.value if isinstance(fact, Known) else None


def reason_of(fact: Observed[T]) -> str:
    """Say why a fact has no value; empty for a known one."""
    return "" if isinstance(fact, Known) else (fact.reason or "not there")
