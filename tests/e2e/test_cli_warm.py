"""A run like one before starts from its kept plan: it does the same, imports next to nothing, knows what is stale."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox.policy.recipe import PACKAGED

LIMIT = 60  # seconds after which a test is stuck

# Runs the command line as the installed command does, and tells on a descriptor which modules that took.
TOLD = """
import os, sys
base = set(sys.modules)
from pysandbox.cli.main import main
code = main(sys.argv[1:])
os.write(int(os.environ["PSB_TELL"]), "\\n".join(sorted(set(sys.modules) - base)).encode())
sys.exit(code)
"""
LONG_WAY = "argparse"  # whatever it comes to
MOST_MODULES = 41  # of the package and the interpreter; two of them look at what was planted. The long way has some 200
PIPED = {"pysandbox.launch.intake", "pysandbox.launch.relay"}  # the test's own ends are pipes
HEAVY = {"argparse", "asyncio", "collections", "dataclasses", "enum", "functools", "hashlib", "inspect", "json", "re",
         "pathlib", "signal", "socket", "subprocess", "threading", "tomllib", "typing"}  # fmt: skip


@dataclass
class Ran:
    code: int
    stdout: bytes
    stderr: bytes
    modules: set[str]

    @property
    def warm(self) -> bool:
        return LONG_WAY not in self.modules


class Home:
    """A user's home with its cache, and a project to run commands in."""

    def __init__(self, root: Path) -> None:
        self.cache, self.project = root / "home" / ".cache" / "pysandbox", root / "project"
        (root / "home").mkdir()
        self.project.mkdir()
        self.env = os.environ | {"HOME": str(root / "home"), "PSB_WORD": "before"}
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYSANDBOX_AUDIT"):
            self.env.pop(name, None)
        (root / "runtime").mkdir(mode=0o700)
        self.env["XDG_RUNTIME_DIR"] = str(root / "runtime")
        self.recipes = root / "home" / ".config" / "pysandbox" / "recipes"
        self.audit = root / "home" / ".local" / "state" / "pysandbox" / "audit" / "events.jsonl"

    def run(self, *arguments: str, input: bytes = b"") -> Ran:
        read, write = os.pipe()
        command = [sys.executable, "-c", TOLD, "run", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self.project,
                env=self.env | {"PSB_TELL": str(write)},
                input=input,
                capture_output=True,
                timeout=LIMIT,
                pass_fds=(write,),
            )
        finally:
            os.close(write)
        with open(read, "rb") as told:
            return Ran(done.returncode, done.stdout, done.stderr, set(told.read().decode().split()))

    def until_warm(self, *arguments: str) -> Ran:
        """What was written a moment ago is not kept: the run after it is the one that keeps it."""
        for _ in range(10):
            ran = self.run(*arguments)
            if ran.warm:
                return ran
        raise AssertionError(f"never warm: {arguments}, {ran}")

    def recipe(self, directory: Path, said: str, extra: str = "") -> None:
        """One of the name `word`, in a directory of recipes."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "word.toml").write_text(f'{extra}[process]\nenv = {{ SAID = "{said}" }}\n')

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]

    def python(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "pysandbox", *arguments]
        return subprocess.run(
            command, cwd=self.project, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT
        )

    @property
    def entries(self) -> list[Path]:
        return sorted(self.cache.iterdir()) if self.cache.exists() else []


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def python(code: str) -> list[str]:
    return ["--", "/usr/bin/python3", "-c", code]


# ---- what it costs -------------------------------------------------------------------------------------------


def test_a_warm_run_imports_next_to_nothing(home: Home) -> None:
    assert not home.run("--", "/bin/true").warm  # the control
    modules = home.run("--", "/bin/true").modules - PIPED
    assert not modules & HEAVY
    assert len(modules) <= MOST_MODULES, " ".join(sorted(modules))


# ---- it does the same ----------------------------------------------------------------------------------------

SEEN = (
    "import os; print(os.getcwd(), os.getuid(), sorted(os.environ.items()), os.listdir('/'), "
    "os.listdir('/proc/self/fd'))"
)
SAME: dict[str, list[str]] = {
    "exit code": ["--", "sh", "-c", "exit 42"],
    "signal": ["--", "sh", "-c", "kill -9 $$"],
    "wall time": ["--walltime", "1", "--grace", "0", "--", "sleep", "1000"],
    "timeout": ["--timeout", "0.3", "--", "sleep", "1000"],
    "streams": ["--", "sh", "-c", "echo out; echo err >&2"],
    "standard input": ["--", "cat"],
    "no dashes": ["sh", "-c", "echo $#", "sh", "--", "x"],
    "world": python(SEEN),
    "flags": ["--workdir", "read", "--allow", "/opt", "--env-passthrough", "PSB_WORD", *python(SEEN)],
    "landlock": ["--allow", "/etc", "--run-as", "root", *python(SEEN)],
    "limits": ["--open-files", "77", *python("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")],
    "syscalls": ["--deny-syscall", "getppid", *python("import os; os.getppid()")],
}


@pytest.mark.parametrize("name", SAME)
def test_both_ways_come_to_the_same_end(home: Home, name: str) -> None:
    cold, warm = (home.run(*SAME[name], input=b"through") for _ in range(2))
    assert (cold.warm, warm.warm) == (False, True)
    assert (warm.code, warm.stdout) == (cold.code, cold.stdout)
    assert warm.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_the_kept_plan_is_the_one_that_the_compiler_makes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.run("--allow", "/opt", "--", "/bin/true")
    code = """
