"""The look of a report, light and dark; the pictures use the same names for the same things."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--paper:#f7f5f0;--card:#fffefb;--ink:#1d2433;--soft:#657084;--line:#dfdad0;
--track:#ebe7de;--good:#0e7a6d;--good-bg:#d9f0ea;--bad:#bf1d47;--bad-bg:#fbe0e5;--warn:#a85b06;--warn-bg:#fbecd2;
--net:#2456c9;--net-bg:#dfe8fb}
@media (prefers-color-scheme:dark){:root{--paper:#12151c;--card:#1a1f29;--ink:#e9e7e1;--soft:#98a2b5;--line:#2d3442;
--track:#272e3b;--good:#4fd1b8;--good-bg:#14352f;--bad:#ff7d98;--bad-bg:#40182a;--warn:#f2b65c;--warn-bg:#3b2b12;
--net:#86aeff;--net-bg:#1a2a4d}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1040px;margin:0 auto;padding:48px 24px 72px}
header{margin-bottom:28px}
.eyebrow{color:var(--soft);font-size:13px;letter-spacing:.08em;text-transform:uppercase}
h1{font:600 30px/1.25 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;margin:8px 0 14px;
overflow-wrap:anywhere}
h2{font-size:20px;margin:0 0 4px}
.why{color:var(--soft);margin:0 0 16px;font-size:14px}
code,.mono{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.pill{display:inline-block;border-radius:999px;padding:3px 12px;font-size:14px;font-weight:600;margin:0 8px 8px 0}
.good{background:var(--good-bg);color:var(--good)}.bad{background:var(--bad-bg);color:var(--bad)}
.warn{background:var(--warn-bg);color:var(--warn)}.plain{background:var(--track);color:var(--soft)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:14px;margin:0 0 22px}
.tile,section{background:var(--card);border:1px solid var(--line);border-radius:14px}
.tile{padding:14px 18px}.tile b{display:block;font-size:26px;line-height:1.3;font-weight:650}
.tile span{color:var(--soft);font-size:13px}
section{padding:24px 26px;margin:0 0 22px}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:22px}.two section{min-width:0}
ul{list-style:none;margin:0;padding:0}li{padding:9px 0;border-top:1px solid var(--line)}li:first-child{border-top:0}
.by{color:var(--soft);font-size:13px}.none{color:var(--soft);font-style:italic;margin:0}
.fix{display:block;background:var(--track);border-radius:8px;padding:8px 12px;margin-top:6px;white-space:pre-wrap}
.count{float:right;color:var(--soft);font-size:13px}
section{overflow-x:auto}
.mono{white-space:pre-wrap}.added{color:var(--good)}.gone{color:var(--bad)}
svg{display:block;width:100%;min-width:640px;height:auto}
svg text{fill:var(--ink);font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
svg .say{fill:var(--soft);font:12.5px system-ui,sans-serif}
svg .head{fill:var(--soft);font:600 11.5px system-ui,sans-serif;letter-spacing:.07em}
svg .title{font-size:16px;font-weight:600}
.wall{fill:var(--card);stroke:var(--ink);stroke-width:2.5}.wall.open{stroke:var(--bad);stroke-dasharray:9 7}
.chip{fill:var(--track)}.chip.g{fill:var(--good-bg)}.chip.b{fill:var(--bad-bg)}.chip.n{fill:var(--net-bg)}
svg .g.t{fill:var(--good)}svg .b.t{fill:var(--bad)}svg .n.t{fill:var(--net)}
.wire{fill:none;stroke-width:1.8}.wire.g{stroke:var(--good)}.wire.b{stroke:var(--bad)}.wire.n{stroke:var(--net)}
.wire.off{stroke:var(--line);stroke-dasharray:4 5}
.tip.g{fill:var(--good)}.tip.n{fill:var(--net)}
.cross{stroke:var(--bad);stroke-width:3;stroke-linecap:round}
.track{fill:var(--track)}.bar{fill:var(--good)}.bar.full{fill:var(--bad)}.bar.near{fill:var(--warn)}.bar.alone{fill:var(--soft)}
.axis{stroke:var(--line)}.tick.b{fill:var(--bad)}.tick.n{fill:var(--net)}.tick.w{fill:var(--warn)}
footer{color:var(--soft);font-size:13px;margin-top:30px;overflow-wrap:anywhere}
@media print{body{background:#fff}.tile,section{break-inside:avoid}}
"""
