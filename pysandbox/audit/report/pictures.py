"""The pictures of a report, as inline SVG: the cage with what could pass its walls, the timeline, limits against use.

A picture says what was granted and what was recorded; what nobody observed has no mark in it, and the text beside it
says so. Colours are classes (style.py), so that one picture serves light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from pysandbox.audit.report.markup import Markup, el, shortened
from pysandbox.audit.runs import CommandRun, Run
from pysandbox.audit.tell import refusals
from pysandbox.shapes import NamedTuple

WIDTH = 960
ROW = 34
ROWS = 7  # of one side of the cage
LETTERS = 33  # of one label of it
COLUMNS = 3  # of what was refused


class Chip(NamedTuple):
    text: str
    kind: str  # g(ranted), b(locked), n(etwork), "" for a remark


# ---- the cage --------------------------------------------------------------------------------------------------


def cage_picture(run: Run) -> Markup:
    """Left what it could read, right what it could write and reach, below what it was refused."""
    reads = _chips([*run.grants.get("base", []), *run.grants.get("read", [])], "g")
    writes = _chips(run.grants.get("write", []), "g", none="nothing of the host")
    reads += [Chip(f"hidden  {each}", "b") for each in (run.grants.get("deny", []) + run.grants.get("mask", []))[:ROWS]]
    refused = _chips([f"{each.kind}  {each.target}" for each in refusals(run)], "b", none="no refusal recorded")
    if not run.caged:
        reads, writes = [Chip("everything that its caller may", "b")], [Chip("everything that its caller may", "b")]
    net = _network(run)
    tall = max(len(reads), len(writes) + 2, 4) * ROW
    bottom = 52 + tall
    height = bottom + 62 + -(-len(refused) // COLUMNS) * ROW
    parts = [
        el("text", "COULD READ", x=0, y=22, class_="head"),
        el("text", "COULD WRITE", x=690, y=22, class_="head"),
        *_side(reads, 0, 40, "in"),
        *_side(writes, 690, 40, "out"),
        el("text", "COULD REACH", x=690, y=40 + len(writes) * ROW + 22, class_="head"),
        *_side([net], 690, 40 + len(writes) * ROW + 34, "out"),
        el("rect", x=360, y=12, width=240, height=bottom - 12, rx=16, class_="wall" if run.caged else "wall open"),
        *_inside(run, bottom),
        *_turned_away(refused, bottom),
    ]
    return _svg("The cage and what could pass its walls", height, parts)


def _network(run: Run) -> Chip:
    asked = run.grants.get("network", [])
    if not run.caged or "direct" in asked:
        return Chip("the host's own network", "b")
    named = [each for each in asked if each != "none"]
    return Chip(", ".join(named), "n") if named else Chip("no network", "")


def _chips(texts: Sequence[str], kind: str, none: str = "nothing more") -> list[Chip]:
    shown = [Chip(each, kind) for each in texts[:ROWS]]
    if len(texts) > ROWS:
        shown[-1] = Chip(f"and {len(texts) - ROWS + 1} more", "")
    return shown or [Chip(none, "")]


def _side(chips: Sequence[Chip], x: int, y: int, way: str) -> Iterable[Markup]:
    for number, chip in enumerate(chips):
        top = y + number * ROW
        middle = top + 13
        yield _chip(chip, x, top)
        here, wall = (270, 360) if way == "in" else (690, 600)
        kind = chip.kind or "off"
        yield el("line", x1=here, y1=middle, x2=wall, y2=middle, class_=f"wire {kind}")
        if chip.kind in ("g", "n"):
            yield _tip((360, middle) if way == "in" else (686, middle), chip.kind)


def _tip(at: tuple[int, int], kind: str) -> Markup:
    x, y = at
    return el("path", d=f"M{x} {y}l-9 -5v10z", class_=f"tip {kind}")


def _chip(chip: Chip, x: int, y: int) -> Markup:
    return el(
        "g",
        el("title", chip.text),
        el("rect", x=x, y=y, width=270, height=26, rx=13, class_=f"chip {chip.kind}"),
        el("text", shortened(chip.text, LETTERS), x=x + 14, y=y + 17, class_=f"t {chip.kind}" if chip.kind else "say"),
    )


def _inside(run: Run, bottom: int) -> Iterable[Markup]:
    middle = (12 + bottom) // 2
    program = run.commands[0].argv[0] if run.commands and run.commands[0].argv else "nothing"
    more = f"and {len(run.commands) - 1} more" if len(run.commands) > 1 else ""
    words = "its own processes, /tmp, loopback" if run.caged else "NO CAGE"
    lines = (
        (program.rpartition("/")[2] or program, "title", -10),
        (more, "say", 12),
        (words, "say", 34 if more else 14),
    )
    for text, class_, down in lines:
        if text:
            length = 22 if class_ == "title" else 36
            shown = shortened(text, length)
            yield el("text", shown, x=480, y=middle + down, text_anchor="middle", class_=class_)


def _turned_away(refused: Sequence[Chip], bottom: int) -> Iterable[Markup]:
    """Each line leaves the cage and ends at its wall."""
    yield el("text", "WAS REFUSED", x=0, y=bottom + 42, class_="head")
    kind = refused[0].kind
    if kind:
        yield el("line", x1=480, y1=bottom - 26, x2=480, y2=bottom, class_="wire b")
        for x1, x2 in ((472, 488), (488, 472)):
            yield el("line", x1=x1, y1=bottom - 8, x2=x2, y2=bottom + 8, class_="cross")
    for number, chip in enumerate(refused):
        x, y = 345 * (number % COLUMNS), bottom + 54 + number // COLUMNS * ROW
        yield _chip(chip, x, y)


# ---- the timeline ----------------------------------------------------------------------------------------------

LANES = 24
LANE = 44


def timeline(run: Run) -> Markup:
    marks = [
        *((each.time, f"refused: {each.kind} {each.target}", "b") for each in run.refusals),
        *((each.time, f"{each.access}: {each.target}", "n") for each in run.contacts),
        *((time, f"limit: {limit}", "w") for time, limit, _ in run.violations),
    ]
    lanes = run.commands[:LANES]
    moments = [_seconds(each) for command in run.commands for each in (command.began, command.ended) if each]
    moments += [_seconds(time) for time, _, _ in marks]
    start, end = min(moments), max(moments)
    span = max(end - start, 0.001)

    def at(time: str) -> float:
        return (_seconds(time) - start) / span * WIDTH

    parts = [each for number, command in enumerate(lanes) for each in _lane(command, 8 + number * LANE, at)]
    floor = 12 + len(lanes) * LANE
    if len(run.commands) > LANES:
        parts.append(el("text", f"and {len(run.commands) - LANES} more commands", x=0, y=floor + 8, class_="say"))
        floor += 22
    if marks:
        floor += 14
        parts += [_mark(at(time), floor, text, kind) for time, text, kind in marks]
        floor += 18
    return _svg("What happened when", floor + 30, [*parts, *_axis(floor, span)])


def _lane(command: CommandRun, y: int, at: Callable[[str], float]) -> Iterable[Markup]:
    left = at(command.began)
    right = at(command.ended) if command.ended else float(WIDTH)
    kind = "bar" if command.exit_code == 0 else "bar alone" if command.exit_code is None else "bar near"
    if command.killed or command.failed:
        kind = "bar full"
    end = command.killed or command.failed or ("" if command.exit_code is None else f"exit {command.exit_code}")
    label = shortened(" ".join(command.argv), 96)
    yield el("text", label, x=0, y=y + 10)
    yield el("text", shortened(end or "no end recorded", 24), x=WIDTH, y=y + 10, text_anchor="end", class_="say")
    yield el("rect", x=0, y=y + 18, width=WIDTH, height=12, rx=6, class_="track")
    yield el(
        "g",
        el("title", f"{' '.join(command.argv)}: {command.began} to {command.ended or 'unknown'}"),
        el("rect", x=min(left, WIDTH - 4.0), y=y + 18, width=max(right - left, 4.0), height=12, rx=6, class_=kind),
    )


def _mark(x: float, y: int, text: str, kind: str) -> Markup:
    return el("g", el("title", text), el("circle", cx=min(max(x, 5.0), WIDTH - 5.0), cy=y, r=5, class_=f"tick {kind}"))


def _axis(y: int, span: float) -> Iterable[Markup]:
    yield el("line", x1=0, y1=y, x2=WIDTH, y2=y, class_="axis")
    for part, anchor in ((0, "start"), (1, "middle"), (2, "middle"), (3, "middle"), (4, "end")):
        text = f"{span * part / 4:.3f} s" if span < 10 else f"{span * part / 4:.1f} s"
        yield el("text", text, x=WIDTH * part / 4, y=y + 19, text_anchor=anchor, class_="say")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


# ---- limits against use ----------------------------------------------------------------------------------------


class Meter(NamedTuple):
    name: str
    used: float | None  # None: not observed
    limit: float | None
    unit: str
    remark: str = ""


def meters(run: Run) -> tuple[Meter, ...]:
    ended = [each for each in run.commands if each.duration_ms is not None]
    wall = max((each.duration_ms or 0 for each in ended), default=None)
    cpu = sum(each.user_ms + each.system_ms for each in ended) if ended else None
    memory = max((each.max_rss_kb for each in ended), default=None)
    limit = run.limits.get
    return (
        Meter("Wall time", None if wall is None else wall / 1000, limit("walltime_sec"), "s", "longest command"),
        Meter("CPU time", None if cpu is None else cpu / 1000, None, "s", "all commands together"),
        Meter("Memory", None if memory is None else memory / 1024, limit("memory_mb"), "MiB", "largest single process"),
        Meter("Processes", None, limit("max_pids"), "at once"),
    )


def limits_picture(run: Run) -> Markup:
    rows = meters(run)
    return _svg("Limits and what was used", len(rows) * 56, [
        each for number, row in enumerate(rows) for each in _meter(row, number * 56)
    ])  # fmt: skip


def _meter(row: Meter, y: int) -> Iterable[Markup]:
    used = "use not observed" if row.used is None else f"{row.used:,.4g} {row.unit}"
    limit = "no limit" if row.limit is None else f"limit {row.limit:,g} {row.unit}"
    remark = f"  ({row.remark})" if row.remark and row.used is not None else ""
    yield el("text", f"{row.name}{remark}", x=0, y=y + 16, class_="say")
    yield el("text", f"{used} · {limit}", x=WIDTH, y=y + 16, text_anchor="end")
    yield el("rect", x=0, y=y + 26, width=WIDTH, height=12, rx=6, class_="track")
    if row.used is not None and row.limit:
        share = min(row.used / row.limit, 1.0)
        kind = "bar full" if share >= 1 else "bar near" if share > 0.8 else "bar"
        yield el("rect", x=0, y=y + 26, width=max(share * WIDTH, 4.0), height=12, rx=6, class_=kind)


def _svg(title: str, height: int, parts: Iterable[Markup]) -> Markup:
    box = f"0 0 {WIDTH} {height}"
    return el("svg", el("title", title), parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")
