"""`run` is like subprocess.run, in text: input, output, time-outs with what came so far, exit codes and signals,
figures.
"""

from __future__ import annotations

import signal
import time

import pytest

import pysandbox
from pysandbox import Cage, CageTimeout, ExitError, Policy

pytestmark = pytest.mark.guest


def test_input_goes_in_and_output_comes_out() -> None:
    result = pysandbox.run(["/bin/sh", "-c", "tr a-z A-Z; echo oops >&2"], input="grüße\n")

    assert (result.stdout, result.stderr) == ("GRüßE\n", "oops\n")
    assert (result.ok, result.caged, result.truncated, result.reason, result.signal) == (
        True,
        True,
        False,
        "exited",
        None,
    )


def test_bytes_go_through_unchanged() -> None:
    every = bytes(range(256)) * 300

    result = pysandbox.run(["/bin/cat"], input=every, text=False)

    assert result.stdout == every


def test_text_that_is_not_utf_8_is_still_text() -> None:
    result = pysandbox.run(["/usr/bin/printf", r"a\377b"])

    assert isinstance(result.stdout, str)
    assert result.stdout[0] == "a" and result.stdout[-1] == "b"


def test_without_input_stdin_is_at_its_end() -> None:
    assert pysandbox.run(["/usr/bin/wc", "-c"], timeout=20).stdout.strip() == "0"


@pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 125, 126, 127, 128, 137, 255])
def test_every_exit_code_is_the_command_s_own(code: int) -> None:
    result = pysandbox.run(["/bin/sh", "-c", f"exit {code}"])

    assert (result.exit_code, result.returncode, result.ok, result.reason) == (code, code, code == 0, "exited")


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 15, 34, 64])
def test_every_signal_is_told_from_an_exit_code(number: int) -> None:
    died = pysandbox.run(["/bin/sh", "-c", f"kill -{number} $$"])
    exited = pysandbox.run(["/bin/sh", "-c", f"exit {128 + number}"])

    assert (died.exit_code, died.returncode, died.signal, died.reason) == (128 + number, -number, number, "signaled")
    assert (exited.exit_code, exited.returncode, exited.signal, exited.reason) == (
        128 + number,
        128 + number,
        None,
        "exited",
    )


def test_check_raises_with_the_result() -> None:
    with pytest.raises(ExitError, match="3") as caught:
        pysandbox.run(["/bin/sh", "-c", "echo before; exit 3"], check=True)

    assert caught.value.result.stdout == "before\n"
    assert pysandbox.run(["/bin/true"], check=True).ok


def test_a_timeout_carries_what_came_before_it() -> None:
    start = time.monotonic()
    with pytest.raises(CageTimeout) as caught:
        pysandbox.run(["/bin/sh", "-c", "echo out; echo error >&2; sleep 600"], timeout=0.5)

    assert time.monotonic() - start < 5
    result = caught.value.result
    assert (result.stdout, result.stderr, result.reason) == ("out\n", "error\n", "timeout")
    assert isinstance(caught.value, TimeoutError)


def test_a_timeout_ends_one_command_of_a_session() -> None:
    with Cage() as cage:
        with pytest.raises(CageTimeout):
            cage.run(["/bin/sleep", "600"], timeout=0.2)

        assert cage.run(["/bin/echo", "on"]).stdout == "on\n"
        assert "sleep" not in str(cage.run(["/bin/sh", "-c", "cat /proc/[0-9]*/comm"]).stdout)


def test_output_that_a_grandchild_holds_open_does_not_delay_the_result() -> None:
    start = time.monotonic()

    result = pysandbox.run(["/bin/sh", "-c", "sleep 600 & echo done"], timeout=30)

    assert result.stdout == "done\n"
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_output_is_kept_up_to_the_cap(kept: int) -> None:
    result = pysandbox.run(["/bin/sh", "-c", "head -c 3000000 /dev/zero"], policy=Policy(output_mb=kept), text=False)

    assert (len(result.stdout), result.truncated, result.exit_code) == (kept << 20, True, 0)


def test_figures_of_what_was_used() -> None:
    burn = "import time\nblock = bytearray(50_000_000)\nwhile time.process_time() < 0.3: pass\ntime.sleep(0.2)"

    result = pysandbox.run(["/usr/bin/python3", "-I", "-S", "-c", burn])

    assert 0.25 <= result.usage.user_time + result.usage.system_time <= result.duration + 0.1
    assert result.usage.max_rss_kb > 48_000
    assert 0.5 <= result.duration < 20


def test_figures_count_the_children_that_were_waited_for() -> None:
    burn = "/usr/bin/python3 -I -S -c 'import time\nwhile time.process_time() < 0.3: pass'; true"

    usage = pysandbox.run(["/bin/sh", "-c", burn]).usage

    assert usage.user_time + usage.system_time >= 0.25


def test_a_result_is_frozen() -> None:
    result = pysandbox.run(["/bin/true"])

    with pytest.raises(AttributeError):
        result.exit_code = 1  # type: ignore[misc]
    assert result.argv == ("/bin/true",)


def test_a_program_is_found_on_the_cage_s_path() -> None:
    assert pysandbox.run(["echo", "found"]).stdout == "found\n"
    assert pysandbox.run(["echo", "found"], env={"PATH": "/usr/bin"}).stdout == "found\n"


def test_env_adds_to_the_cage_s_environment() -> None:
    assert (
        pysandbox.run(["/bin/sh", "-c", "echo $A $PATH"], env={"A": "b"}).stdout == "b /usr/local/bin:/usr/bin:/bin\n"
    )


def test_a_violation_of_the_filter_in_strict_mode_is_named() -> None:
    result = pysandbox.run(["/usr/bin/unshare", "-U", "/bin/true"], policy=Policy(strict=True))

    assert (result.reason, result.signal, result.exit_code) == ("seccomp", signal.SIGSYS, 159)


def test_the_host_s_signal_handlers_are_left_alone() -> None:
    before = {
        number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    }

    pysandbox.run(["/bin/true"])

    assert {number: signal.getsignal(number) for number in before} == before


def test_the_command_starts_with_default_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ; a command that inherited that would not end with its reader."""
    ignored = pysandbox.run(["/bin/sh", "-c", "grep -E 'SigIgn|SigBlk' /proc/self/status"]).stdout.split()[1::2]

    assert [int(mask, 16) for mask in ignored] == [0, 0]
