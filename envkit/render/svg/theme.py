"""How figures look: classes and colours, light and dark.

The colours are Okabe and Ito's, which can be told apart with every common kind of colour
blindness; lines differ in their dashes too. A page that wants other colours sets the variables.
"""

from __future__ import annotations

from typing import Final

#: For a `<style>` element; every rule is below the class `figure`.
STYLE: Final = """\
.figure{--ink:#1b1f24;--soft:#57606a;--rule:#d8dee4;--paper:#fff;--bad:#b3261e;
--c0:#0072b2;--c1:#d55e00;--c2:#007a5a;--c3:#a0498a;--c4:#8a6d00;--c5:#3a7ca5;
--used:#0072b2;--mixed:#8fbfe0;--free:#f0e3c4}
@media(prefers-color-scheme:dark){.figure{--ink:#e6edf3;--soft:#9aa7b4;--rule:#30363d;
--paper:#0d1117;--bad:#ff8a80;--c0:#56b4e9;--c1:#ff9f4a;--c2:#2fc79b;--c3:#e59ac9;--c4:#f0e442;
--c5:#9ecae1;--used:#56b4e9;--mixed:#2f6690;--free:#4d4023}}
.figure{background:var(--paper);font:12px system-ui,sans-serif}
.figure text{fill:var(--ink);paint-order:stroke;stroke:var(--paper);stroke-width:3px}
.figure .head{font-size:14px;font-weight:600}
.figure .soft{fill:var(--soft)}
.figure .end{text-anchor:end}.figure .middle{text-anchor:middle}
.figure .rule{stroke:var(--rule);fill:none}
.figure .paper{fill:var(--paper)}
.figure .line{fill:none;stroke-width:1.5;stroke-linejoin:round}
.figure .s0{stroke:var(--c0)}.figure .s1{stroke:var(--c1);stroke-dasharray:7 2}
.figure .s2{stroke:var(--c2);stroke-dasharray:2 2}
.figure .s3{stroke:var(--c3);stroke-dasharray:9 2 2 2}
.figure .s4{stroke:var(--c4);stroke-dasharray:4 3}
.figure .s5{stroke:var(--c5);stroke-dasharray:1 3}
.figure .bar{fill:var(--c0)}
.figure .mark{stroke:var(--ink);stroke-dasharray:2 3;fill:none}
.figure .bad{stroke:var(--bad);fill:none}
.figure text.bad{fill:var(--bad);stroke:var(--paper);font-weight:600}
.figure .used{fill:var(--used)}.figure .mixed{fill:var(--mixed)}.figure .free{fill:var(--free)}
.figure .edge{stroke:var(--ink);fill:none}
.figure .hit{fill:transparent}
"""
