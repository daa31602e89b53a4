"""Ordinary programs under allow_execve: what has to be on the list for them, and what the error says when it is not."""

from __future__ import annotations

import errno
import shutil
import statistics
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, PolicyError, StartError, run
from pysandbox.errors import SandboxCompileError

PYTHON = "/usr/bin/python3"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: apt-get install nodejs")


def at(project: Path, *listed: str, **options: object) -> Cage:
    given = {"workdir": "write", "run_as": "self", **options}
    return Cage(Policy(allow_execve=listed, **given), cwd=str(project))  # type: ignore[arg-type]


def test_the_first_command_is_refused_before_anything_is_started() -> None:
    with pytest.raises(PolicyError, match="allow_execve") as caught:
        run(["cat", "/etc/passwd"], Policy(allow_execve=["/usr/bin/env"]))
    assert 'add "/usr/bin/cat"' in str(caught.value)
    with pytest.raises(PolicyError, match="allow_execve"):
        run(["/lib64/../bin/cat"], Policy(allow_execve=["/usr/bin/env"]))


def test_an_entry_stands_for_the_file_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr/bin/cat")
    for entry in ("/bin/cat", "//usr/bin/../bin/cat", str(tmp_path / "link")):
        assert run(["cat", "/dev/null"], Policy(allow_execve=[entry])).ok


def test_a_tree_ends_on_a_component(project: Path) -> None:
    for name in ("store/a", "store-extra/a"):
        (project / name).parent.mkdir()
        shutil.copy("/usr/bin/true", project / name)
    with at(project, f"{project}/store/*", workdir="read") as cage:
        assert cage.run(["store/a"], cwd=project).ok
        with pytest.raises(PolicyError, match="allow_execve"):
            cage.run([f"{project}/store-extra/a"])


@pytest.mark.parametrize("watch", [(), ("exec",), ("network",), ("exec", "file")])
@pytest.mark.parametrize("monitor", [False, True])
def test_what_the_list_refuses_is_on_record_whatever_a_callback_watches(watch: tuple[str, ...], monitor: bool) -> None:
    rules = Policy(allow_execve=["/bin/sh"], monitor=monitor)
    callback = {"policy_fn": lambda event, context: False, "watch": watch} if watch else {}
    with Cage(rules, **callback) as cage:  # type: ignore[arg-type]
        result = cage.run(["sh", "-c", "cat /dev/null; /bin/cat /dev/null; true"])
        assert cage.run(["sh", "-c", "true"]).denials == ()
    assert {(each.kind, each.target, each.rule) for each in result.denials} == {
        ("exec", "/usr/bin/cat", "process.allow_execve")
    }
    assert sum(each.count for each in result.denials) == 2
    assert {each.errno for each in result.denials} == {0 if monitor else errno.EACCES}


def test_only_what_is_listed_is_found_by_a_shell() -> None:
    result = run(["sh", "-c", "echo built in; cat /dev/null; echo $?"], Policy(allow_execve=["/bin/sh"]))
    assert result.stdout == "built in\n126\n"
    assert "Permission denied" in result.stderr


def test_python_with_its_extension_modules() -> None:
    script = "import ctypes, decimal, hashlib, json, sqlite3, ssl; print(sqlite3.connect(':memory:').total_changes)"
    assert run([PYTHON, "-c", script], Policy(allow_execve=[PYTHON])).stdout == "0\n"


def test_an_interpreter_of_a_prefix_of_its_own_finds_its_libraries(project: Path) -> None:
    for name in ("bin", "lib"):
        (project / name).mkdir()
    shutil.copy(PYTHON, project / "bin/python3")
    extension = run([PYTHON, "-c", "import _ctypes; print(_ctypes.__file__)"]).stdout.strip()
    shutil.copy(extension, project / "lib")
    script = f"import ctypes; ctypes.CDLL('{project}/lib/{Path(extension).name}')"
    for workdir, works in (("read", True), ("write", False)):
        with at(project, f"{project}/bin/python3", workdir=workdir) as cage:
            assert cage.run([f"{project}/bin/python3", "-c", script]).ok == works


def test_git_needs_its_own_directory_of_commands_and_a_shell(project: Path) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    with at(project, "/usr/bin/git", "/bin/sh", "/usr/lib/git-core/*", "/usr/libexec/git-core/*") as cage:
        for command in ("init -q .", "commit -qm first --allow-empty", "clone -q . copy"):
            cage.run(["git", *command.split()], env=who, check=True)
        assert cage.run(["git", "-C", "copy", "log", "--format=%s"]).stdout == "first\n"


