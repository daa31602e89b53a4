"""`pysandbox run`, the command as users have it: exit codes, streams, signals, --json, recipes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODULE = [sys.executable, "-m", "pysandbox"]
LAUNCHER = shutil.which("pysandbox", path=str(Path(sys.executable).parent)) or "pysandbox"
LIMIT = 60  # seconds after which a test is stuck
KEPT = 0.5  # seconds after which the plan of a command that runs is kept

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["python", "launcher"])
def way(request: pytest.FixtureRequest) -> str:
    """Python's command line, or the launcher, which starts what a first run has kept."""
    return str(request.param)


@pytest.fixture
def run(tmp_path: Path, way: str) -> Run:
    """Runs `pysandbox run` with these arguments in an empty directory; by the launcher twice, and the second counts."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        settings = {
            "cwd": tmp_path,
            "capture_output": True,
            "text": True,
            "timeout": LIMIT,
            "stdin": subprocess.DEVNULL,
        }
        if "input" in options:
            del settings["stdin"]
        if way == "launcher" and "-v" not in arguments:  # which nothing is kept of
            subprocess.run([LAUNCHER, "run", *arguments], **settings | options)
        command = [LAUNCHER] if way == "launcher" else MODULE
        return subprocess.run([*command, "run", *arguments], **settings | options)

    return run


@pytest.fixture
def start(tmp_path: Path, way: str) -> Callable[..., subprocess.Popen[str]]:
    """Starts `pysandbox run` and waits for its command to say "ready"; by the launcher when another such run has."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        if way == "python":
            return begin(*MODULE, "run", *arguments)
        with begin(LAUNCHER, "run", *arguments) as first:
            time.sleep(KEPT)
            first.kill()
        return begin(LAUNCHER, "run", *arguments)

    def begin(*command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate(timeout=LIMIT)
        return process

    return start


def python(code: str) -> list[str]:
    return ["--", "/usr/bin/python3", "-c", code]


def test_the_installed_command_is_the_module(tmp_path: Path) -> None:
    command = shutil.which("pysandbox", path=str(Path(sys.executable).parent))
    assert command is not None
    for program in ([command], MODULE):
        done = subprocess.run([*program, "run", "--", "sh", "-c", "exit 42"], cwd=tmp_path, timeout=LIMIT)
        assert done.returncode == 42


# ---- exit codes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_the_commands_own(run: Run, code: int) -> None:
    assert run("--", "sh", "-c", f"exit {code}").returncode == code


def test_a_command_ended_by_a_signal_is_128_and_its_number(run: Run) -> None:
    assert run("--", "sh", "-c", "kill -9 $$").returncode == 137


def test_a_command_that_does_not_exist_is_127_and_one_line(run: Run) -> None:
    done = run("--", "no-such-program-anywhere")
    assert done.returncode == 127
    (line,) = done.stderr.splitlines()
    assert line.startswith("pysandbox: error: 'no-such-program-anywhere' was not found")


def test_a_file_that_is_not_executable_is_126(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program\n")
    done = run("--", "./plain")
    assert done.returncode == 126
    assert "pysandbox: error: './plain' cannot be executed" in done.stderr


@pytest.mark.parametrize("arguments", [["--no-such-flag", "--", "true"], ["--"], ["-r", "/absent.toml", "--", "true"]])
def test_our_own_refusal_is_125(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("pysandbox: error: ")


def test_a_granted_path_that_does_not_exist_is_125_and_named(run: Run) -> None:
    done = run("--allow", "/no/such/path", "--", "true")
    assert done.returncode == 125
    assert "/no/such/path" in done.stderr


@pytest.mark.parametrize("limit", [["--timeout", "0.3"], ["--walltime", "1"]])
def test_out_of_time_is_124(run: Run, limit: list[str]) -> None:
    assert run(*limit, "--", "sleep", "1000").returncode == 124


# ---- streams -------------------------------------------------------------------------------------------------


def test_standard_output_holds_the_commands_bytes_and_nothing_else(run: Run) -> None:
    done = run("-v", "--", "printf", "a\\0b", text=False)
    assert done.stdout == b"a\0b"


def test_a_quiet_run_says_nothing_on_standard_error(run: Run) -> None:
    done = run("--", "sh", "-c", "echo mine >&2")
    assert (done.stdout, done.stderr) == ("", "mine\n")


def test_verbose_speaks_json_lines_into_a_pipe(run: Run) -> None:
    events = [json.loads(line)["event"] for line in run("-v", "--", "true").stderr.splitlines()]
    assert {"subagent.spawn", "subagent.exit"} <= set(events)


def test_standard_input_is_the_commands(run: Run) -> None:
    assert run("--", "cat", input="through\n").stdout == "through\n"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_standard_descriptor_is_the_null_device_inside(tmp_path: Path, closed: str) -> None:
    code = "import os, sys; sys.exit(any(os.fstat(fd).st_rdev != os.stat('/dev/null').st_rdev for fd in (0, 1, 2)))"
    script = f'exec {sys.executable} -m pysandbox run -- /usr/bin/python3 -c "$1" {closed}'
    null = subprocess.DEVNULL
    done = subprocess.run(
        ["sh", "-c", script, "sh", code], cwd=tmp_path, stdin=null, stdout=null, stderr=null, timeout=LIMIT
    )
    assert done.returncode == 0


def test_a_closed_reader_ends_the_command_as_in_any_pipeline(tmp_path: Path) -> None:
    with subprocess.Popen([*MODULE, "run", "--", "yes"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(LIMIT) == 128 + signal.SIGPIPE


def test_what_follows_the_dashes_is_the_commands(run: Run) -> None:
    assert run("--", "printf", "%s|", "--json", "--", "-h").stdout == "--json|--|-h|"


# ---- the cage it makes ---------------------------------------------------------------------------------------

NAMESPACE = "import os; print(os.readlink('/proc/self/ns/pid'))"


def test_the_command_runs_in_namespaces_of_its_own(run: Run) -> None:
    assert run(*python(NAMESPACE)).stdout.strip() not in ("", os.readlink("/proc/self/ns/pid"))


def test_no_sandbox_runs_it_in_ours_and_says_so_loudly(run: Run) -> None:
    done = run("--no-sandbox", *python(NAMESPACE))
    assert done.stdout.strip() == os.readlink("/proc/self/ns/pid")
    assert "NO CAGE" in done.stderr


def test_the_directory_at_hand_is_writable_and_can_be_made_read_only(run: Run, tmp_path: Path) -> None:
    assert run("--", "touch", "made").returncode == 0
    assert (tmp_path / "made").exists()
    assert run("--workdir", "read", "--", "touch", "other").returncode == 1
    assert not (tmp_path / "other").exists()


def test_the_environment_stays_outside_but_for_what_is_named(run: Run) -> None:
    environment = os.environ | {"PSB_SECRET": "hidden", "PSB_WANTED": "seen"}
    done = run("--env-passthrough", "PSB_WANTED", "--env", "PSB_SET=here", "--", "env", env=environment)
    lines = done.stdout.splitlines()
    assert {"PSB_WANTED=seen", "PSB_SET=here"} <= set(lines)
    assert not [line for line in lines if line.startswith("PSB_SECRET")]


def test_a_name_alone_is_the_caller_s_variable_as_docker_has_it(run: Run) -> None:
    for value in ("first", "second"):  # also from a kept plan
        environment = os.environ | {"PSB_SECRET": "hidden", "PSB_WANTED": value}
        environment.pop("PSB_ABSENT", None)
        done = run("-e", "PSB_WANTED", "-e", "PSB_ABSENT", "-e", "PSB_SET=here", "--", "env", env=environment)
        assert [line for line in sorted(done.stdout.splitlines()) if line.startswith("PSB_")] == [
            "PSB_SET=here", f"PSB_WANTED={value}",
        ]  # fmt: skip


def test_a_recipe_file_is_obeyed_and_a_flag_outranks_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('[filesystem]\nworkdir = "read"\n[process]\nenv = { FROM = "recipe" }\n')
    code = "import os; print(os.environ['FROM'], os.access('.', os.W_OK))"
    assert run("-r", "r.toml", *python(code)).stdout == "recipe False\n"
    assert run("-r", "r.toml", "--workdir", "write", "--env", "FROM=flag", *python(code)).stdout == "flag True\n"


def test_a_mistake_in_a_recipe_is_named_with_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('[filesystem]\nalow = ["/x"]\n')
    done = run("-r", "r.toml", "--", "true")
    assert done.returncode == 125
    assert "r.toml:2" in done.stderr


# ---- --json --------------------------------------------------------------------------------------------------


def test_json_is_one_document_on_standard_output(run: Run) -> None:
    done = run("--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert (document["stdout"], document["stderr"]) == ("out\n", "err\n")
    assert (document["exit_code"], document["ok"], document["reason"]) == (3, False, "exited")
    assert document["caged"] is True
    assert document["duration"] > 0


def test_json_holds_a_megabyte_of_output(run: Run) -> None:
    document = json.loads(run("--json", "--", "sh", "-c", "yes 0123456 | head -c 1048576").stdout)
    assert (len(document["stdout"]), document["truncated"]) == (1 << 20, False)


def test_json_is_a_document_also_when_nothing_could_run(run: Run) -> None:
    done = run("--json", "--", "no-such-program-anywhere")
    assert done.returncode == 127
    assert json.loads(done.stdout)["exit_code"] == 127


# ---- signals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_to_us_lets_the_command_say_goodbye(start: Any, number: int) -> None:
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f"trap 'echo bye {name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done"
    with start("--", "sh", "-c", script) as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (stdout, stderr) == (f"bye {name}\n", "")
    assert process.returncode == 7  # its own


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_that_the_command_heeds_without_ending_ends_nothing(start: Any, number: int) -> None:
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f"trap 'echo heard' {name}; trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    with start("--", "sh", "-c", script) as process:
        process.send_signal(number)
        assert process.stdout.readline() == "heard\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 3


def test_a_new_size_of_the_screen_is_told_to_a_command_without_a_terminal_of_its_own(start: Any) -> None:
    with start("--", "sh", "-c", "trap 'exit 9' WINCH; echo ready; while :; do sleep 0.05; done") as process:
        process.send_signal(signal.SIGWINCH)
        assert process.wait(LIMIT) == 9


def test_a_stop_from_the_keyboard_stops_the_command_and_then_us(start: Any) -> None:
    script = "trap 'exit 4' TERM; trap 'echo asked' TSTP; echo ready; while :; do echo tick; sleep 0.01; done"
    with start("--", "sh", "-c", script) as process:
        process.send_signal(signal.SIGTSTP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        os.set_blocking(process.stdout.fileno(), False)
        assert b"asked\n" in os.read(process.stdout.fileno(), 1 << 20)
        time.sleep(0.2)
        with pytest.raises(BlockingIOError):  # it stands, too
            os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 4


def test_a_command_that_will_not_go_is_killed_after_its_grace(start: Any) -> None:
    with start("--grace", "0.2", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 143


def test_nothing_of_the_cage_outlives_us_even_when_we_are_killed(start: Any) -> None:
    with start("--", "sh", "-c", "echo ready; exec sleep 1000") as process:
        process.kill()
        assert process.wait(LIMIT) == -signal.SIGKILL
        assert process.stdout.read() == ""  # the command held the other end


def test_a_cap_on_output_that_is_not_kept_is_refused(run: Run) -> None:
    """What the command writes to our own streams passes by nobody who could cut it."""
    refused = run("--output-mb", "1", "--", "head", "-c", "3000000", "/dev/zero")
    assert refused.returncode == 125 and refused.stdout == "" and "--json" in refused.stderr

    cut = json.loads(run("--output-mb", "1", "--json", "--", "head", "-c", "3000000", "/dev/zero").stdout)
    assert (len(cut["stdout"]), cut["truncated"]) == (1 << 20, True)


# ---- what goes wrong before a command ---------------------------------------------------------------------------


def test_a_time_that_is_no_number_is_told_as_such(run: Run) -> None:
    done = run("--timeout", "abc", "--", "true")
    assert (done.returncode, done.stderr.count("'abc' is not a number of seconds")) == (125, 1)


def test_too_few_descriptors_are_told_with_what_to_raise(tmp_path: Path) -> None:
    for limit in (14, 20, 40):
        script = f'ulimit -n {limit}; exec "$@"'
        command = ["bash", "-c", script, "bash", *MODULE, "run", "--workdir", "none", "--", "true"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 125
        assert "ulimit -n" in done.stderr, (limit, done.stderr)


@pytest.mark.parametrize("name", ["policy.toml", "pysandbox.toml"])
def test_the_mark_that_windows_editors_begin_a_file_with_is_no_mistake(run: Run, tmp_path: Path, name: str) -> None:
    manifest = name == "pysandbox.toml"
    text = '[sandbox.a]\nrecipes = ["python"]\ncommand = "true"\n' if manifest else "[process]\nmax_pids = 20\n"
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    if manifest:
        command = [*MODULE, "up", "--trust"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    else:
        done = run("-r", f"./{name}", "--", "true")
    assert done.returncode == 0 and "error" not in done.stderr, done.stderr


@pytest.mark.parametrize("run_number", ["cold", "warm"])
def test_output_that_a_file_does_not_take_is_no_success(tmp_path: Path, run_number: str) -> None:
    """The command has written all of it, to a pipe, and knows of nothing."""
    script = 'ulimit -f 512; exec "$@" >out'
    flags = ["--no-audit", "--workdir", "none", "--", "head", "-c", "700000", "/dev/zero"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(1 if run_number == "cold" else 2):
        done = subprocess.run(["bash", "-c", script, "bash", *MODULE, "run", *flags], cwd=tmp_path, env=environment,
                              capture_output=True, text=True, timeout=LIMIT)  # fmt: skip
    assert done.returncode != 0
    assert "could not be written: File too large" in done.stderr
    assert (tmp_path / "out").stat().st_size == 512 * 1024


def test_with_v_all_that_we_say_to_a_pipe_is_lines_of_json(run: Run, tmp_path: Path) -> None:
    for arguments, events in (
        (["--allow", "/absent"], {"cli.error"}),
        (["--no-sandbox"], {"cli.warning"}),
        (["--monitor"], {"cli.monitor"}),
        (["--workdir", "write"], {"sandbox.planted", "cli.warning"}),
    ):
        done = run("-v", *arguments, "--", "sh", "-c", "mkdir -p .vscode")
        told = [json.loads(line) for line in done.stderr.splitlines()]
        assert events <= {each["event"] for each in told}, arguments
        (tmp_path / ".vscode").rmdir() if (tmp_path / ".vscode").exists() else None
    plain = run("--allow", "/absent", "--", "true")
    assert plain.stderr.startswith("pysandbox: error: ")
