# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The style of a report's page: wide, on a phone, in print, light and dark. It loads nothing."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #57606a; --line: #dde1e6; --back: #fff; --panel: #f5f7f9;
  --accent: #1f5fa8; --bad: #b3420a; --area: #c9dbee; --dot: #3d78b4; --track: #e8ecf0; --c0: #1f5fa8; --c1:
  #c2570c; --c2: #1a7f4b; --c3: #7a3fd0; --c4: #a8178f; --c5: #00727d; --c6: #8a5f00; --c7: #57606a; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #a3abb3; --line: #363c43; --back: #14171a; --panel: #1d2125; --accent: #7db7f5;
    --bad: #ff9d66; --area: #253a50; --dot: #6aa7e0; --track: #2a3036; --c0: #7db7f5; --c1: #ff9d66; --c2: #5fd39a;
    --c3: #bb9bff; --c4: #f088d8; --c5: #5fd0dc; --c6: #e3b341; --c7: #a8b0b8; }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--ink); background:
  var(--back); max-width: 60rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h3 { font-size: .95rem; margin: 1.5rem 0 .4rem; overflow-wrap: anywhere; }
section { margin-top: 2.5rem; }
section.part { margin-top: 1.5rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.lead { font-size: 1.05rem; max-width: 46rem; }
.note { color: var(--soft); }
a { color: var(--accent); }
nav { margin: 1rem 0 0; font-size: .9rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 0; padding: 0; }
dl { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1.25rem 0 0; }
dl > div { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .55rem .9rem;
  flex: 1 1 auto; min-width: 6.5rem; max-width: 100%; }
dt { color: var(--soft); font-size: .8rem; }
dd { margin: 0; font-size: 1.05rem; font-weight: 600; overflow-wrap: anywhere; font-variant-numeric: tabular-nums;
  unicode-bidi: isolate; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; }
td, tbody th { unicode-bidi: isolate; overflow-wrap: break-word; max-width: 28rem; font-weight: 400; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--panel); color: var(--soft); font-weight: 600; white-space: nowrap; vertical-align:
  bottom; }
.short { white-space: nowrap; }
td code { display: inline-block; min-width: 11rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
th button::after { content: "\\2195"; opacity: .45; padding-left: .3em; }
th[aria-sort=ascending] button::after { content: "\\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\\2193"; opacity: 1; }
th[aria-sort] { color: var(--ink); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.tools { display: flex; gap: .75rem; align-items: baseline; flex-wrap: wrap; margin-bottom: .5rem; font-size: .9rem;
  }
input, button.all { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--soft);
  border-radius: 5px; padding: .25rem .6rem; max-width: 100%; }
button.all { margin-top: .6rem; cursor: pointer; }
@media (scripting: none) {
  .tools, button.all, .under { display: none; }
  th button::after { content: ""; }
}
@media (scripting: enabled) {
  .folded tbody tr:nth-child(n+101) { display: none; }
}
pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .85rem; overflow-wrap:
  anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem; margin: 0;
  white-space: pre-wrap; unicode-bidi: plaintext; }
ol.steps { list-style: none; margin: 0; padding: 0; }
ol.steps > li { display: grid; grid-template-columns: 8.2rem 1fr; gap: .2rem 1rem; padding: .8rem 0; border-top: 1px
  solid var(--line); }
