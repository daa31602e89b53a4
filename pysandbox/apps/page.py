"""The page of an app: what it may do, in sentences, and what its last run was denied. It needs nothing else beside it.

Made like the page of a run (`audit.report.page`): every text goes through `el`, which escapes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pysandbox.apps.denials import DeniedInstruction
from pysandbox.apps.grant import AppGrant, sentences
from pysandbox.audit.report.frame import whole_page
from pysandbox.audit.report.markup import Markup, el

SHOWN = 500  # different denials; the log has all


def app_page(grant: AppGrant, records: Sequence[DeniedInstruction]) -> str:
    title = f"{grant.app_id} · {len(records)} denials"
    return whole_page(title, _header(grant, records), _may(grant), _denied(records), _footer(grant))


def _header(grant: AppGrant, records: Sequence[DeniedInstruction]) -> Markup:
    denied = (f"{len(records)} denied", "bad") if records else ("nothing denied", "good")
    return el(
        "header",
        el("div", "pysandbox · app", class_="eyebrow"),
        el("h1", f"{grant.app_id} {grant.version}"),
        (el("span", text, class_=f"pill {kind}") for text, kind in (("held to its grant", "good"), denied)),
    )


def _may(grant: AppGrant) -> Markup:
    granted = sentences(grant.granted, grant.scopes) or ["It may have no effect at all."]
    refused = [f"{each}: asked for, and not granted" for each in grant.requested if each not in grant.granted]
    return _section("What it may do", el("ul", (el("li", each) for each in (*granted, *refused))))


def _denied(records: Iterable[DeniedInstruction]) -> Markup:
    counts = Counter(each._replace(tick=0) for each in records)
    if not counts:
        return _section("Denied in its last run", el("p", "Nothing was denied.", class_="none"))
    rows = (_row(each, count) for each, count in list(counts.items())[:SHOWN])
    return _section("Denied in its last run", el("ul", rows))


def _row(record: DeniedInstruction, count: int) -> Markup:
    return el(
        "li",
        el("span", f"{count} times", class_="count") if count > 1 else None,
        el("span", record.deny_reason, class_="pill bad"),
        el("code", f"{record.opcode}({record.args_summary})"),
        el("div", f"needs {record.required_capability}", class_="by"),
    )


def _section(title: str, content: Markup) -> Markup:
    return el("section", el("h2", title), content)


def _footer(grant: AppGrant) -> Markup:
    return el(
        "footer", f"Package {grant.package}; signed with key {grant.signed}. `pysandbox app log` has every record."
    )
