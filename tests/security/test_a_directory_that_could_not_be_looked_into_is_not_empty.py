"""Claim: where the host is short of descriptors or of memory, a directory that cannot be looked into is not taken for
one that holds nothing: no command runs with a repository or an editor's directory in it that nobody has guarded.

A cage that keeps many files open (ENFILE is the whole machine's), or a program with many of its own, would choose the
moment. A filter answers the opendir(3) of whoever looks, and nothing else.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import pysandbox
from _support.kept_runs import Home
from kernel.inject import ERRNO, answering, under
from pysandbox.errors import StartError
from pysandbox.probe.linked import LinkedSearch
from pysandbox.probe.paths import stat_all
from pysandbox.probe.small_file import read_small

from .conftest import Ground
from .harness import policy

WRITE = ["/bin/sh", "-c", 'echo "#" >>lib/.envrc; echo ran']
OPENDIR = os.O_NONBLOCK | os.O_DIRECTORY | os.O_CLOEXEC
READ_SMALL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # probe.small_file
SHORTAGES = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def short_of(number: int, flags: int = OPENDIR) -> bytes:
    return answering(ERRNO | number, "openat", {2: flags})


def project_file(directory: Path) -> Path:
    directory.mkdir()
    (directory / ".envrc").touch()
    return directory / ".envrc"


def ran(project: Path) -> str:
    """What a command says that tries to write to it."""
    return str(pysandbox.run(WRITE, policy=policy(allow_write=[str(project)]), cwd=project, timeout=60).stdout)


@pytest.fixture
def ground(ground: Ground) -> Ground:
    """All that a run imports is there before: a module cannot be looked for, either."""
    pysandbox.run(["/bin/true"], policy=policy(allow_write=[str(ground.outside)]), cwd=ground.outside)
    return ground


@pytest.mark.parametrize("number", SHORTAGES, ids=errno.errorcode.get)
def test_a_program_whose_host_is_short_of_something_is_told(ground: Ground, number: int) -> None:
    file = project_file(ground.inside / "lib")
    with pytest.raises(StartError) as told:
        under(short_of(number), lambda: ran(ground.inside))
    assert told.value.errno == number and told.value.filename and told.value.hint
    assert ran(ground.inside) == "ran\n", "the control: a moment later it is seen"
    assert file.read_text() == ""


@pytest.mark.parametrize("number", SHORTAGES, ids=errno.errorcode.get)
def test_links_and_settings_that_name_what_is_guarded_are_not_missed(ground: Ground, number: int) -> None:
    (config := ground.inside / "config").write_text("[core]")
    links = LinkedSearch(str(ground.inside), lambda path: stat_all([path], cwd="/", home="/")[path])
    with pytest.raises(StartError):
        under(short_of(number), lambda: list(links.of([(str(ground.inside), "git")])))
    with pytest.raises(StartError):
        under(short_of(number, READ_SMALL), lambda: read_small(str(config), 4096))
    assert read_small(str(config), 4096)[0] == "[core]", "the control"


def test_one_that_may_not_be_read_keeps_no_command_from_running(ground: Ground) -> None:
    assert project_file(ground.inside / "lib").exists()
    assert under(short_of(errno.EACCES), lambda: ran(ground.inside)) == "ran\n"


@pytest.mark.parametrize("number", SHORTAGES, ids=errno.errorcode.get)
def test_a_kept_plan_is_not_taken_for_one_that_holds(tmp_path: Path, number: int) -> None:
    home = Home(tmp_path)
    (home.project / "lib").mkdir()
    file = home.project / "lib" / ".envrc"
    command = ("--allow-write", ".", "--", "/bin/sh", "-c", "[ ! -e lib/.envrc ] || echo '#' >>lib/.envrc; echo ran")
    assert home.until_warm(*command).stdout == b"ran\n"
    assert under(short_of(number), lambda: home.run(*command)).warm, "the control: nothing has changed"

    file.touch()
    in_want = under(short_of(number), lambda: home.run(*command))
    assert in_want.stdout == b"" and in_want.code and file.read_text() == "", in_want
    again = home.run(*command)
    assert again.stdout == b"ran\n" and file.read_text() == "", "it is guarded where it is seen"
