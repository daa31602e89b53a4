"""The page of a run: well formed whatever the run is called, silent on the wire, honest about what nobody saw."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.audit.report import page
from pysandbox.audit.report.markup import Markup, el, shortened
from pysandbox.audit.report.page import FILES_NOT_OBSERVED, NO_NETWORK
from pysandbox.audit.runs import Run
from pysandbox.audit.tell import NOT_WATCHED

from .samples import HOSTILE, hostile, ordinary, silent

RUNS = {"ordinary": ordinary, "hostile": hostile, "silent": silent}
ALLOWED = frozenset(
    ("html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "div", "span", "p", "h1",
     "h2", "b", "ul", "li", "code", "svg", "g", "rect", "line", "circle", "path", "text")
)  # fmt: skip


class Seen(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_it_holds_no_element_that_could_run_or_load_anything(run: type[Run]) -> None:
    seen = Seen(page(run()))
    assert seen.names <= ALLOWED
    assert not seen.attributes & {"src", "href", "style", "srcset", "action", "data", "xlink:href"}
    assert not [name for name in seen.attributes if name.startswith("on")]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_its_drawings_are_well_formed(run: type[Run]) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page(run()), re.DOTALL)
    assert len(drawings) == 3
    for each in drawings:
        ElementTree.fromstring(each)


def test_its_policy_allows_its_own_style_and_nothing_else() -> None:
    text = page(ordinary())
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    found = re.search(r'content="(default-src[^"]*)"', text)
    assert found is not None
    assert found[1].replace("&#x27;", "'") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_what_lies_to_the_eye_is_shown_by_its_number() -> None:
    text = page(hostile())
    assert not [each for each in text if not each.isprintable() and each != "\n"]
    assert r"\u{1b}[2J\u{202e}\u{dc80}&amp;amp;" in text


def test_what_nobody_observed_is_not_drawn() -> None:
    told = Seen(page(silent())).text
    assert told.count(FILES_NOT_OBSERVED) == 2
    assert NOT_WATCHED in told
    assert "no end recorded" in told
    assert "use not observed" in told
    assert NO_NETWORK not in told  # the record does not say so either


def test_what_was_recorded_is_told() -> None:
    told = Seen(page(ordinary())).text
    for each in ("pytest -q", "1 of 2 commands failed", "4 refused", "/etc/shadow", "3 times", NO_NETWORK,
                 'filesystem.allow = ["/etc/shadow"]', "no second wall", "32 MiB · limit 64 MiB", "hidden  /proj/.env",
    ):  # fmt: skip
        assert each in told, each


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_text_never_becomes_markup(text: str, attribute: str) -> None:
    made = el("code", text, title=attribute)
    assert re.fullmatch(r'<code title="[^"<>]*">[^<>]*</code>', made)
    assert el("div", made) == f"<div>{made}</div>"
    assert isinstance(made, Markup)


@given(st.text(max_size=80), st.integers(5, 40))
def test_a_label_is_never_too_long(text: str, length: int) -> None:
    assert len(shortened(text, length)) <= length


def test_the_changes_that_are_kept_are_shown_line_by_line_and_escaped() -> None:
    text = page(hostile(), [f"+{HOSTILE}", "-old\tline", "", f"--- a/{HOSTILE}"])
    seen = Seen(text)
    assert seen.names <= ALLOWED and "<script" not in text and "\x1b" not in text
    assert "+\"'><script>alert(1)" in seen.text and "-old    line" in seen.text and "Written apart" in seen.text
    assert text.count('class="mono added"') == 1 and text.count('class="mono gone"') == 2