import os, sys
from pysandbox.cli.policy_of import policy_of
from pysandbox.cli.warm import key_of
from pysandbox.launch import plans
from pysandbox.launch.image import image_of
from pysandbox.launch.runtime import Runtime
from pysandbox.policy.model import Grant
entry = plans.recall(key_of(["--allow", "/opt"], "/bin/true"))
policy = policy_of([], command=["/bin/true"], extra={"allow": (Grant("/opt"),)}).policy
prepared = Runtime().prepare(policy, os.getcwd())
print(entry["digest"] == prepared.plan.digest, entry["image"] == image_of(prepared.native))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=home.project, env=home.env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)  # fmt: skip
    assert done.stdout == "True True\n", done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_a_warm_run_lets_the_command_say_goodbye(home: Home, number: int) -> None:
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f"trap 'echo bye; exit 7' {name}; echo ready; [ -e stay ] || exit 0; while :; do sleep 0.05; done"
    home.until_warm("--", "sh", "-c", script)
    (home.project / "stay").touch()
    home.env["PSB_TELL"] = "2"
    command = [sys.executable, "-c", TOLD, "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        stdout, modules = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (7, b"bye\n")
    assert LONG_WAY.encode() not in modules


def test_a_warm_cage_dies_with_us(home: Home) -> None:
    script = "echo ready; [ -e stay ] || exit 0; exec sleep 1000"
    home.until_warm("--", "sh", "-c", script)
    (home.project / "stay").touch()
    command = [sys.executable, "-m", "pysandbox", "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.stdout.read() == b""  # the command held the other end


def test_a_warm_run_that_lasts_can_be_found_and_killed(home: Home) -> None:
    script = "echo ready; [ -e stay ] || exit 0; exec sleep 1000"
    home.until_warm("--", "sh", "-c", script)
    (home.project / "stay").touch()
    home.env["PSB_TELL"] = "2"
    command = [sys.executable, "-c", TOLD, "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while not (listed := json.loads(home.python("ps", "--json").stdout)):
            assert process.poll() is None
        (cage,) = listed
        assert home.python("kill", cage["id"]).returncode == 0
        _, modules = process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGTERM
    assert LONG_WAY.encode() not in modules.split()
    assert json.loads(home.python("ps", "--json").stdout) == []
    assert home.records()[-1]["data"]["invocation_id"] == cage["id"]


def test_what_cannot_start_is_told_as_ever(home: Home) -> None:
    script(home.project / "program", "exit 7")
    assert home.until_warm("--", "./program").code == 7
    (home.project / "program").chmod(0o644)
    ran = home.run("--", "./program")
    assert (ran.code, ran.warm) == (126, False)
    assert b"'./program' cannot be executed" in ran.stderr


# ---- it leaves the same trail --------------------------------------------------------------------------------

ENDS: dict[str, tuple[str, list[str]]] = {
    "exit code": ("subagent.exit", ["--", "sh", "-c", "exit 42"]),
    "signal": ("subagent.exit", ["--", "sh", "-c", "kill -9 $$"]),
    "wall time": ("policy.violation", ["--walltime", "1", "--grace", "0", "--", "sleep", "1000"]),
    "timeout": ("subagent.exit", ["--timeout", "0.3", "--", "sleep", "1000"]),
    "seccomp": ("policy.violation", ["--deny-syscall", "getppid", "--", "sh", "-c", "kill -31 $$"]),
    "recipe": ("subagent.spawn", ["-r", "python", "--max-pids", "1000", "--", "true"]),
    "no limits": ("subagent.spawn", ["--workdir", "read", "--", "true"]),
}
DIFFERS = {"invocation_id", "duration_ms", "user_ms", "system_ms", "max_rss_kb"}  # between any two runs


def story(records: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What was told, without what differs between two runs."""
    told = []
    for record in records:
        data = {name: each for name, each in record["data"].items() if name not in DIFFERS}
        if summary := data.get("cage_summary"):
            data["cage_summary"] = summary.replace(record["data"]["invocation_id"][:6], "ID")
        told.append((record["type"], data))
    return told


@pytest.mark.parametrize("name", ENDS)
def test_both_ways_leave_the_same_records(home: Home, name: str) -> None:
    expected, arguments = ENDS[name]
    home.run(*arguments)
    cold = home.records()
    home.run(*arguments)
    both = home.records()
    assert expected in {record["type"] for record in cold}
    assert story(both[len(cold) :]) == story(cold)
    assert {*both[-1]["data"]} == {*cold[-1]["data"]}
    assert home.python("audit", "verify").returncode == 0


def test_a_warm_run_that_fails_to_start_leaves_that_as_well(home: Home) -> None:
    (home.project / "interpreter").symlink_to("/bin/sh")
    (home.project / "program").write_text(f"#!{home.project}/interpreter\nexit 7\n")
    (home.project / "program").chmod(0o755)
    assert home.until_warm("--", "./program").code == 7
    before = len(home.records())
    (home.project / "interpreter").unlink()
    assert home.run("--", "./program").code == 127
    told = [record for record in home.records()[before:] if record["type"].startswith(("subagent.", "cage."))]
    assert [record["type"] for record in told] == ["subagent.spawn", "cage.start_failed"] * 2  # warm, then the long way
    assert story(told[:2]) == story(told[2:])


def test_without_an_audit_nothing_is_written_either_way(home: Home) -> None:
    home.until_warm("--no-audit", "--", "true")
    assert not home.audit.exists()
    home.env["PYSANDBOX_AUDIT"] = "off"
    home.until_warm("--", "true")
    assert not home.audit.exists()
    del home.env["PYSANDBOX_AUDIT"]
    assert not home.run("--", "true").warm  # another world: looked at anew
    assert home.audit.exists()


def test_what_cannot_be_recorded_is_not_started(home: Home) -> None:
    home.env["PYSANDBOX_AUDIT"] = str(home.project.parent / "trail" / "events.jsonl")
    arguments = ["--", "sh", "-c", "echo x >> ran"]
    home.until_warm(*arguments)
    ran = (home.project / "ran").read_text()
    (home.project.parent / "trail").chmod(0o755)
    assert home.run(*arguments).code == 125
    assert (home.project / "ran").read_text() == ran


def test_the_start_is_on_the_disk_before_the_command_is_ordered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from pysandbox.cli.warm import run_again
    from pysandbox.launch.live import LiveInit

    home.until_warm("--", "true")
    seen: list[str] = []
    execute, sync = LiveInit.execute, os.fdatasync

    def ordered(self: LiveInit, *arguments: Any) -> None:
        seen.append(home.records()[-1]["type"])
        execute(self, *arguments)

    def synced(fd: int) -> None:
        sync(fd)
        seen.append("synced")

    monkeypatch.setattr(LiveInit, "execute", ordered)
    monkeypatch.setattr(os, "fdatasync", synced)
    monkeypatch.chdir(home.project)
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    for name in os.environ.keys() - home.env.keys():
        monkeypatch.delenv(name)
    assert run_again(["--", "true"]) == 0
    assert seen == ["synced", "subagent.spawn"]


# ---- what makes it stale -------------------------------------------------------------------------------------

Change = Callable[[Home], Any]


def edit_recipe(home: Home) -> None:
    (home.project / "r.toml").write_text('[process]\nenv = { SAID = "after" }\n')


def replace_grant(home: Home) -> None:
    (home.project / "granted").rename(home.project / "old")
    (home.project / "granted").mkdir()
    (home.project / "granted" / "after").touch()


def say_after(home: Home) -> None:
    home.env["PSB_WORD"] = "after"


def add_policy_file(home: Home) -> None:
    (home.project / "pysandbox.toml").write_text("secret")


def edit_user_recipe(home: Home) -> None:
    home.recipe(home.recipes, "after")


def shadow_user_recipe(home: Home) -> None:
    home.recipe(home.project / ".pysandbox", "after")
    assert home.python("recipe", "trust", "--yes", ".pysandbox/word.toml").returncode == 0


def move_user_recipes(home: Home) -> None:
    elsewhere = home.project.parent / "elsewhere"
    home.recipe(elsewhere / "pysandbox" / "recipes", "after")
    home.env["XDG_CONFIG_HOME"] = str(elsewhere)


def replace_base(home: Home) -> None:
    base = (Path(PACKAGED) / "base.toml").read_text()
    home.recipes.joinpath("base.toml").write_text(f'{base}\n[process]\nenv = {{ SAID = "after" }}\n')


def edit_detected(home: Home) -> None:
    tools = home.project.parent / "tools"
    prefix = f'[recipe]\nname = "word"\nmatch_prefix = ["{tools}"]\n[filesystem]\nallow = ["{tools}"]\n'
    home.recipe(home.recipes, "after", prefix)


# What changes, and a command line whose answer is then another; HERE is the project.
CHANGES: dict[str, tuple[Change, list[str]]] = {
    "a recipe": (edit_recipe, ["-r", "r.toml", "--", "sh", "-c", "echo $SAID"]),
    "a granted directory": (replace_grant, ["--workdir", "none", "--allow", "granted", "--", "ls", "HERE/granted"]),
    "a variable in a path": (say_after, ["--workdir", "none", "--allow", "$PWD/../$PSB_WORD", "--", "ls", "ABOVE"]),
    "a user's recipe": (edit_user_recipe, ["-r", "word", "--", "sh", "-c", "echo $SAID"]),
    "a recipe of the project before the user's": (shadow_user_recipe, ["-r", "word", "--", "sh", "-c", "echo $SAID"]),
    "the place of recipes": (move_user_recipes, ["-r", "word", "--", "sh", "-c", "echo $SAID"]),
    "the base": (replace_base, ["--", "sh", "-c", "echo ${SAID-before}"]),
    "a recipe that the program calls for": (edit_detected, ["--allow", "ABOVE/tools", "--", "ABOVE/tools/said"]),
    "a policy file that was not there": (add_policy_file, ["--", "sh", "-c", "cat pysandbox.toml 2>&-; echo after"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(home: Home, name: str) -> None:
    change, arguments = CHANGES[name]
    (home.project / "r.toml").write_text('[process]\nenv = { SAID = "before" }\n')
    (home.project / "granted").mkdir()
    (home.project / "granted" / "before").touch()
    for word in ("before", "after", "tools"):
        (home.project.parent / word).mkdir()
    home.recipe(home.recipes, "before")
    script(home.project.parent / "tools" / "said", "echo ${SAID-before}")
    home.env["PWD"] = str(home.project)
    arguments = [
        each.replace("HERE", str(home.project)).replace("ABOVE", str(home.project.parent)) for each in arguments
    ]
    home.until_warm(*arguments)
    change(home)
    ran = home.run(*arguments)
    assert not ran.warm
    assert ran.stdout == b"after\n", ran.stderr


def test_another_installation_makes_a_plan_of_its_own(home: Home) -> None:
    """It may know of more to be guarded, and none of its files is among those whose stamps were kept."""
    home.until_warm("--", "true")
    shutil.copytree(Path(pysandbox.__file__).parent, home.project.parent / "other" / "pysandbox")
    home.env["PYTHONPATH"] = str(home.project.parent / "other")
    assert not home.run("--", "true").warm
    assert home.until_warm("--", "true").code == 0


def test_another_program_that_the_name_leads_to_is_noticed(home: Home) -> None:
    tools = home.project.parent / "tools"
    (tools / "first").mkdir(parents=True)
    (tools / "second").mkdir()
    script(tools / "second" / "sh", "")
    prefix = f'[recipe]\nname = "word"\nmatch_prefix = ["{tools}/second"]\n'
    home.recipe(home.recipes, "before", prefix)
    home.env["PATH"] = f"{tools}/first:{tools}/second:{home.env['PATH']}"
    arguments = ["--", "sh", "-c", "echo ${SAID-after}"]
    assert home.until_warm(*arguments).stdout == b"before\n"
    script(tools / "first" / "sh", "")
    ran = home.run(*arguments)
    assert (ran.warm, ran.stdout) == (False, b"after\n")


def test_trust_that_is_taken_back_holds_for_the_next_run(home: Home) -> None:
    home.recipe(home.project / ".pysandbox", "x", '[filesystem]\nallow = ["/etc"]\n')
    arguments = ["-r", "word", "--", "echo", "ran"]
    assert home.run(*arguments).code == 125  # the control
    recipe = ".pysandbox/word.toml"
    assert home.python("recipe", "trust", "--yes", recipe).returncode == 0
    assert home.until_warm(*arguments).stdout == b"ran\n"
    assert home.python("recipe", "trust", "--revoke", recipe).returncode == 0
    ran = home.run(*arguments)
    assert (ran.code, ran.warm, ran.stdout) == (125, False, b"")
    assert b"you have not trusted it" in ran.stderr


def test_a_variable_that_is_passed_through_is_read_anew_and_never_written_down(home: Home) -> None:
    arguments = ["--env-passthrough", "PSB_WORD", "--", "sh", "-c", "echo $PSB_WORD"]
    home.env["PSB_WORD"] = "a-secret-of-mine"
    assert home.until_warm(*arguments).stdout == b"a-secret-of-mine\n"
    assert not [entry for entry in home.entries if b"a-secret-of-mine" in entry.read_bytes()]
    home.env["PSB_WORD"] = "another"
    ran = home.run(*arguments)
    assert (ran.warm, ran.stdout) == (True, b"another\n")


@pytest.mark.parametrize(
    "flags",
    [["--env", "TOKEN=secret"], ["--json"], ["-v"], ["--no-sandbox"], ["--max-pids", "50"],
     ["--memory-mb", "200"], ["--cpu-percent", "50"], ["--state", "scratch"], ["-s"], ["-m"], ["--notifier"],
     ["--allow-execve", "/bin/*", "--allow-execve", "/usr/bin/*"]],
)  # fmt: skip
def test_what_a_plan_does_not_hold_is_not_kept(home: Home, flags: list[str]) -> None:
    assert [home.run(*flags, "--", "/bin/true").warm for _ in range(2)] == [False, False]
    assert home.entries == []


# ---- what is not believed ------------------------------------------------------------------------------------


def overwrite(at: int) -> Change:
    def change(home: Home) -> None:
        (entry,) = home.entries
        content = bytearray(entry.read_bytes())
        content[at] ^= 1
        entry.write_bytes(content)

    return change


def empty(home: Home) -> None:
    home.entries[0].write_bytes(b"")


def cut(home: Home) -> None:
    os.truncate(home.entries[0], 100)


def open_to_all(home: Home) -> None:
    home.cache.chmod(0o755)


def open_entry(home: Home) -> None:
    home.entries[0].chmod(0o644)


def link_directory(home: Home) -> None:
    home.cache.rename(home.cache.parent / "elsewhere")
    home.cache.symlink_to(home.cache.parent / "elsewhere")


def link_parent(home: Home) -> None:
    parent = home.cache.parent
    parent.rename(parent.parent / "elsewhere")
    parent.symlink_to(parent.parent / "elsewhere")


def link_entry(home: Home) -> None:
    (entry,) = home.entries
    entry.rename(entry.parent / "elsewhere")
    entry.symlink_to("elsewhere")


def fifo(home: Home) -> None:
    (entry,) = home.entries
    entry.unlink()
    os.mkfifo(entry)


@pytest.mark.parametrize(
    "spoil",
    [overwrite(0), overwrite(32), overwrite(-1), empty, cut, open_to_all, open_entry, link_directory, link_parent,
     link_entry, fifo],
)  # fmt: skip
def test_an_entry_that_is_not_as_we_left_it_is_as_if_it_were_not_there(home: Home, spoil: Change) -> None:
    home.until_warm("--", "echo", "same")
    spoil(home)
    ran = home.run("--", "echo", "same")
    assert (ran.warm, ran.code, ran.stdout, ran.stderr) == (False, 0, b"same\n", b"")


def test_the_cache_is_ours_alone_and_does_not_grow(home: Home) -> None:
    home.until_warm("--", "true")
    for number in range(80):
        (home.cache / f"old-{number}").touch()
    home.run("--", "echo")
    assert home.cache.stat().st_mode & 0o777 == 0o700
    assert len(home.entries) <= 64
    assert {entry.stat().st_mode & 0o777 for entry in home.entries if not entry.name.startswith("old")} == {0o600}


def test_without_a_home_nothing_is_kept(home: Home) -> None:
    home.env.update(HOME="")
    assert [home.run("--", "true").code for _ in range(2)] == [0, 0]
    assert home.entries == []
