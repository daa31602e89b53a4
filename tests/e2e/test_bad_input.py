"""Whatever is wrong with what was asked: a typed error that names the field or the step, the errno and the path.

That nothing is left behind is checked twice: by the leak guard around every test, and by a good command after each.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage, Policy, PolicyError, StartError, testing
from pysandbox.errors import SandboxPathMissing


@pytest.fixture(autouse=True)
def a_good_command_works_afterwards() -> Iterator[None]:
    yield
    assert pysandbox.run(["/bin/echo", "fine"]).stdout == "fine\n"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"allow": 5}, "filesystem.allow"),
        ({"allow": [5]}, "filesystem.allow"),
        ({"allow": "/usr"}, "filesystem.allow"),
        ({"max_pids": "many"}, "process.max_pids"),
        ({"max_pids": 0}, "process.max_pids"),
        ({"max_pids": True}, "process.max_pids"),
        ({"memory_mb": 15}, "resources.memory_mb"),
        ({"walltime_sec": -1}, "resources.walltime_sec"),
        ({"walltime_sec": float("nan")}, "resources.walltime_sec"),
        ({"egress": "everything"}, "network.egress"),
        ({"isolation": "maybe"}, "isolation"),
        ({"run_as": "admin"}, "process.run_as"),
        ({"seccomp": "none"}, "syscalls.profile"),
        ({"allow_syscalls": ("no_such_call",)}, "syscalls.allow_extra"),
        ({"env": (("A=B", "c"),)}, "process.env"),
        ({"env": (("A", "c\0d"),)}, "process.env"),
        ({"allow": ["/usr\0/lib"]}, "filesystem.allow"),
        ({"allow": [""]}, "filesystem.allow"),
        ({"egress": "direct"}, "network.egress"),
    ],
    ids=lambda each: repr(each)[:60],
)  # fmt: skip
def test_a_wrong_option_is_named_by_its_toml_key(options: dict[str, Any], key: str) -> None:
    with pytest.raises(PolicyError) as caught:
        pysandbox.run(["/bin/true"], policy=Policy(**options))

    assert caught.value.key is not None and caught.value.key.startswith(key)


def test_an_unknown_key_of_a_file_is_named_with_its_line_and_a_suggestion() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.parse('strict = true\n\n[filesystem]\nalow = ["/usr"]\n', file="mine.toml")

    assert (caught.value.file, caught.value.line) == ("mine.toml", 4)
    assert "alow" in str(caught.value) and "allow" in (caught.value.suggestion or "")


def test_an_unknown_keyword_is_named() -> None:
    with pytest.raises((TypeError, PolicyError), match="alow"):
        Policy(alow=["/usr"])  # type: ignore[call-arg]


@pytest.mark.parametrize("access", ["allow", "allow_write"])
def test_a_missing_path_is_named(tmp_path: Path, access: str) -> None:
    gone = str(tmp_path / "gone")
    options: dict[str, Any] = {access: [gone]}

    with pytest.raises(SandboxPathMissing, match="gone") as caught:
        pysandbox.run(["/bin/true"], policy=Policy(**options))

    assert caught.value.key == f"filesystem.{access}"


def test_a_path_that_escapes_the_project_is_refused(tmp_path: Path) -> None:
    from pysandbox.policy.cage_block import named_paths

    block = {
        "kind": "enabled", "fs": [{"mode": "ro", "path": "../outside"}], "net": {"allow": []}, "state": "ephemeral",
        "seccomp": "default", "limits": {"memory_mb": 64, "cpu_shares": 100, "pids": 10, "walltime_sec": 10},
    }  # fmt: skip
    with pytest.raises(pysandbox.SandboxCompileError, match="outside"):
        named_paths(block, str(tmp_path))


@pytest.fixture
def scripts(project: Path) -> Path:
    (project / "plain").write_text("#!/bin/sh\n")
    (project / "directory").mkdir()
    for name, text in (("lost", "#!/no/such/interpreter\n"), ("bare", "echo no interpreter line\n"), ("empty", "")):
        (project / name).write_text(text)
        (project / name).chmod(0o755)
    return project


@pytest.mark.parametrize(
    ("name", "number"),
    [("gone", errno.ENOENT), ("plain", errno.EACCES), ("directory", errno.EACCES), ("lost", errno.ENOENT),
     ("bare", errno.ENOEXEC), ("empty", errno.ENOEXEC), ("plain/below", errno.ENOTDIR)],
)  # fmt: skip
@pytest.mark.parametrize("session", [False, True], ids=["one command", "session"])
def test_a_program_that_cannot_be_executed(scripts: Path, name: str, number: int, session: bool) -> None:
    program = str(scripts / name)
    cage = Cage(Policy(workdir="read"), cwd=str(scripts))

    with pytest.raises(StartError) as caught:
        if session:
            with cage:
                cage.run([program])
        else:
            cage.run([program])

    assert (caught.value.step, caught.value.errno, caught.value.filename) == ("exec", number, program)


def test_a_program_that_is_on_no_path_is_named() -> None:
    with pytest.raises(StartError) as caught:
        pysandbox.run(["no-such-program-anywhere"])

    assert (caught.value.step, caught.value.errno) == ("exec", errno.ENOENT)
    assert "no-such-program-anywhere" in str(caught.value)


def test_a_failed_start_does_not_end_the_session(scripts: Path) -> None:
    with Cage(Policy(workdir="read"), cwd=str(scripts)) as cage:
        for _ in range(3):
            with pytest.raises(StartError):
                cage.run([str(scripts / "gone")])

        assert cage.run(["/bin/echo", "on"]).stdout == "on\n"


@pytest.mark.parametrize(("place", "number"), [("/home/nobody/here", errno.ENOENT), ("/etc/hosts", errno.ENOTDIR)])
def test_a_working_directory_outside_the_view(place: str, number: int) -> None:
    with pytest.raises(StartError) as caught:
        pysandbox.run(["/bin/true"], cwd=place)

    assert (caught.value.step, caught.value.errno, caught.value.filename) == ("chdir", number, place)


def test_a_host_directory_that_was_not_granted_is_no_working_directory(tmp_path: Path) -> None:
    with pytest.raises(StartError) as caught:
        pysandbox.run(["/bin/true"], cwd=str(tmp_path))

    assert (caught.value.step, caught.value.errno) == ("chdir", errno.ENOENT)


@pytest.mark.parametrize(
    "argv",
    [["/bin/true", "x" * 200_000], ["/bin/true", *["x" * 100_000] * 40], ["/bin/true", *["x"] * 1_000_000]],
    ids=["one long argument", "much in all", "very many"],
)  # fmt: skip
def test_more_arguments_than_the_kernel_takes(argv: list[str]) -> None:
    with pytest.raises(StartError) as caught:
        pysandbox.run(argv)

    assert (caught.value.step, caught.value.errno) == ("exec", errno.E2BIG)


def test_arguments_close_to_the_limit_arrive_whole() -> None:
    result = pysandbox.run(["/usr/bin/printf", "%s", *["x" * 100_000] * 10])

    assert len(str(result.stdout)) == 1_000_000


def test_a_hundred_thousand_variables_arrive_or_are_too_many() -> None:
    many = {f"V{number}": "" for number in range(100_000)}
    try:
        result = pysandbox.run(["/usr/bin/env", "-0"], env=many, timeout=60)
    except StartError as error:
        assert (error.step, error.errno) == ("exec", errno.E2BIG)
        return

    names = {line.partition("=")[0] for line in str(result.stdout).split("\0")}
    assert set(many) <= names


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ({"argv": []}, "argv"),
        ({"argv": "/bin/true"}, "argv"),
        ({"argv": ["/bin/true", 5]}, "argv"),
        ({"argv": ["/bin/true", "a\0b"]}, "argv"),
        ({"argv": ["/bin/tr\0ue"]}, "argv"),
        ({"argv": [""]}, "argv"),
        ({"argv": ["/bin/true"], "env": {"A\0": "b"}}, "env"),
        ({"argv": ["/bin/true"], "env": {"A": "b\0c"}}, "env"),
        ({"argv": ["/bin/true"], "env": {"A=B": "c"}}, "env"),
        ({"argv": ["/bin/true"], "env": {"": "c"}}, "env"),
        ({"argv": ["/bin/true"], "env": {"A": 5}}, "env"),
        ({"argv": ["/bin/true"], "cwd": "/tmp\0/x"}, "cwd"),
        ({"argv": ["/bin/true"], "timeout": "soon"}, "timeout"),
        ({"argv": ["/bin/true"], "pass_fds": (10_000,)}, "pass_fds"),
        ({"argv": ["/bin/true"], "pass_fds": (-1,)}, "pass_fds"),
        ({"argv": ["/bin/cat"], "input": 5}, "input"),
    ],
    ids=lambda each: repr(each)[:60],
)  # fmt: skip
def test_a_wrong_argument_is_named(call: dict[str, Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError, OSError), match=field):
        pysandbox.run(**call)


def test_a_policy_that_is_not_one_is_refused() -> None:
    with pytest.raises((TypeError, PolicyError), match="policy"):
        pysandbox.run(["/bin/true"], policy={"allow": ["/usr"]})  # type: ignore[arg-type]


def test_a_closed_cage_says_so() -> None:
    with Cage() as cage:
        pass

    with pytest.raises(pysandbox.CageClosedError):
        cage.run(["/bin/true"])


def test_fifty_failures_leave_no_descriptor() -> None:
    def failures(count: int) -> int:
        for _ in range(count):
            with pytest.raises(StartError):
                pysandbox.run(["/no/such/program"])
        testing.drain()
        return len(os.listdir("/proc/self/fd"))

    assert failures(50) == failures(1)


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("option", ["allow", "allow_write"])
def test_a_path_that_the_caller_may_not_look_for_is_not_said_to_be_absent(
    tmp_path: Path, isolation: str, option: str
) -> None:
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o600)
    if os.access(closed, os.X_OK):
        pytest.skip("whoever runs this may search everything")
    policy: dict[str, Any] = {"isolation": isolation, "run_as": "self", option: [f"{closed}/inner"]}
    try:
        with pytest.raises(SandboxPathMissing, match=f"'{closed}/inner.* cannot be looked at: .*'{closed}'"):
            Cage(Policy(**policy)).run(["/bin/true"])
    finally:
        closed.chmod(0o700)


INNER = """
import sys
sys.path.insert(0, {0!r})
import pysandbox
try: pysandbox.run(["/bin/true"], policy=pysandbox.Policy(isolation={1!r}, run_as="self"))
except pysandbox.UnsupportedError as error: print(error.feature, error)
"""


@pytest.mark.guest
@pytest.mark.landlock(6)
@pytest.mark.parametrize(
    ("outer", "inner", "told"),
    [
        ("landlock", "landlock", "proc this process may not read /proc/"),
        ("landlock", "full", "user_namespaces this program is in a cage itself"),
        ("full", "full", "user_namespaces this program is in a cage itself"),
    ],
)
def test_a_cage_inside_a_cage_says_what_it_is(outer: str, inner: str, told: str) -> None:
    """And advises no isolation that says then that it cannot be either."""
    shown = {os.path.realpath(each) for each in sys.path if os.path.isdir(each)}
    policy = Policy(isolation=outer, run_as="self", allow=[*shown, sys.prefix])
    program = INNER.format(os.path.dirname(os.path.dirname(pysandbox.__file__)), inner)
    result = pysandbox.run([sys.executable, "-c", program], policy=policy)
    assert result.stdout.startswith(told), result.stderr
    assert "no cage is made inside of one; start both from outside" in result.stdout
    assert "isolation" not in result.stdout.replace('of isolation = "landlock"', "")
