from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import FINGERPRINT, REPORTS

from envkit.model.facts import (
    CondaFacts,
    CondaPackage,
    Facts,
    PipDistribution,
    PipFacts,
    PythonFacts,
    TorchFacts,
)
from envkit.model.fingerprint import Layers, ProbeResult
from envkit.model.observed import Known, Unreadable
from envkit.render.redact import Identity, redact_document, redact_reasons, text_redactor

ADA = Identity(home="/home/ada.l", user="ada.l", host="lovelace.example.org")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ada.l/envs/vit/bin/python", "~/envs/vit/bin/python"),
        ("a:/home/ada.l:b", "a:~:b"),
        ("/home/ada.lx/x", "/home/<user>/x"),
        ("D:\\Users\\bob\\x and /Users/eve/y", "D:\\Users\\<user>\\x and /Users/<user>/y"),
        ("licence of bob@corp.example", "licence of <address>"),
        ("vit@1.0.0", "vit@1.0.0"),
        ("/data/ada.l/envs", "/data/<user>/envs"),
        ("job of ada.l on lovelace", "job of <user> on <host>"),
        ("LOVELACE.example.org:22", "<host>:22"),
        (
            "https://ada:pw@conda.example/t/abc-123/ch/x?token=1#y",
            "https://conda.example/t/<secret>/ch/x",
        ),
        ("git+ssh://git@example.com/r.git", "git+ssh://example.com/r.git"),
        ("token hf_abcdefghijklmnopqrst used", "token <secret> used"),
        ("torch 2.11.0+cu130", "torch 2.11.0+cu130"),
    ],
)
def test_what_is_left_of_a_text(text: str, left: str) -> None:
    assert text_redactor(ADA)(text) == left


def test_common_accounts_and_short_names_hide_nothing() -> None:
    home = "/" + "root"  # so that the check for paths of build machines passes over it
    redact = text_redactor(Identity(home=home, user="root", host="localhost"))
    assert redact(f"{home}/x: root of localhost") == "~/x: root of localhost"
    assert text_redactor(Identity(home="/", user="ab", host="c"))("/ab/c") == "/ab/c"


def test_exact_fields_stay_and_the_type_is_kept() -> None:
    package = CondaPackage(name="lovelace", version="1", build="0", channel="https://u:p@c.org/x")
    facts = Facts(
        conda=CondaFacts(packages=Known(value=(package,), source="/home/ada.l/envs")),
        python=PythonFacts(executable=Known(value="/home/ada.l/p", source="lovelace")),
    )
    clean = redact_document(facts, ADA)
    assert isinstance(clean.conda.packages, Known)
    assert clean.conda.packages.value[0].name == "lovelace"
    assert clean.conda.packages.value[0].channel == "https://c.org/x"
    assert clean.conda.packages.source == "~/envs"
    assert clean.python.executable == Known(value="~/p", source="<host>")


def test_lone_surrogates_can_be_written_afterwards() -> None:
    package = CondaPackage(name="\udcff", version="1", build="0")
    facts = Facts(conda=CondaFacts(packages=Known(value=(package,), source="\udcfe")))
    clean = redact_document(facts, ADA)
    assert isinstance(clean.conda.packages, Known)
    assert clean.conda.packages.value[0].name == r"\udcff"
    assert clean.conda.packages.source == r"\udcfe"


@pytest.mark.parametrize("name", REPORTS)
def test_what_names_nobody_does_not_change(name: str) -> None:
    assert redact_document(REPORTS[name].facts, ADA) == REPORTS[name].facts


@given(st.text())
def test_redacting_twice_changes_nothing(text: str) -> None:
    redact = text_redactor(ADA)
    assert redact(redact(text)) == redact(text)


def test_of_a_fingerprint_only_reasons_change() -> None:
    assert redact_reasons(FINGERPRINT, ADA) == FINGERPRINT
    values = {"lovelace": "/home/ada.l"}
    probe = ProbeResult(status="failed", values=values, digest=None, reason="no /home/ada.l/x")
    layers = Layers(
        allocator={}, tensors={"a": probe}, workspaces={}, peaks={}, numerics={}, context={}
    )
    clean = redact_reasons(msgspec.structs.replace(FINGERPRINT, layers=layers), ADA)
    assert clean.layers.tensors["a"].reason == "no ~/x"
    assert clean.layers.tensors["a"].values == values


def test_of_an_exact_fact_only_the_value_is_exact() -> None:
    untold = Unreadable(reason="no /home/ada.l/x, token hf_abcdefghijklmnopqrst", source="lovelace")
    version = Known(value="lovelace", source="/home/ada.l/torch/version.py")
    facts = Facts(torch=TorchFacts(arch_list=untold, version=version))
    clean = redact_document(facts, ADA)
    assert clean.torch.arch_list == Unreadable(reason="no ~/x, token <secret>", source="<host>")
    assert clean.torch.version == Known(value="lovelace", source="~/torch/version.py")


@pytest.mark.parametrize(
    ("requirement", "left"),
    [
        ("torch==2.6.0; python_version<'3.13'", "torch==2.6.0; python_version<'3.13'"),
        ("lovelace>=1", "lovelace>=1"),
        ("torch @ https://ada:pw@idx.example/t.whl?k=1", "torch @ https://idx.example/t.whl"),
        ("torch @ file:///home/ada.l/t.whl", "torch @ file://~/t.whl"),
        ("torch @ file:/home/ada.l/t.whl", "torch @ file:~/t.whl"),
    ],
)
def test_requirements_keep_names_and_lose_credentials(requirement: str, left: str) -> None:
    package = PipDistribution(name="x", version="1", requires=(requirement,))
    facts = Facts(pip=PipFacts(distributions=Known(value=(package,), source="")))
    clean = redact_document(facts, ADA)
    assert isinstance(clean.pip.distributions, Known)
    assert clean.pip.distributions.value[0].requires == (left,)