def test_a_compiler_needs_its_passes_and_its_output_a_listed_place(project: Path) -> None:
    (project / "main.c").write_text("int main(void) { return 7; }\n")
    passes = ("/usr/bin/cc", "/usr/bin/as", "/usr/bin/ld", "/usr/lib/gcc/*", "/usr/libexec/gcc/*")
    build = ["cc", "-o", "/tmp/program", f"{project}/main.c"]
    with at(project, *passes) as cage:
        cage.run(build, check=True)
        with pytest.raises(StartError) as caught:
            cage.run(["/tmp/program"])
        assert (caught.value.step, caught.value.errno) == ("exec", errno.EACCES)
        assert "allow_execve" in str(caught.value)
    with at(project, *passes, "/tmp/*") as cage:
        cage.run(build, check=True)
        assert cage.run(["/tmp/program"]).exit_code == 7


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/scratch"])
@pytest.mark.parametrize("state", ["ephemeral", "scratch"])
def test_a_place_of_the_cage_can_be_listed(place: str, state: str) -> None:
    script = f"cp /usr/bin/true {place}/made && {place}/made; echo $?"
    listed = ["/bin/sh", "/bin/cp"]
    assert run(["sh", "-c", script], Policy(allow_execve=listed, state=state)).stdout == "126\n"
    assert run(["sh", "-c", script], Policy(allow_execve=[*listed, f"{place}/*"], state=state)).stdout == "0\n"


@needs_node
def test_node_starts_what_is_listed(project: Path) -> None:
    (project / "work.js").write_text(
        'const { spawnSync } = require("child_process");\n'
        'console.log(spawnSync("/bin/true").status, spawnSync("/bin/false").error.code);\n'
    )
    with at(project, "/usr/bin/node", "/bin/true", address_space_gb=0) as cage:
        result = cage.run(["node", "work.js"], timeout=60)
    assert result.stdout == "0 EACCES\n", result.stderr


def test_a_script_needs_each_interpreter_on_the_list(project: Path) -> None:
    script = project / "script"
    script.write_text(f"#!/usr/bin/env -S {PYTHON}\nprint('read')\n")
    script.chmod(0o755)
    with pytest.raises(SandboxCompileError, match=r'add "/usr/bin/env" to allow_execve'):
        at(project, str(script)).run([str(script)])
    env_only = at(project, str(script), "/usr/bin/env").run([str(script)])
    assert (env_only.exit_code, "Permission denied" in str(env_only.stderr)) == (126, True)
    assert at(project, str(script), "/usr/bin/env", PYTHON).run([str(script)]).stdout == "read\n"


def test_an_allowed_interpreter_runs_any_text_that_it_can_read(project: Path) -> None:
    """What a list cannot promise, as the manual says it."""
    (project / "text").write_text("echo anything\n")
    assert at(project, "/bin/sh").run(["sh", "text"], cwd=project).stdout == "anything\n"


def test_a_list_of_which_nothing_exists_allows_nothing(project: Path) -> None:
    with at(project, "/absent") as cage, pytest.raises(PolicyError, match="allow_execve"):
        cage.run(["true"])


def test_a_host_that_updates_a_listed_program_keeps_an_open_cage_closed_to_it(project: Path) -> None:
    shutil.copy("/usr/bin/true", project / "tool")
    with at(project, f"{project}/tool", workdir="read") as cage:
        assert cage.run([f"{project}/tool"]).ok
        shutil.copy("/usr/bin/true", project / "new")
        (project / "new").replace(project / "tool")
        with pytest.raises(StartError) as caught:
            cage.run([f"{project}/tool"])
        assert caught.value.errno == errno.EACCES
    assert at(project, f"{project}/tool", workdir="read").run([f"{project}/tool"]).ok


@pytest.mark.slow
def test_a_list_does_not_slow_down_what_it_allows() -> None:
    loop = ["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"]
    with Cage(Policy()) as without, Cage(Policy(allow_execve=["/bin/sh", "/bin/true"])) as listed:
        spent: dict[Cage, list[float]] = {without: [], listed: []}
        for _ in range(7):
            for cage, seconds in spent.items():
                usage = cage.run(loop, check=True).usage  # of the processor: other programs run as well
                seconds.append(usage.user_time + usage.system_time)
    assert statistics.median(spent[listed]) / statistics.median(spent[without]) <= 1.15
