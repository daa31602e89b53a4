"""Machines that are not as developers' are: a cage works there, or a line says what is wrong, where, and what to do.

Each is made by an unprivileged user: with a user namespace of its own, in which one may map ids, mount and take limits.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from _support.kept_runs import COMMAND, LIMIT, Home
from kernel.inject import ALLOW_ALL, EQUAL, ERRNO, LOAD, NUMBERS, RETURN, install, instruction
from pysandbox import Cage, Policy, StartError

ROOT = ("unshare", "--user", "--map-root-user", "--mount")
LARGE = 3_000_123_456  # an id as directory services give them; more than a signed number of 32 bits holds
LARGEST = 2**32 - 2


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def ran(
    home: Home, *command: str, prepare: Callable[[], object] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=home.project, env=home.env | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT, preexec_fn=prepare,
    )  # fmt: skip


# ---- ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [LARGE, LARGEST])
def test_ids_of_32_bits_are_those_of_the_cage(home: Home, number: int) -> None:
    space = ("unshare", "--user", f"--map-user={number}", f"--map-group={number}")
    script = f"for i in 1 2 3; do {COMMAND} run -- sh -c 'id -u; id -g; echo > made'; done"  # the last from a kept plan
    done = ran(home, *space, "sh", "-c", script)
    assert (done.returncode, done.stdout.split()) == (0, [str(number)] * 6), done.stderr
    assert (home.project / "made").stat().st_uid == os.getuid()


# ---- places that take nothing --------------------------------------------------------------------------------

APART = ("run", "--workdir", "cow")


@pytest.mark.parametrize("ending", [(), ("--on-exit", "commit"), ("--on-exit", "keep")], ids=str)
def test_no_work_is_begun_that_could_not_be_kept(home: Home, ending: tuple[str, ...]) -> None:
    begun = home.project.parent / "begun"
    begun.mkdir()
    command = (COMMAND, *APART, *ending, "--allow-write", str(begun), "--", "sh", "-c", f"echo > {begun}/here")
    state = home.project.parent / "state"
    state.mkdir(mode=0o500)
    refused = ran(home, *command, XDG_STATE_HOME=str(state), PYSANDBOX_AUDIT="off")
    assert refused.returncode == 125 and not os.listdir(begun)
    assert f"{state}/pysandbox/workspaces" in refused.stderr and "would be lost" in refused.stderr
    assert "set XDG_STATE_HOME" in refused.stderr
    state.chmod(0o700)
    control = ran(home, *command, XDG_STATE_HOME=str(state), PYSANDBOX_AUDIT="off")
    assert control.returncode == 0 and os.listdir(begun) == ["here"], control.stderr


def test_what_nobody_would_keep_needs_no_place(home: Home) -> None:
    state = home.project.parent / "state"
    state.mkdir(mode=0o500)
    for forgets in (("--dry-run",), ("--on-exit", "abort", "--on-error", "abort")):
        done = ran(home, COMMAND, *APART, *forgets, "--", "sh", "-c", "echo > new", XDG_STATE_HOME=str(state))
        assert done.returncode == 0 and not os.listdir(home.project), done.stderr


def test_a_program_is_told_before_its_command_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, state = tmp_path / "tree", tmp_path / "state"
    tree.mkdir()
    state.mkdir(mode=0o500)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    policy = Policy(workdir="cow", on_exit="keep")
    with pytest.raises(StartError, match="would be lost") as refused:
        Cage(policy, cwd=str(tree)).run(["sh", "-c", "echo > new"])
    assert (refused.value.step, refused.value.filename) == ("upper", f"{state}/pysandbox/workspaces")


def test_what_there_is_no_room_for_is_told_by_its_whole_path(home: Home) -> None:
    state = home.project.parent / "state"
    state.mkdir()
    writes = "sh -c 'for i in 1 2 3 4 5 6 7; do echo $i >$i; done'"
    run = f"{COMMAND} {' '.join(APART)} --on-exit keep -- {writes}"
    script = f"mount -t tmpfs -o nr_inodes=6,mode=700 none {state} && exec {run}"
    done = ran(home, *ROOT, "sh", "-c", script, XDG_STATE_HOME=str(state), PYSANDBOX_AUDIT="off")
    assert done.returncode == 125 and "7 changes" in done.stderr and "nothing was changed" not in done.stderr
    assert f"'{state}/pysandbox/workspaces/" in done.stderr and "make room there" in done.stderr, done.stderr


def test_a_record_that_is_not_whole_is_none_and_its_command_does_not_stay(home: Home) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    runtime = Path(home.env["XDG_RUNTIME_DIR"]) / "pysandbox"
    command = (COMMAND, "run", "--detach", "--", "sleep", "1000")
    refused = ran(home, *command, prepare=few, PYSANDBOX_AUDIT="off")
    assert refused.returncode == 125 and "ulimit -f" in refused.stderr and str(runtime) in refused.stderr
    assert os.listdir(runtime) == []
    assert json.loads(ran(home, COMMAND, "ps", "--json").stdout) == []
    control = ran(home, *command, PYSANDBOX_AUDIT="off")
    assert control.returncode == 0
    ran(home, COMMAND, "kill", control.stdout.strip())
    ran(home, COMMAND, "attach", control.stdout.strip(), "--close")


def test_an_output_for_which_there_was_no_room_is_told_to_be_not_whole(home: Home) -> None:
    runtime = home.env["XDG_RUNTIME_DIR"]
    script = f"""mount -t tmpfs -o size=48k,mode=700 none {runtime}
        {COMMAND} run --detach -- sh -c 'seq 100000; exit 7' >id
        {COMMAND} logs --follow >shown; {COMMAND} attach --close >shown; echo $?
        {COMMAND} run --detach -- echo short >id; {COMMAND} logs -f; ls -A {runtime}/pysandbox/*.spool"""
    done = ran(home, *ROOT, "sh", "-c", script, PYSANDBOX_AUDIT="off")
    assert done.stderr.count("its output is not whole") == 2, done.stderr
    assert 0 < (home.project / "shown").stat().st_size < 48 << 10
    assert done.stdout.split() == ["7", "short", "outcome.json", "socket", "stderr", "stdout"]


def test_the_trail_says_what_to_do_for_its_own_reason(home: Home) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    home.keep("--", "true")
    for command in ((COMMAND, "run", "--", "true"), (sys.executable, "-P", "-m", "pysandbox", "run", "--", "true")):
        done = ran(home, *command, prepare=few)  # by the launcher, and by Python
        assert done.returncode == 125 and "raise the limit on the size of files" in done.stderr, done.stderr
        assert "free some space" not in done.stderr


def test_whatever_the_umask_is_nobody_else_writes_above_what_is_kept(home: Home) -> None:
    (home.project / "pysandbox.toml").write_text('[sandbox.a]\nrecipes = ["untrusted"]\ncommand = "true"\n')
    apart = f"{COMMAND} {' '.join(APART)} -- sh -c 'echo > new'"
    for script in (
        f"for i in 1 2 3; do {COMMAND} run -- true; done",
        apart,
        f"{COMMAND} recipe trust --yes pysandbox.toml",
    ):
        done = ran(home, "sh", "-c", f"umask 0; {script}")
        assert done.returncode == 0, done.stderr
    top = home.project.parent / "home"
    made = [each for each in top.rglob("*") if each.is_dir()]
    assert {"state", "audit", "workspaces", ".cache"} <= {each.name for each in made}
    assert [each for each in made if stat.S_IMODE(each.stat().st_mode) & 0o077] == []


def test_a_umask_that_takes_its_user_s_own_rights_is_named_and_leaves_nothing(home: Home) -> None:
    done = ran(home, "sh", "-c", f"umask 777; exec {COMMAND} {' '.join(APART)} -- true")
    assert done.returncode == 125 and "umask 022" in done.stderr, done.stderr
    assert os.listdir(home.project.parent / "home") == []


# ---- hosts that refuse ---------------------------------------------------------------------------------------


def test_a_proc_of_other_processes_is_not_passed_over_by_a_kept_plan(home: Home) -> None:
    run = f"{COMMAND} run -- echo in the cage"
    script = f"for i in 1 2 3; do {run} || exit 9; done; unshare --pid --fork --kill-child {run}; echo $?"
    done = ran(home, *ROOT, "sh", "-c", script)
    assert done.stdout.splitlines() == ["in the cage"] * 3 + ["125"]
    assert "/proc is that of another PID namespace" in done.stderr and "unshare --mount-proc" in done.stderr


def test_a_proc_that_is_read_only_is_named(home: Home) -> None:
    script = f"mount -o remount,bind,ro /proc && exec {COMMAND} run -- true"
    done = ran(home, *ROOT, "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
    assert done.returncode == 125 and "/proc is read-only" in done.stderr, done.stderr


def test_where_nothing_is_known_to_forbid_them_a_chroot_is_thought_of(home: Home) -> None:
    script = f"mount --rbind / /mnt && exec chroot /mnt sh -c 'cd {home.project} && exec {COMMAND} run -- true'"
    done = ran(home, *ROOT, "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
    assert done.returncode == 125 and "in a chroot" in done.stderr and "pivot_root" in done.stderr, done.stderr


REFUSED_CALLS = ("pivot_root", "close_range", "openat2")


@pytest.mark.parametrize("call", REFUSED_CALLS)
def test_check_tries_a_cage_and_does_not_say_that_one_can_run_where_none_can(home: Home, call: str) -> None:
    """Its rows ask for what is known to be missing somewhere; a filter may refuse anything."""
    told = ran(home, COMMAND, "check", "--json")
    assert (told.returncode, json.loads(told.stdout)["trial"]) == (0, "passed")
    refuse = f"from test_odd_hosts import refuse; refuse({call!r})"
    environment = {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), str(Path(__file__).parent.parent)))}
    for words, wanted in ((["check"], "one was tried and failed"), (["run", "--", "true"], "a filter of system calls")):
        script = f"{refuse}; import os; os.execv({COMMAND!r}, {['pysandbox', *words]!r})"
        done = ran(home, sys.executable, "-c", script, **environment)
        assert wanted in done.stdout + done.stderr, done.stdout + done.stderr
        assert done.returncode in (1, 125)


def refuse(call: str) -> None:
    """From here on, in this process, as a call that the kernel has not."""
    import errno

    from _support.settings import refused

    install(refused(errno.ENOSYS, call) + ALLOW_ALL)


def test_a_directory_that_may_not_be_read_is_no_copy_on_write_tree(home: Home) -> None:
    home.project.chmod(0o300)
    try:
        done = ran(home, COMMAND, *APART, "--", "true")
    finally:
        home.project.chmod(0o700)
    assert done.returncode == 125 and "may not be read by you" in done.stderr, done.stderr


# ---- a container's filter --------------------------------------------------------------------------------------------

NO_CLONE3 = (
    instruction(LOAD, 0)
    + instruction(EQUAL, NUMBERS["clone3"], 1)
    + instruction(RETURN, ERRNO | errno.EPERM)
    + ALLOW_ALL
)  # as Docker's before 20.10.10 had it: libc goes on with clone where the answer is ENOSYS alone


@pytest.mark.parametrize("flags", [(), ("--isolation", "landlock"), ("--host", "example.com")], ids=str)
def test_a_filter_that_keeps_a_program_from_threads_is_told(home: Home, flags: tuple[str, ...]) -> None:
    """The control: the same filter with the answer of a kernel that has no such call. A launcher whose C library takes
    the older call whatever the answer is (musl) gets its threads all the same."""
    absent = NO_CLONE3.replace(instruction(RETURN, ERRNO | errno.EPERM), instruction(RETURN, ERRNO | errno.ENOSYS))
    for filtered, works in ((absent, True), (NO_CLONE3, False)):
        done = ran(home, "sh", "-c", f"{COMMAND} run {' '.join(flags)} -- echo hi", prepare=partial(install, filtered))
        if works:
            assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
        elif (done.returncode, done.stdout, done.stderr) != (0, "hi\n", ""):
            assert done.returncode == 125 and "refuses clone3" in done.stderr and "internal" not in done.stderr
