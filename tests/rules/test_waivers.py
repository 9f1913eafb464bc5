from __future__ import annotations

import datetime as dt

from judged import OLD_DRIVER, codes, facts, gpu, judged

from envkit.model.finding import Severity
from envkit.rules.verdict import decide
from envkit.rules.waivers import Waived, Waiver, apply_waivers

DAY = dt.date(2026, 12, 31)
BROKEN_DRIVER = Waiver(code="DRV002", reason="the admin updates in January", last_day=DAY)


def waived(*waivers: Waiver, today: dt.date = DAY, **changes: object) -> Waived:
    found = judged(**(changes or OLD_DRIVER)).findings
    return apply_waivers(found, waivers, today=today, source="envkit.toml")


def test_a_waived_error_becomes_information_and_says_why() -> None:
    found = waived(BROKEN_DRIVER).findings[0]
    assert found.severity is Severity.INFO
    assert found.evidence[-1].seen == (
        "error waived up to 2026-12-31: the admin updates in January"
    )
    assert found.evidence[-1].source == "envkit.toml"


def test_a_waived_error_does_not_fail_the_verdict() -> None:
    result = judged(**OLD_DRIVER)
    assert decide(facts(**OLD_DRIVER), result.findings, result.checks).exit_code == 1
    findings = waived(BROKEN_DRIVER).findings
    assert decide(facts(**OLD_DRIVER), findings, result.checks).exit_code == 0


def test_an_expired_waiver_says_so_and_changes_nothing_else() -> None:
    result = waived(BROKEN_DRIVER, today=DAY + dt.timedelta(days=1))
    assert result.findings[0].severity is Severity.ERROR
    assert "expired on 2026-12-31" in result.findings[0].evidence[-1].seen
    assert result.expired == (BROKEN_DRIVER,)


def test_the_last_day_still_counts() -> None:
    assert waived(BROKEN_DRIVER, today=DAY).expired == ()


def test_of_two_waivers_the_one_that_lasts_longer_counts() -> None:
    older = Waiver(code="DRV002", reason="an old one", last_day=dt.date(2026, 1, 1))
    assert waived(BROKEN_DRIVER, older).findings[0].severity is Severity.INFO


def test_a_waiver_for_what_did_not_fire_is_named() -> None:
    other = Waiver(code="GPU002", reason="never seen", last_day=DAY)
    assert waived(other).unused == (other,)
    assert waived(other).findings == judged(**OLD_DRIVER).findings


def test_findings_are_in_order_again_afterwards() -> None:
    both = {**OLD_DRIVER, "gpus_devices": (gpu(ecc_uncorrected=1),)}
    assert codes(**both) == ["DRV002", "GPU005"]
    assert [one.code for one in waived(BROKEN_DRIVER, **both).findings] == ["GPU005", "DRV002"]
