# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page of a validation in a real browser, from disk: errors, sorting, the injected fault, phone, print, speed.

The run is simulated, with one slow node. TRAINWRIGHT_SCREENSHOTS=directory keeps pictures of the page.
"""

from __future__ import annotations

import json
import os
import re
import typing as t
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    Result,
    Verdict,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.report import page as report
from ansible_collections.trainwright.slurm.plugins.module_utils.report import results
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import page

from tests.fixtures.validation.simulated import simulated

from .browser import Browser, program

# On Debian, `make dev` installs it.
pytestmark = pytest.mark.skipif(
    program() is None and "ID=debian" not in Path("/etc/os-release").read_text(encoding="utf-8"),
    reason="chromium is missing, and this system has it only as a snap -> install it",
)

BAD = "gpu0007"
# Every text of a host, in every place where there may be one.
EVIL = [
    "</script><script>document.title='OWNED'</script>",
    '"><img src=x onerror="document.title=\'OWNED\'">',
    "'-alert(1)-'\x1b]0;x\x07\u202e\u200f",
    "\u05d0\u05d1\u05d2",
    "x" * 10_000,
]
#: The texts of a column of the table of checks, the shown rows first.
COLUMN = "Array.from(document.querySelectorAll('{table} tbody tr'), row => row.cells[{column}].textContent)"
#: The number of rows of a table that can be seen.
SHOWN = (
    "Array.from(document.querySelectorAll('{table} tbody tr'))"
    ".filter(one => one.getClientRects().length).length"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    one = Browser(tmp_path_factory.mktemp("chromium"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of 12 nodes."""
    path = tmp_path_factory.mktemp("page") / "validate.html"
    path.write_text(page.html(simulated(12, BAD)), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, small: Path) -> Browser:
    """The small page on a wide window, just opened."""
    browser.resize(1200)
    browser.appear("light")
    browser.open(small)
    return browser


def keep(browser: Browser, name: str) -> None:
    """Keep a picture of the page, if somebody wants to look at it."""
    directory = os.environ.get("TRAINWRIGHT_SCREENSHOTS")
    if directory:
        (Path(directory) / f"{name}.png").write_bytes(browser.picture())


def table_of(browser: Browser, title: str) -> str:
    """Return a selector of the table under a heading that begins so."""
    key = browser.run(
        "Array.from(document.querySelectorAll('h2, h3')).find("
        f"one => one.textContent.startsWith({json.dumps(title)})).id"
    )
    return f"section[aria-labelledby={key}] table"


def column(browser: Browser, number: int, table: str) -> list[str]:
    """Return the texts of a column, in the order of the page."""
    return t.cast("list[str]", browser.run(COLUMN.format(table=table, column=number)))


def test_it_loads_without_a_complaint_and_asks_for_nothing(opened: Browser) -> None:
    assert opened.errors == []
    assert opened.run("document.querySelector('h1').textContent") == "Validation of research FAIL"
    assert (
        opened.run(
            "performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:'))"
            ".length"
        )
        == 0
    )
    keep(opened, "wide")


def test_the_policy_of_the_page_stops_what_is_not_its_own(opened: Browser) -> None:
    """The page would be as safe if an escape were missing somewhere."""
    opened.run(
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src=x onerror="document.title=1"><p style="color:red">\');'
        " const one = document.createElement('script'); one.textContent = 'document.title = 2';"
        " document.body.append(one)"
    )
    opened.run("new Promise(done => setTimeout(done, 50))")
    assert opened.run("document.title") == "Validation of research"
    assert sum("Content Security Policy" in error for error in opened.errors) >= 2


def test_a_click_and_the_keyboard_sort_a_table(opened: Browser) -> None:
    table = table_of(opened, "Checks")
    head = f"{table} th:nth-child(1)"
    before = column(opened, 0, table)
    assert before[0] == BAD, "the worst verdict comes first"
    opened.click(f"{head} button")
    assert opened.run(f"document.querySelector('{head}').ariaSort") == "ascending"
    assert column(opened, 0, table) == sorted(before) != before
    opened.run(f"document.querySelector('{head} button').focus()")
    opened.press("Enter")
    assert opened.run(f"document.querySelector('{head}').ariaSort") == "descending"
    assert column(opened, 0, table) == sorted(before, reverse=True)
    # The next column is a Tab away; verdicts are in the order of their weight, not of the alphabet.
    opened.press("Tab")
    opened.press("Tab")
    opened.press("Enter")
    assert opened.run(f"document.querySelector('{head}').ariaSort") is None
    order = [verdict.value.replace("_", " ") for verdict in Verdict]
    places = [order.index(verdict) for verdict in column(opened, 2, table)]
    assert places == sorted(places) and len(set(places)) == 5
    assert opened.errors == []


