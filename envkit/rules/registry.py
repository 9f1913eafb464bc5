"""Every rule there is, in an order in which prerequisites come first."""

from __future__ import annotations

from envkit.model.rule_entry import RuleEntry
from envkit.model.spec_codes import SPEC_CODES
from envkit.rules import (
    alc,
    con,
    con_baseline,
    con_environment,
    drv,
    drv_failures,
    gpu,
    gpu_siblings,
    gpu_state,
    lib,
    lib_cudnn,
    lib_loader,
    tor,
    tor_company,
)
from envkit.rules.rule import FAMILIES, Rule

RULES: tuple[Rule, ...] = (
    # What torch is, and whether there is a GPU, decides which other rules have a meaning.
    tor.TOR001,
    gpu.GPU008,
    gpu.GPU001,
    gpu.GPU002,
    gpu_state.GPU003,
    gpu_state.GPU004,
    gpu_state.GPU005,
    gpu_state.GPU006,
    gpu_state.GPU007,
    gpu_state.GPU009,
    gpu_state.GPU010,
    gpu_siblings.GPU011,
    # DRV005 and DRV004 say more than the comparison of versions in DRV002 and DRV003 could.
    drv.DRV001,
    drv.DRV004,
    drv_failures.DRV005,
    # Without the driver's own libcuda torch calls every driver too old.
    drv_failures.DRV009,
    drv.DRV002,
    drv.DRV003,
    drv_failures.DRV006,
    drv_failures.DRV007,
    drv_failures.DRV010,
    # Last of its family: it is about what no other rule explains.
    drv_failures.DRV008,
    lib_cudnn.LIB001,
    lib.LIB002,
    lib.LIB003,
    lib.LIB004,
    lib_loader.LIB005,
    lib_loader.LIB006,
    lib_loader.LIB007,
    lib_loader.LIB008,
    lib_cudnn.LIB009,
    # What CON007 says of torch, TOR004 need not say again.
    con_environment.CON006,
    con_environment.CON007,
    con.CON001,
    con.CON002,
    con.CON003,
    con.CON004,
    con.CON005,
    con_environment.CON008,
    con_environment.CON009,
    con_environment.CON010,
    con_environment.CON011,
    con_environment.CON012,
    tor.TOR002,
    tor.TOR003,
    tor.TOR004,
    tor.TOR005,
    tor_company.TOR006,
    tor_company.TOR007,
    tor_company.TOR008,
    tor_company.TOR009,
    tor_company.TOR010,
    tor_company.TOR011,
    tor_company.TOR012,
    tor_company.TOR013,
    # A setting that torch refuses is not also one that is not in effect.
    alc.ALC002,
    alc.ALC001,
    alc.ALC003,
    alc.ALC004,
    alc.ALC005,
    # A setting or a library that another rule is about is named there first.
    con_baseline.CON013,
)

BY_CODE: dict[str, Rule] = {rule.code: rule for rule in RULES}

#: Everything that can be explained: the rules, and the linter's codes, which are checked elsewhere.
ENTRIES: dict[str, RuleEntry] = {**BY_CODE, **{one.code: one for one in SPEC_CODES}}


def listing() -> tuple[RuleEntry, ...]:
    """Return the codes in the order in which people look for them: family, then number."""
    families = list(FAMILIES)
    return tuple(
        sorted(ENTRIES.values(), key=lambda entry: (families.index(entry.family), entry.code))
    )
