"""The page of a run: a verdict, the pictures, then lists for whoever wants the names; in the order of the page.

Whatever was not recorded is said to be not observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pysandbox.audit.report.frame import whole_page
from pysandbox.audit.report.markup import Markup, el, shortened
from pysandbox.audit.report.pictures import cage_picture, limits_picture, timeline
from pysandbox.audit.runs import Contact, Refusal, Run, WrittenApart
from pysandbox.audit.tell import NO_LINE, NOT_WATCHED, outcome, refusals

FILES_NOT_OBSERVED = (
    "Not observed: no opening of a file was recorded for this run. What it could open is in the picture above."
)
NETWORK_NOT_OBSERVED = "Not observed: no connection and no look-up was recorded."
TITLE = 160  # characters; the whole command is under "Ran"
NO_NETWORK = "Nothing: the cage had no network."


def page(run: Run, diff: Sequence[str] = ()) -> str:
    """`diff`: the lines of a patch of what is still kept of the run's workspace."""
    parts = _header(run), _tiles(run), _sections(run, diff), _footer(run)
    return whole_page(f"{_name(run)} · run {run.id}", *parts)


def _name(run: Run) -> str:
    return " ".join(run.commands[0].argv) if run.commands else "nothing"


def _header(run: Run) -> Markup:
    began = run.commands[0].began[:19].replace("T", " ") if run.commands else ""
    return el(
        "header",
        el("div", f"pysandbox · {began} UTC", class_="eyebrow"),
        el("h1", shortened(_name(run), TITLE)),
        (el("span", text, class_=f"pill {kind}") for text, kind in _verdicts(run)),
        el("div", run.summary, class_="mono"),
    )


def _verdicts(run: Run) -> Iterable[tuple[str, str]]:
    yield ("in a cage", "good") if run.caged else (f"NO CAGE ({run.why_uncaged})", "bad")
    if len(run.commands) > 1:
        failed = sum(each.exit_code != 0 for each in run.commands)
        yield (
            (f"{failed} of {len(run.commands)} commands failed", "warn")
            if failed
            else ("all commands succeeded", "good")
        )
    last = run.commands[0] if len(run.commands) == 1 else None
    if last is not None and last.failed:
        yield "never ran", "bad"
    elif last is not None and last.killed:
        yield f"ended by force: {last.killed}", "bad"
    elif last is not None and last.exit_code is None:
        yield "no end recorded", "warn"
    elif last is not None:
        yield f"exit code {last.exit_code}", "good" if last.exit_code == 0 else "warn"
    if run.refusals:
        yield f"{sum(each.count for each in run.refusals)} refused", "bad"
    if run.notes:
        yield f"{len(run.notes)} note{'s' * (len(run.notes) > 1)} on this host", "plain"
    for recipe in run.recipes:
        yield f"recipe {recipe}", "plain"


def _tiles(run: Run) -> Markup:
    ended = [each for each in run.commands if each.duration_ms is not None]
    duration = sum(each.duration_ms or 0 for each in ended) / 1000
    cpu = sum(each.user_ms + each.system_ms for each in ended) / 1000
    memory = max((each.max_rss_kb for each in ended), default=0) / 1024
    tiles = (
        (str(len(run.commands)), "command" if len(run.commands) == 1 else "commands"),
        (f"{duration:.2f} s" if ended else "not observed", "running"),
        (f"{cpu:.2f} s" if ended else "not observed", "of CPU"),
        (f"{memory:.1f} MiB" if ended else "not observed", "at its largest"),
        (str(sum(each.count for each in run.refusals)), "refusals recorded"),
    )
    return el(
        "div", (el("div", el("b", number), el("span", what), class_="tile") for number, what in tiles), class_="tiles"
    )


