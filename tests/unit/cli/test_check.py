"""`pysandbox check`: the table, the document and the exit code, for pretended hosts."""

from __future__ import annotations

import errno
import json

import pytest

from pysandbox.cli import check, console
from pysandbox.probe.features import FEATURES, Host


def host(*refused: str) -> Host:
    return Host(
        root="/absent-root",
        release="6.18.1",
        probe=lambda name: errno.EPERM if name in refused else 0,
        landlock_abi=lambda: 7,
        landlock_errata=lambda: 7,
    )


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(("refused", "code"), [("IPC_NS", 0), ("NET_NS", 1), ("PROC", 1), ("USER_NS", 1)])
def test_the_exit_code_says_whether_cages_can_run(
    flags: list[str], refused: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(flags, False, host(refused)) == code
    assert capsys.readouterr().err == ""


def test_the_table_explains_what_is_missing_and_only_that(capsys: pytest.CaptureFixture[str]) -> None:
    check.main([], False, host("NET_NS"))
    printed = capsys.readouterr().out
    explained = {row.name for row in FEATURES if row.fix in printed}
    assert "network_namespaces" in explained
    assert "user_namespaces" not in explained
    assert all(f"  {row.name} " in printed for row in FEATURES)


def test_verbose_explains_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    check.main(["-v"], False, host())
    printed = capsys.readouterr().out
    assert all(row.without in printed and row.fix in printed for row in FEATURES)


def test_the_table_has_no_colour_away_from_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    check.main([], False, host())
    assert "\x1b" not in capsys.readouterr().out


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colour_unless_the_user_says_no(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    painted = console.Palette(Terminal()).paint(console.RED, "x")  # type: ignore[arg-type]
    assert painted == ("\x1b[31mx\x1b[0m" if coloured else "x")


def test_the_document_has_a_row_for_every_feature(capsys: pytest.CaptureFixture[str]) -> None:
    check.main(["--json"], False, host("OVERLAY"))
    document = json.loads(capsys.readouterr().out)
    assert (document["minimum_met"], document["mac"], document["kernel"]) == (True, "none", "6.18.1")
    assert document["network_helper"] == "not needed"
    rows = {row["name"]: row for row in document["features"]}
    assert rows.keys() == {row.name for row in FEATURES}
    assert (rows["overlayfs"]["ok"], rows["overlayfs"]["since"], rows["tmpfs"]["ok"]) == (False, "5.11", True)