def test_numbers_are_sorted_as_numbers(opened: Browser) -> None:
    table = table_of(opened, "The worst pairs")
    opened.click(f"{table} th:nth-child(3) button")
    rounds = [int(one) for one in column(opened, 2, table)]
    assert rounds == sorted(rounds) and max(rounds) > 9
    opened.click(f"{table} th:nth-child(4) button")
    values = column(opened, 3, table)
    assert values[-1] == "\u2013", "what has no number comes last"
    assert [float(one) for one in values[:-1]] == sorted(float(one) for one in values[:-1])


def test_a_word_filters_the_rows(opened: Browser) -> None:
    opened.run("document.querySelector('input.filter').focus()")
    opened.call("Input.insertText", text=BAD.upper())
    opened.run("new Promise(done => setTimeout(done, 300))")
    shown = opened.run(SHOWN.format(table=table_of(opened, "Checks")))
    assert shown == 4, "the four checks of the node"
    assert opened.run("document.querySelector('.shown').textContent").startswith("4 of ")


def test_the_heat_map_shows_the_bad_row(opened: Browser) -> None:
    """Read as a person does: the colours on the screen, and the value under the pointer."""
    place = opened.run(
        "(() => { const svg = document.querySelector('.heat .onwide svg'); svg.scrollIntoView({block: 'center'});"
        " const at = svg.getBoundingClientRect(), scale = at.width / svg.viewBox.baseVal.width;"
        " return [at.x + svg.dataset.x * scale, at.y + svg.dataset.y * scale, svg.dataset.cell * scale,"
        " scrollX, scrollY]; })()"
    )
    left, top, cell, over, down = place
    colours = rows_of(opened.picture((left + over, top + down, 12 * cell, 12 * cell), scale=0.25))
    orange = {
        (row, number)
        for row in range(12)
        for number in range(12)
        if is_orange(colours, (number + 0.5) * cell / 4, (row + 0.5) * cell / 4)
    }
    assert orange == {(6, n) for n in range(12) if n != 6} | {(n, 6) for n in range(12) if n != 6}
    said = "document.querySelector('.under output').textContent"
    opened.point(left + 2.5 * cell, top + 6.5 * cell)
    opened.run("new Promise(done => setTimeout(done, 100))")
    found = re.fullmatch(
        rf"{BAD} and gpu0003: about (\d+(\.\d+)?) GB/s, under the gate", opened.run(said)
    )
    assert found and 105 < float(found[1]) < 135
    opened.run("document.querySelector('.heat').focus()")
    for key, words in (
        ("ArrowUp", "gpu0006 and gpu0003: about 2"),
        ("ArrowRight", "gpu0006 and gpu0004: about 2"),
        ("ArrowDown", "gpu0007 and gpu0004: about 1"),
    ):
        opened.press(key)
        opened.run("new Promise(done => setTimeout(done, 50))")
        assert opened.run(said).startswith(words)
    assert opened.errors == []


def rows_of(png: bytes) -> list[bytes]:
    """Decode a PNG of RGB or RGBA with eight bits, all filters: rows of RGB."""
    at, data, width, kind = 8, b"", 0, 0
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        name, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if name == b"IHDR":
            width, kind = int.from_bytes(body[:4], "big"), body[9]
        elif name == b"IDAT":
            data += body
        at += 12 + length
    deep = {2: 3, 6: 4}[kind]
    raw, stride = zlib.decompress(data), width * deep
    made, before = [], bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        how, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for n in range(stride):
            a = row[n - deep] if n >= deep else 0
            b = before[n]
            c = before[n - deep] if n >= deep else 0
            if how == 4:
                p = a + b - c
                nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
                row[n] = (row[n] + nearest) & 255
            elif how:
                row[n] = (row[n] + {1: a, 2: b, 3: (a + b) >> 1}[how]) & 255
        made.append(bytes(one for n, one in enumerate(row) if n % deep < 3))
        before = row
    return made


def is_orange(rows: list[bytes], x: float, y: float) -> bool:
    red, green, blue = rows[int(y)][3 * int(x) : 3 * int(x) + 3]
    return red > green + 30 > blue + 30


def test_a_phone_does_not_scroll_the_page_sideways(opened: Browser) -> None:
    opened.resize(375, 800)
    assert opened.run("document.documentElement.scrollWidth") == 375
    wide = opened.run(
        "Array.from(document.querySelectorAll('.wide')).filter(one => one.scrollWidth > one.clientWidth).length"
    )
    assert wide >= 1, "tables scroll in their own box"
    assert opened.run(
        "Array.from(document.querySelectorAll('svg')).every(one => one.getBoundingClientRect().right <= 375)"
    )
    sizes = opened.run(
        "Array.from(document.querySelectorAll('.onnarrow svg'), one =>"
        " 12 * one.getBoundingClientRect().width / one.viewBox.baseVal.width)"
    )
    assert min(sizes) > 11, "the text of drawings can be read"
    keep(opened, "phone")