def _sections(run: Run, diff: Sequence[str]) -> Iterable[Markup]:
    if run.commands:
        yield _section("The cage", "What could pass its walls, and what was turned away.", cage_picture(run))
        yield _section("The run", "Each command from its start to its end; dots are recorded events.", timeline(run))
        yield _section("Limits and use", "", limits_picture(run))
    yield _section("Refused", "Each with the rule, and what would allow it.", _refused(run))
    yield el(
        "div", _section("Read", "", _files(run, "read")), _section("Written", "", _files(run, "write")), class_="two"
    )
    if run.apart:
        why = "To copy-on-write directories, in a layer of its own, and what became of it."
        yield _section("Written apart", why, el("ul", map(_apart, run.apart)))
    if diff:
        why = "The patch of what is kept of it now; pysandbox commit writes it."
        yield _section("The changes", why, el("div", map(_patch_line, diff)))
    yield _section("Reached", "", _reached(run))
    yield _section("Ran", "", el("ul", (_command(run, number) for number in range(len(run.commands)))))
    if run.notes:
        notes = (el("li", el("code", key), el("div", text, class_="by")) for key, text in run.notes)
        yield _section(
            "Other than the policy says", "What this host, or this version, did less or differently.", el("ul", notes)
        )


def _section(title: str, why: str, content: Markup) -> Markup:
    return el("section", el("h2", title), el("p", why, class_="why") if why else None, content)


def _refused(run: Run) -> Markup:
    found = refusals(run)
    return el("ul", map(_refusal, found)) if found else el("p", NOT_WATCHED, class_="none")


def _refusal(each: Refusal) -> Markup:
    times = el("span", f"{each.count} times", class_="count") if each.count > 1 else None
    return el(
        "li",
        times,
        el("span", each.kind, class_="pill bad"),
        el("code", each.target),
        el("div", f"by {each.rule or 'a rule that was not recorded'}", class_="by"),
        el("code", each.fix or NO_LINE, class_="fix"),
    )


BECAME = {"kept": "warn", "committed": "good", "aborted": "plain"}  # the colours
SIGNS = {"+": "mono added", "-": "mono gone"}  # of a line of a patch


def _apart(each: WrittenApart) -> Markup:
    counts = ", ".join(f"{number} {kind}" for kind, number in each.counts.items())
    more = sum(each.counts.values()) - len(each.paths)
    said = (each.reason, f"SHA-256 of the list of changes: {each.digest}" if each.digest else "",
            f"undone for an hour by: pysandbox commit --undo {each.commit[-8:]}" if each.commit else "")  # fmt: skip
    return el(
        "li",
        el("span", each.became, class_=f"pill {BECAME.get(each.became, 'plain')}"),
        el("code", ", ".join(each.trees)),
        el("span", f"  {counts}", class_="by"),
        (el("div", path, class_="mono") for path in each.paths),
        el("div", f"and {more} more", class_="by") if each.paths and more > 0 else None,
        (el("div", text, class_="by") for text in said if text),
    )


def _patch_line(line: str) -> Markup:
    return el("div", line.expandtabs(4) or " ", class_=SIGNS.get(line[:1], "mono"))


def _files(run: Run, access: str) -> Markup:
    if not run.files:
        return el("p", FILES_NOT_OBSERVED, class_="none")
    return _contacts([each for each in run.files if each.access == access], "Nothing was recorded.")


def _reached(run: Run) -> Markup:
    counted = sum(count for kind, count in run.counts.items() if kind.startswith("gatekeeper."))
    if not run.contacts and run.caged and run.grants.get("network") == ["none"]:
        return el("p", NO_NETWORK, class_="none")
    if not run.contacts and counted:
        return el(
            "p", f"{counted} look-ups and connections were counted, and none of them written down.", class_="none"
        )
    return _contacts(run.contacts, NETWORK_NOT_OBSERVED)


def _contacts(found: Sequence[Contact], none: str) -> Markup:
    if not found:
        return el("p", none, class_="none")
    counts: dict[tuple[str, str], int] = {}
    for each in found:
        counts[each.target, each.access] = counts.get((each.target, each.access), 0) + each.count
    return el("ul", (
        el("li", el("span", f"{count} times", class_="count") if count > 1 else None, el("code", target),
           el("span", f"  {access}", class_="by"))
        for (target, access), count in counts.items()
    ))  # fmt: skip


def _command(run: Run, number: int) -> Markup:
    command = run.commands[number]
    where = el("div", f"in {command.cwd}. {outcome(command)}", class_="by")
    return el("li", el("code", " ".join(command.argv)), where)


def _footer(run: Run) -> Markup:
    told = f"Drawn from {run.records} records of the audit stream. Run {run.id}"
    return el(
        "footer",
        f"{told}; plan {run.digest or 'none'}. `pysandbox audit verify` tells whether they are what was written.",
    )
