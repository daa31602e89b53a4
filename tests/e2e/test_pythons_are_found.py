"""The Python that a command is, or is run by, is found in the cage wherever it lies: from the command line by its name
and by its path, again from a kept plan, and in a program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from _support.pythons import VERSION, WHERE, environment, install, pyenv, script
from pysandbox import Cage, Policy, run
from pysandbox.errors import StartError

LIMIT = 60


class Desk:
    """A project, tools beside it, and a PATH."""

    def __init__(self, root: Path) -> None:
        self.root, self.project, self.tools = root, root / "project", root / "tools"
        for each in (self.project, self.tools, root / "home"):
            each.mkdir()
        self.env = {**os.environ, "HOME": str(root / "home"), "XDG_CACHE_HOME": str(root / "cache"),
                    "PYSANDBOX_AUDIT": "off", "PATH": "/usr/local/bin:/usr/bin:/bin"}  # fmt: skip
        for name in ("VIRTUAL_ENV", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(name, None)

    def activate(self, environment: Path) -> None:
        self.env |= {"VIRTUAL_ENV": str(environment), "PATH": f"{environment}/bin:{self.env['PATH']}"}

    def call(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "pysandbox", *arguments], cwd=cwd or self.project, env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)  # fmt: skip

    def prefix(self, *command: str | Path, flags: tuple[str, ...] = ()) -> str:
        """What the command says its prefix is, the second time too."""
        launched = [
            shutil.which("pysandbox", path=os.path.dirname(sys.executable)) or "",
            "run",
            *flags,
            "--",
            *command,
        ]
        for _ in range(2):
            done = subprocess.run(launched, cwd=self.project, env=self.env, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=LIMIT)  # fmt: skip
            assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(params=["system", "elsewhere", "by a link", "copied"])
def made(request: pytest.FixtureRequest, desk: Desk) -> Path:
    """An environment whose Python is the system's, a tree elsewhere, one that a link names (as uv's), or a copy."""
    if request.param == "system":
        return environment(desk.tools / "env")
    base = install(desk.tools / "pythons" / "cpython-1.2.3")
    if request.param == "by a link":
        base = base.with_name("cpython-1.2")
        os.symlink("cpython-1.2.3", base)
    return environment(desk.tools / "env", base, copies=request.param == "copied")


def test_an_environment_is_found_by_its_path(desk: Desk, made: Path) -> None:
    for program in ("python", "python3", VERSION):
        assert desk.prefix(made / "bin" / program, "-c", WHERE) == str(made)
    assert desk.prefix(made / "bin" / "tool") == str(made)


def test_an_active_environment_is_found_by_every_name(desk: Desk, made: Path) -> None:
    desk.activate(made)
    for program in ("python", "python3", VERSION):
        assert desk.prefix(program, "-c", WHERE) == str(made)
    assert desk.prefix("tool") == desk.prefix("tool", flags=("-r", "pytest")) == str(made)
    assert desk.prefix(script(desk.project / "mine", "/usr/bin/env python3")) == str(made)


def test_an_active_environment_in_the_project_is_found_by_every_name(desk: Desk) -> None:
    made = environment(desk.project / ".venv", install(desk.tools / "python"))
    desk.activate(made)
    for program in ("python", "python3", "tool"):
        arguments = () if program == "tool" else ("-c", WHERE)
        assert desk.prefix(program, *arguments) == str(made)
        assert desk.prefix(program, *arguments, flags=("--workdir", "read")) == str(made)
    assert desk.prefix("./.venv/bin/tool") == str(made)
    assert desk.call("run", "--workdir", "none", "--", "tool").stdout.strip() == str(made)


def test_a_program_finds_its_own_interpreter(desk: Desk, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = str(made / "bin" / "python")
    for policy in (Policy(), Policy.load("python"), Policy.load("python", command=[python]), Policy(workdir="read")):
        assert run([python, "-c", WHERE], policy).stdout.strip() == str(made)
    with Cage(Policy.load(command=[python])) as cage:
        assert cage.run([python, "-c", WHERE]).stdout.strip() == str(made)
    monkeypatch.setenv("PATH", f"{made}/bin:/usr/bin:/bin")
    for name in ("python", "python3"):
        assert run([name, "-c", WHERE]).stdout.strip() == str(made)
    assert run(["tool"]).stdout.strip() == str(made)


def test_this_very_interpreter_runs() -> None:
    assert run([sys.executable, "-c", WHERE]).stdout.strip() == sys.prefix


def test_an_environment_in_the_home_directory_itself_shows_nothing_else_of_it(desk: Desk) -> None:
    home = desk.root / "home"
    environment(home)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("KEY")
    (home / "bin" / "mine").write_text("TOKEN")
    look = f"import os; print(sorted(os.listdir({str(home)!r})), sorted(os.listdir({str(home / 'bin')!r})))"
    assert desk.prefix(home / "bin" / "tool") == str(home)
    shown = desk.prefix(home / "bin" / "python", "-c", look)
    assert ".ssh" not in shown and "mine" not in shown and "pyvenv.cfg" in shown


def test_an_environment_made_in_a_project_shows_no_source_of_it(desk: Desk) -> None:
    other = environment(desk.root / "other")
    (other / "secret.py").write_text("SECRET")
    look = f"import os; print(os.path.exists({str(other)!r} + '/secret.py'))"
    assert desk.prefix(other / "bin" / "python", "-c", look) == "False"


def test_a_tool_that_a_link_on_the_path_leads_to(desk: Desk) -> None:
    made = environment(desk.root / "home" / ".local" / "share" / "pipx" / "venvs" / "tool")
    place = desk.root / "home" / ".local" / "bin"
    place.mkdir()
    os.symlink(made / "bin" / "tool", place / "tool")
    desk.env["PATH"] = f"{place}:{desk.env['PATH']}"
    assert desk.prefix("tool") == str(made)
    assert desk.prefix(place / "tool") == str(made)


def test_a_script_of_the_user_s_is_run_by_its_environment(desk: Desk) -> None:
    made = environment(desk.tools / "env")
    assert desk.prefix(script(desk.root / "home" / "bin" / "mine", f"{made}/bin/python")) == str(made)


def test_a_script_whose_interpreter_is_too_far_for_its_first_line(desk: Desk) -> None:
    made = environment(desk.tools / "env")
    far = made / "bin" / "far"
    far.write_text(f"#!/bin/sh\n'''exec' '{made}/bin/python' \"$0\" \"$@\"\n' '''\n{WHERE}\n")
    far.chmod(0o755)
    assert desk.prefix(far) == str(made)
    far.write_text(
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n" + WHERE
    )
    assert desk.prefix(far) == str(made)


def test_pyenv_s_shims_run_wherever_its_root_is(desk: Desk) -> None:
    root = pyenv(desk.tools / "pyenv")
    desk.env["PATH"] = f"{root}/shims:{desk.env['PATH']}"
    for program in ("python", "python3", root / "shims" / "python"):
        assert desk.prefix(program, "-c", WHERE) == str(root / "versions" / "3.9.1")


def test_a_plan_is_made_anew_when_the_environment_is(desk: Desk) -> None:
    first, second = (install(desk.tools / name) for name in ("first", "second"))
    where = "import sys; print(sys.base_prefix)"
    made = environment(desk.tools / "env", first)
    assert desk.prefix(made / "bin" / "python", "-c", where) == str(first)
    shutil.rmtree(made)
    environment(made, second)
    assert desk.prefix(made / "bin" / "python", "-c", where) == str(second)


def test_what_is_granted_is_read_only_and_told(desk: Desk) -> None:
    made = environment(desk.tools / "env")
    done = desk.call("run", "--", made / "bin" / "python", "-c", f"open({str(made / 'new')!r}, 'w')")
    assert "Read-only file system" in done.stderr
    told = desk.call("explain", "--", str(made / "bin" / "python")).stdout
    assert f"Visible and read-only because '{made}/bin/python' needs it to run: {made}." in told
    layers = json.loads(desk.call("recipe", "show", "--json", "--", str(made / "bin" / "python")).stdout)["layers"]
    assert any(str(made) in each["path"] and each["why"] == "detected" for each in layers)


def test_a_denial_wins(desk: Desk) -> None:
    made = environment(desk.tools / "env")
    assert desk.call("run", "--deny", str(made), "--", str(made / "bin" / "python"), "-c", "1").returncode == 127


def test_a_session_says_how_its_program_is_found(desk: Desk) -> None:
    made = environment(desk.tools / "env")
    with Cage() as cage, pytest.raises(StartError, match=r"Policy\.load\(command=\["):
        cage.run([made / "bin" / "python", "-c", "1"])


def test_a_sandbox_of_a_manifest_finds_the_active_environment(desk: Desk) -> None:
    made = environment(desk.project / ".venv", install(desk.tools / "python"))
    (desk.project / "pysandbox.toml").write_text('[sandbox.test]\nrecipes = ["pytest"]\ncommand = "tool"\n')
    desk.activate(made)
    done = desk.call("up", "--trust")
    assert done.stdout.strip() == str(made), done.stderr


def test_a_detected_recipe_counts_in_a_program_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    home = desk.root / "home"
    recipe = home / ".config" / "pysandbox" / "recipes" / "chain.toml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text('[recipe]\nmatch_prefix = ["$HOME/.chain"]\n[filesystem]\nallow = ["$HOME/.chain"]\n')
    program = script(home / ".chain" / "bin" / "mine", "/bin/sh", "echo it ran")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert run(["mine"]).stdout == run([program]).stdout == "it ran\n"
    recipe.unlink()
    with pytest.raises(StartError):
        run(["mine"])


def test_a_program_is_looked_for_where_it_is_started(desk: Desk) -> None:
    made = environment(desk.tools / "env")
    assert run(["./bin/python", "-c", WHERE], cwd=made).stdout.strip() == str(made)


def test_what_a_session_shows_of_the_path_is_found_by_name(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    granted, other = desk.tools / "granted" / "bin", desk.tools / "other" / "bin"
    for directory in (granted, other):
        script(directory / f"of_{directory.parent.name}", "/bin/sh", "echo it ran")
    monkeypatch.setenv("PATH", f"{granted}:{other}:/usr/bin:/bin")
    policy = Policy(allow=[str(granted)])
    assert run("of_granted", policy, shell=True).stdout == "it ran\n"
    assert run("of_other", policy, shell=True).exit_code == 127
    with Cage(policy) as cage:
        assert cage.run(["of_granted"]).stdout == cage.run("of_granted", shell=True).stdout == "it ran\n"
        assert cage.run("echo $PATH", shell=True).stdout.split(":")[:1] == [str(granted)]
        assert cage.run("echo $PATH", shell=True, env={"PATH": "/bin"}).stdout == "/bin\n", "what was said counts"
        joined = cage.cmd(["echo", "x"]) | cage.cmd("cat; of_granted", shell=True)
        assert joined.run().stdout == "x\nit ran\n"
    with Cage(Policy(allow=[str(granted)], env={"PATH": "/usr/bin"})) as cage:
        assert cage.run(["sh", "-c", "echo $PATH"]).stdout == "/usr/bin\n"


def test_a_path_that_changes_is_shown_as_it_is_now(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = desk.tools / "first", desk.tools / "second"
    for directory in (first, second):
        script(directory / "mine", "/bin/sh", f"echo {directory.name}")
    policy = Policy(allow=[str(desk.tools)])
    for path, expected in ((f"{first}:{second}", "first"), (f"{second}:{first}", "second"), ("/usr/bin", "")):
        monkeypatch.setenv("PATH", f"{path}:/bin")
        assert run("mine", policy, shell=True).stdout.strip() == expected
    monkeypatch.setenv("PATH", f"{desk.tools}/link:/bin")
    (desk.tools / "link").symlink_to(first)
    assert run("mine", policy, shell=True).stdout == "first\n"
    (desk.tools / "link").unlink()
    (desk.tools / "link").symlink_to("/usr/bin")
    assert str(desk.tools) not in run("echo $PATH", policy, shell=True).stdout, "it is the system's now"


def test_what_a_session_can_write_is_not_on_its_path(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = desk.tools / "bin"
    script(tools / "mine", "/bin/sh", "echo it ran")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    with Cage(Policy(allow=[str(tools)], allow_write=[str(desk.tools)])) as cage:
        assert str(tools) not in cage.run("echo $PATH", shell=True).stdout