ol.steps > li:last-child { border-bottom: 1px solid var(--line); }
.steps p { margin: 0; unicode-bidi: isolate; }
.steps .where { font-weight: 600; overflow-wrap: anywhere; }
.steps .do::before { content: "\\2192\\00a0"; color: var(--soft); }
.steps pre { margin-top: .4rem; }
.steps .found { color: var(--soft); }
figure { margin: 0; }
.onwide, .onnarrow { overflow: hidden; }
.onnarrow { display: none; }
svg { display: block; max-width: 100%; height: auto; }
.shared { position: absolute; }
image.sharp { image-rendering: pixelated; }
svg text { fill: var(--soft); font-size: 12px; font-family: inherit; }
svg text.named { fill: var(--bad); font-weight: 600; }
svg text.said { fill: var(--bad); }
svg text.label { fill: var(--ink); font-size: 13px; }
svg text.value { fill: var(--ink); }
.grid { stroke: var(--line); }
.gate { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 6 4; }
.gatemark { fill: var(--bad); }
polyline { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
circle { fill: currentColor; }
polyline.c1 { stroke-dasharray: 9 3; }
polyline.c2 { stroke-dasharray: 4 2; }
polyline.c3 { stroke-dasharray: 9 3 2 3; }
polyline.c4 { stroke-dasharray: 2 2; }
polyline.c5 { stroke-dasharray: 13 4 4 4; }
polyline.c6 { stroke-dasharray: 6 6; }
polyline.c7 { stroke-dasharray: 2 6; }
polygon.area { fill: var(--area); }
.dots { stroke: var(--dot); stroke-width: 5; stroke-linecap: round; fill: none; stroke-opacity: .75; }
.outlier { fill: var(--bad); stroke: var(--back); }
.leader { stroke: var(--bad); stroke-opacity: .6; }
.track { fill: var(--track); }
.bar { fill: var(--dot); }
.bar.bad { fill: var(--bad); }
.before { stroke: var(--ink); stroke-width: 2; }
.panel { fill: #eef0f2; }
.hatch { stroke: #d3d9de; fill: none; }
.between { stroke: #7d868f; stroke-opacity: .2; }
.mark { fill: none; stroke: #b3420a; stroke-width: 1.25; }
.cursor { fill: none; stroke: #111; stroke-width: 2; paint-order: stroke; }
.heat { width: fit-content; max-width: 100%; }
.under { min-height: 1.5em; font-variant-numeric: tabular-nums; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; margin: .5rem 0; padding: 0;
  font-size: .85rem; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: .4rem; flex-wrap: wrap; overflow-wrap: anywhere; }
.ramp { border-radius: 2px; image-rendering: pixelated; }
.ends { font-variant-numeric: tabular-nums; }
.key { flex: none; width: 26px; }
.key.gate { border-top: 2px dashed var(--bad); }
.key.area { height: .7rem; border: 0; background: var(--area); }
.swatch { width: 1rem; height: .8rem; border: 1px solid #c6ccd2; flex: none; background: #eef0f2; }
.swatch.lost { background: #111; }
.swatch.none { background: repeating-linear-gradient(135deg, #eef0f2 0 3px, #c6ccd2 3px 4px); }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
details .wide { margin-top: .5rem; }
.c0 { color: var(--c0); }
.c1 { color: var(--c1); }
.c2 { color: var(--c2); }
.c3 { color: var(--c3); }
.c4 { color: var(--c4); }
.c5 { color: var(--c5); }
.c6 { color: var(--c6); }
.c7 { color: var(--c7); }
polyline.soft, circle.soft { color: var(--soft); stroke-width: 1.5; stroke-dasharray: 2 3; }
.verdict { display: inline-block; padding: 0 .5rem; border-radius: 4px; font-size: .8rem; line-height: 1.5rem;
  font-weight: 600; color: #fff; white-space: nowrap; }
h1 .verdict { font-size: 1rem; line-height: 1.9rem; vertical-align: .15rem; padding: 0 .7rem; }
.PASS { background: #1a7040; }
.WARN { background: #855600; }
.FAIL { background: #b3261e; }
.INCOMPLETE { background: #6440b8; }
.NOT_APPLICABLE { background: #57606a; }
footer { color: var(--soft); margin: 3rem 0 0; padding-top: .75rem; border-top: 1px solid var(--line); font-size:
  .85rem; overflow-wrap: anywhere; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--back); padding: .3rem .6rem; }
@media screen and (max-width: 799px) {
  body { padding: 1rem .7rem 2rem; }
  h1 { font-size: 1.35rem; }
  .onwide { display: none; }
  .onnarrow { display: block; }
  dl > div { flex-basis: 40%; }
  dl > div { padding: .5rem .7rem; }
  ol.steps > li { grid-template-columns: 1fr; }
  th, td { padding: .35rem .5rem; }
  td:not([class]):not([data-key]) { min-width: 13rem; }
  td code { min-width: 20rem; }
}
@media print {
  @page { margin: 14mm; }
  body { max-width: none; padding: 0; font-size: 10pt; print-color-adjust: exact; -webkit-print-color-adjust: exact;
    }
  .onwide { display: block; }
  .onnarrow, nav, .tools, button.all, .under, .skip { display: none; }
  .wide { overflow: visible; border: 0; }
  table { font-size: 8.5pt; }
  th, td { padding: .2rem .4rem; overflow-wrap: anywhere; }
  td.short { white-space: normal; overflow-wrap: break-word; }
  thead { display: table-header-group; }
  thead th, thead th.number { white-space: normal; overflow-wrap: break-word; }
  td code { min-width: 0; font-size: 7.5pt; }
  .verdict { font-size: 7.5pt; line-height: 1.4; padding: 0 .3rem; }
  h1 .verdict { font-size: 10pt; }
  .lead, dd { font-size: 10.5pt; }
  tr, figure, ol.steps > li, dl { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  th button::after { content: ""; }
  details:not([open]) { display: none; }
  section { margin-top: 1.5rem; }
}
"""