def test_it_can_be_printed(opened: Browser) -> None:
    data = opened.pdf()
    assert data.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", data))
    assert 3 <= pages <= 20
    opened.call("Emulation.setEmulatedMedia", media="print")
    opened.resize(688)
    assert opened.run("document.documentElement.scrollWidth") == 688, "nothing is cut off on A4"
    keep(opened, "print")
    opened.call("Emulation.setEmulatedMedia", media="")


def test_what_can_be_used_has_a_name_and_contrast(opened: Browser) -> None:
    for scheme in ("light", "dark"):
        opened.appear(scheme)
        weak = opened.run(CONTRAST)
        assert weak == [], scheme
        keep(opened, scheme)
    unnamed = [
        node["role"]["value"]
        for node in opened.call("Accessibility.getFullAXTree")["nodes"]
        if not node["ignored"]
        and node["role"]["value"]
        in ("button", "link", "image", "region", "textbox", "searchbox", "application", "table")
        and not node.get("name", {}).get("value")
    ]
    assert unnamed == []


# Texts whose contrast with what is behind them is under 4.5, as WCAG 2.2 has it (1.4.3).
CONTRAST = """
(() => {
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const behind = one => { for (; one; one = one.parentElement) { const c = parse(getComputedStyle(one).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
  const found = new Set();
  for (const one of document.querySelectorAll('body *')) {
    if (!Array.from(one.childNodes).some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (!one.getClientRects().length) continue;
    if (['SCRIPT', 'STYLE', 'TITLE'].includes(one.tagName.toUpperCase())) continue;
    const style = getComputedStyle(one);
    const ink = parse(one.closest('svg') ? style.fill : style.color).slice(0, 3);
    const pair = [light(ink), light(behind(one))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) found.add(one.tagName + '.' + one.getAttribute('class') + ' ' + ratio.toFixed(2));
  }
  return Array.from(found);
})()
"""


def test_texts_of_hosts_are_only_texts(browser: Browser, tmp_path: Path) -> None:
    rows = [Result(one, "gpus", Verdict.FAIL, one, one, one, one, one, one) for one in EVIL]
    pairs = {(0, 1): 1.0, (2, 3): 5.0, (1, 4): None}
    path = tmp_path / "evil.html"
    sections: list[report.Section] = [
        results.section(rows),
        report.HeatMap(
            EVIL[0], EVIL, pairs, EVIL[1], 3.0, groups=[(one, 1) for one in EVIL], marked=[0, 4]
        ),
        *(
            report.Strip(
                one, one, [(two, n) for n, two in enumerate(EVIL)], report.Gate(2, one), EVIL
            )
            for one in EVIL
        ),
        report.Bars(EVIL[0], EVIL[0], [report.Bar(one, 1.0, 2.0, True) for one in EVIL]),
        report.Chart(
            EVIL[1],
            EVIL[0],
            EVIL[4],
            [report.Series(one, [(1, 1), (2, 2)]) for one in EVIL],
            sizes=True,
        ),
        report.Steps(EVIL[0], [report.Step("FAIL", one, one, one, one) for one in EVIL]),
    ]
    path.write_text(
        report.render(report.Report(EVIL[0], [(one, one) for one in EVIL], sections)),
        encoding="utf-8",
    )
    browser.resize(375)
    browser.open(path)
    assert browser.errors == []
    assert browser.run("document.title").startswith("</script><script>document.title=")
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('img[onerror]').length") == 0
    assert browser.run("document.documentElement.scrollWidth") == 375
    browser.run("document.querySelector('.heat').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowRight")
    browser.run("new Promise(done => setTimeout(done, 100))")
    assert browser.run("document.querySelector('.under output').textContent").startswith(
        "</script><script>"
    )
    assert browser.errors == []


def test_a_thousand_nodes_are_a_small_page_that_opens_fast(
    browser: Browser, tmp_path: Path, record_property: t.Callable[[str, object], None]
) -> None:
    path = tmp_path / "validate.html"
    path.write_text(page.html(simulated(1000, "gpu0500")), encoding="utf-8")
    size = path.stat().st_size
    browser.resize(1200)
    seconds = browser.open(path)
    record_property("seconds", seconds)
    print(f"1,000 nodes: {size / 1e6:.2f} MB, opens in {seconds:.2f} s")
    assert size < 5_000_000
    # 2 s is the aim, on a machine that does nothing else.
    assert seconds < 8
    assert browser.errors == []
    table = table_of(browser, "Checks")
    assert browser.run(SHOWN.format(table=table)) == 100, "the rest is folded away"
    keep(browser, "thousand")
    browser.click("button.all")
    assert browser.run(SHOWN.format(table=table)) > 4000
    named = browser.run(
        "Array.from(document.querySelectorAll('.onwide svg text.named'), one => one.textContent)"
    )
    assert set(named) == {"gpu0500"}
