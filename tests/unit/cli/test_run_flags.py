"""`pysandbox run`: flags of other programs are answered with ours, and flags that exclude each other are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pysandbox.cli import run
from pysandbox.cli.flags import policy_values
from pysandbox.cli.main import main as pysandbox_main

Cage = Any  # FakeCage of conftest.py


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


# ---- modes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flag", "meant"), [
    ("--profile", "--seccomp PROFILE"), ("--config", "-r FILE"),
    ("--ro=/opt", "--allow PATH"), ("--learn", "--monitor"),
    ("--net=none", "--host NAME"), ("--volume", "--allow-write PATH"), ("--ro-bind", "--allow PATH"),
    ("-u", "--run-as"),
])  # fmt: skip
def test_a_flag_of_another_program_is_refused_with_the_one_that_says_the_same(
    cage: Cage, capsys: pytest.CaptureFixture[str], flag: str, meant: str
) -> None:
    assert run.main([flag, "x", "--", "ls"], False, cage) == 125
    (line,) = lines(capsys)
    assert line.startswith(f"pysandbox: error: unknown flag '{flag.partition('=')[0]}': ") and meant in line
    assert cage.argv == []


def test_a_flag_that_is_like_no_other_is_given_no_advice(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--frobnicate", "--", "ls"], False, cage) == 125
    assert lines(capsys) == ["pysandbox: error: unknown flag '--frobnicate'; see: pysandbox run --help"]


@pytest.mark.parametrize(("word", "flag"), [
    ("/src:/work", "--allow-write /src"), ("./src:/work:ro", "--allow ./src"), ("named:/data", "--allow-write named"),
])  # fmt: skip
def test_a_volume_of_docker_is_never_the_command(
    cage: Cage, capsys: pytest.CaptureFixture[str], word: str, flag: str
) -> None:
    for arguments in (["-v", word, "--", "ls"], ["-v", word, "ls"]):
        assert run.main(arguments, False, cage) == 125
        assert lines(capsys)[-1].count(f"{flag};") == 1
    assert cage.argv == []


@pytest.mark.parametrize(("flags", "field", "value"), [
    (["-m", "512m"], "memory_mb", 512), (["--memory=2g"], "memory_mb", 2048), (["-m", "1073741824"], "memory_mb", 1024),
    (["-m", "64MiB"], "memory_mb", 64), (["--cpus", "1.5"], "cpu_percent", 150), (["--pids-limit=64"], "max_pids", 64),
    (["-e", "A=b=c"], "env", (("A", "b=c"),)), (["-e", "LANG", "--env=TZ"], "env_passthrough", ("LANG", "TZ")),
    (["--rm", "-it", "-p", "8080:80"], "ports", ("8080:80",)),
])  # fmt: skip
def test_what_docker_means_by_a_flag_is_meant(flags: list[str], field: str, value: object) -> None:
    namespace, argv = run.read_arguments([*flags, "--", "ls", "-m", "1"])
    assert (policy_values(namespace), argv) == ({field: value}, ["ls", "-m", "1"])


@pytest.mark.parametrize(("flags", "told"), [
    (["-m", "512"], "did you mean 512m?"), (["-m", "1k"], "1024 bytes"), (["-m", "lots"], "not a size"),
    (["--cpus", "0"], "not a number of processors"), (["-e", "=b"], "nor the NAME of a variable"),
    (["--workdir", "/tmp"], "begins is -w DIR"),
])  # fmt: skip
def test_what_docker_s_flags_cannot_hold_is_told(
    cage: Cage, capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    assert run.main([*flags, "--", "ls"], False, cage) == 125
    assert told in lines(capsys)[-1] and cage.argv == []


def test_a_port_is_refused_where_there_is_no_network_to_publish_it_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSANDBOX_AUDIT", "off")
    flags = ["-p", "8080:80", "--isolation", "landlock", "--run-as", "self"]
    assert pysandbox_main(["run", *flags, "--", "ls"]) == 125
    (line,) = lines(capsys)
    assert "network.ports" in line


@pytest.mark.parametrize("flags", [["--monitor", "-s"], ["-r", "s.toml", "--monitor"], ["-r", "m.toml", "-s"],
                                   ["-r", "m.toml", "-r", "s.toml"]])  # fmt: skip
def test_monitor_and_strict_exclude_each_other_wherever_they_were_said(
    cage: Cage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("monitor", "strict"):
        (tmp_path / f"{name[0]}.toml").write_text(f"{name} = true\n")
        assert run.main(["-r", f"{name[0]}.toml", "--", "ls"], False, cage) == 0  # the control
    capsys.readouterr()
    cage.argv.clear()
    assert run.main([*flags, "--", "ls"], False, cage) == 125
    (line,) = lines(capsys)
    assert "monitor" in line and "strict" in line
    assert cage.argv == []
