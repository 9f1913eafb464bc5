"""What may leave the machine: texts without the home folder, the user, the host and secrets.

Which facts exist at all is an allow-list already (`envkit.model.facts` and, for variables, the list
in `envkit.sources`). This is the second fence, around the values: every text of the facts passes
here before it is judged, so that the saved report gives the same verdict as the live one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from envkit.model.fingerprint import LAYERS, Fingerprint, Layers

T = TypeVar("T")

#: Fields that name packages, versions and digests: compared exactly, and never about a person.
EXACT_FIELDS: Final = frozenset(
    {
        "arch_list",
        "build",
        "code",
        "compute_capability",
        "device_id",
        "digest",
        "installer",
        "md5",
        "name",
        "requires",
        "schema",
        "sha256",
        "state",
        "status",
        "subdir",
        "uuid_hash",
        "version",
    }
)
#: Accounts that everybody has: hiding them hides nothing and spoils sentences.
_COMMON = (
    "root user users admin ubuntu debian fedora centos ec2-user jovyan vscode coder runner "
    "nobody app dev test localhost localhost.localdomain conda mamba torch python envkit"
)
COMMON_NAMES: Final = frozenset(_COMMON.split())
_SHORTEST_NAME: Final = 3

_URL: Final = re.compile(r"\b(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?P<rest>[^\s'\"<>\\^`{|}]+)")
#: What makes a requirement more than names and versions: `torch @ https://...`, `@ file:/...`.
_ADDRESS: Final = re.compile(r"://|\bfile:|@")
#: conda's channel tokens are a part of the path: /t/TOKEN/channel
_PATH_TOKEN: Final = re.compile(r"/t/[^/]+(?=/|$)")
_SECRET: Final = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|hf_[A-Za-z0-9]{16,}|"
    r"sk-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|"
    r"pypi-[A-Za-z0-9_-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose machine this is; an empty text where it is not known."""

    home: str = ""
    user: str = ""
    host: str = ""


def redact_document(document: T, identity: Identity) -> T:
    """Return the same document with every text redacted, the fields of `EXACT_FIELDS` excepted.

    Of a fact of such a name only the value is excepted: its reason and its source are sentences.
    """
    hide = text_redactor(identity)
    return msgspec.convert(_walk(msgspec.to_builtins(document), hide), type=type(document))


def redact_reasons(fingerprint: Fingerprint, identity: Identity) -> Fingerprint:
    """Redact why probes failed. What they measured is left exactly as it is: it has digests."""
    hide = text_redactor(identity)
    layers = {
        layer: {
            name: msgspec.structs.replace(probe, reason=hide(probe.reason))
            for name, probe in getattr(fingerprint.layers, layer).items()
        }
        for layer in LAYERS
    }
    return msgspec.structs.replace(fingerprint, layers=Layers(**layers))


#: The name of a person's folder: other people's homes are on shared machines' paths.
_OTHER_HOME = re.compile(
    r"(?P<homes>(?:/home/|/Users/|[A-Za-z]:\\Users\\))(?!<user>)[^/\\\s:;,'\"]+"
)
#: The last part is letters: `vit@1.0.0` is a spec.
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![\w-])")


def text_redactor(identity: Identity) -> Callable[[str], str]:
    """Return the function that redacts one text for this machine."""
    replacements = _replacements(identity)

    @lru_cache(maxsize=1 << 12)  # channels and folders come a thousand times
    def redact(text: str) -> str:
        clean = text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
        if "://" in clean:
            clean = _URL.sub(_clean_url, clean)
        clean = _SECRET.sub("<secret>", clean)
        clean = _MAIL.sub("<address>", clean)
        small = clean.lower()
        for part, pattern, replacement in replacements:
            if part in small:
                clean = pattern.sub(replacement, clean)
        # Last: this user's own home is `~` by now.
        return _OTHER_HOME.sub(r"\g<homes><user>", clean)

    return redact


def _replacements(identity: Identity) -> list[tuple[str, re.Pattern[str], str]]:
    """Return patterns, each with a text in small letters without which it cannot match."""
    found = []
    home = identity.home.rstrip("/\\")
    if len(home) > 1:
        pattern = re.compile(rf"(?<![\w.~-]){re.escape(home)}(?=$|[/\\\s'\":;,)\]])")
        found.append((home.lower(), pattern, "~"))
    for name, shown in ((identity.user, "<user>"), *_host_names(identity.host)):
        if len(name) >= _SHORTEST_NAME and name.lower() not in COMMON_NAMES:
            pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
            # What small letters do to others differs from what IGNORECASE takes for equal.
            found.append((name.lower() if name.isascii() else "", pattern, shown))
    return found


def _host_names(host: str) -> tuple[tuple[str, str], ...]:
    short = host.split(".", maxsplit=1)[0]
    return ((host, "<host>"), (short, "<host>"))


def _clean_url(found: re.Match[str]) -> str:
    rest = re.split(r"[?#]", found["rest"], maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    return f"{found['scheme']}://{host}{_PATH_TOKEN.sub('/t/<secret>', slash + path)}"


def _walk(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, (list, tuple)):
        return [_walk(item, hide) for item in value]
    if isinstance(value, dict):
        return {
            key: _exact(item, hide) if key in EXACT_FIELDS else _walk(item, hide)
            for key, item in value.items()
        }
    return value


def _exact(value: Any, hide: Callable[[str], str]) -> Any:
    """Leave names and versions as they are; an address is none, whatever field it stands in."""
    if isinstance(value, str):
        if value.isascii() and ":" not in value and "@" not in value:
            return value  # as most of ten thousand are
        encodable = value.encode("utf-8", "backslashreplace").decode()
        return hide(value) if _ADDRESS.search(encodable) else encodable
    if isinstance(value, (list, tuple)):
        return [_exact(item, hide) for item in value]
    if isinstance(value, dict):
        return {
            key: _exact(item, hide) if key == "value" else _walk(item, hide)
            for key, item in value.items()
        }
    return value
