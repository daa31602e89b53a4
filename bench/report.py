"""Samples to figures, and figures to a table, a JSON file and a drawing. Measures nothing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape


@dataclass(frozen=True)
class Figure:
    """One subject on one host: milliseconds, and how many times the yardstick's median on that same host."""

    key: str
    label: str
    host: str
    median: float
    p10: float
    p90: float
    ratio: float
    samples: int


@dataclass(frozen=True)
class Report:
    machine: str
    kernel: str
    python: str
    user: str
    rounds: int
    hosts: tuple[str, ...]
    figures: tuple[Figure, ...]
    burst: float  # cages a second, back to back
    missing: tuple[str, ...]

    def of(self, host: str) -> list[Figure]:
        return [each for each in self.figures if each.host == host]


def figure(key: str, label: str, host: str, seconds: Sequence[float], yardstick: float) -> Figure:
    """`yardstick` is in seconds."""
    tenths = statistics.quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 9
    median = statistics.median(seconds)
    return Figure(key, label, host, median * 1e3, tenths[0] * 1e3, tenths[8] * 1e3, median / yardstick, len(seconds))


def percentiles(taken: Sequence[float]) -> str:
    """The median, the 99th percentile and the worst."""
    ordered = sorted(taken)
    return f"{statistics.median(ordered):8.2f} {ordered[int(0.99 * (len(ordered) - 1))]:8.1f} {ordered[-1]:8.1f}"


def as_json(report: Report) -> str:
    return json.dumps(asdict(report), indent=2) + "\n"


def as_markdown(report: Report) -> str:
    """Rows are subjects, columns hosts; the ratio is what travels between machines."""
    head = ["run `/bin/true` to its end"]
    for host in report.hosts:
        head += [f"{host}: median (p10-p90), ms", "ratio"]
    rows = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for first in report.of(report.hosts[0]):
        row = [first.label]
        for each in report.figures:
            if each.key == first.key:
                row += [f"{each.median:.2f} ({each.p10:.2f}-{each.p90:.2f})", f"{each.ratio:.2f}"]
        rows.append(row)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", f"Back to back, without waiting for the pool: {report.burst:.0f} cages a second."]
    lines += [f"Left out: {each}" for each in report.missing]
    lines += [
        "",
        f"{report.machine}, Linux {report.kernel}, Python {report.python}, {report.user}, {report.rounds} rounds.",
    ]
    return "\n".join(lines) + "\n"


BAR, GAP, LEFT, WIDTH, TOP = 18, 10, 270, 430, 44

STYLE = """\
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .note { fill: #57606a; font-size: 12px }
  .bar { fill: #8c959f } .ours { fill: #0969da } .span { stroke: #24292f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #8d96a0 }
    .bar { fill: #6e7681 } .ours { fill: #4493f8 } .span { stroke: #e6edf3 }
  }"""
OURS = frozenset(("warm", "session", "landlock", "cold"))


def as_svg(report: Report) -> str:
    """Bars of the first host, the median with its p10-p90 span; readable on a light and on a dark page."""
    figures = report.of(report.hosts[0])
    scale = WIDTH / max(each.p90 for each in figures)
    body = []
    for index, each in enumerate(figures):
        y = TOP + index * (BAR + GAP)
        kind = "bar ours" if each.key in OURS else "bar"
        middle, end = y + BAR / 2, LEFT + each.p90 * scale
        body += [
            f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{escape(each.label)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{each.median * scale:.1f}" height="{BAR}" rx="2"/>',
            f'<path class="span" d="M{LEFT + each.p10 * scale:.1f} {middle}H{end:.1f}"/>',
            f'<text x="{max(end, LEFT + each.median * scale) + 8:.1f}" y="{middle + 4}">'
            f"{each.median:.2f} ms, {each.ratio:.2f}x</text>",
        ]
    height = TOP + len(figures) * (BAR + GAP) + 10
    title = "Run /bin/true to its end: median, p10-p90"
    note = f"Linux {report.kernel}, {report.user}, {report.rounds} rounds, interleaved; x: times subprocess.run"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 130} {height}" role="img" '
        f'aria-label="{title}">\n<style>\n{STYLE}\n</style>\n<text x="10" y="16">{title}</text>\n'
        f'<text class="note" x="10" y="33">{escape(note)}</text>\n' + "\n".join(body) + "\n</svg>\n"
    )
