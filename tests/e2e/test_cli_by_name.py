"""What a program's name finds: a detected program runs by its name, and where one is not found the advice works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 60


class Home:
    def __init__(self, root: Path) -> None:
        self.root, self.project = root / "home", root / "project"
        for each in (self.root, self.project):
            each.mkdir()
        self.env = {**os.environ, "HOME": str(self.root), "XDG_CACHE_HOME": str(root / "cache"),
                    "PYSANDBOX_AUDIT": "off"}  # fmt: skip
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(name, None)
        recipe = self.root / ".config" / "pysandbox" / "recipes" / "chain.toml"  # as `cargo`, but by $HOME
        recipe.parent.mkdir(parents=True)
        recipe.write_text('[recipe]\nmatch_prefix = ["$HOME/.chain"]\n[filesystem]\nallow = ["$HOME/.chain"]\n')

    def tool(self, path: str, text: str = "#!/bin/sh\necho it ran\n") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def on_path(self, *directories: str) -> None:
        self.env["PATH"] = ":".join([*(str(self.root / each) for each in directories), os.environ["PATH"]])

    def call(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=cwd or self.project, env=self.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_detected_program_runs_by_its_name(home: Home) -> None:
    home.tool(".chain/bin/mytool")
    home.on_path(".chain/bin")
    for _ in range(3):  # also from a kept plan
        done = home.call("run", "--", "mytool")
        assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr
    (home.project / "pysandbox.toml").write_text('[sandbox.a]\nrecipes = ["python"]\ncommand = "mytool"\n')
    assert home.call("up", "--trust").stdout == "it ran\n"


def test_a_recipe_that_is_found_by_home_speaks_of_that_home(home: Home) -> None:
    """Whose $HOME is not the one of the user database, as in the containers of some CI."""
    home.tool(".cargo/bin/mytool", '#!/bin/sh\ncat "${0%/bin/*}/credentials.toml" || echo it ran\n')
    (home.root / ".cargo" / "credentials.toml").write_text("token")
    home.on_path(".cargo/bin")
    for _ in range(2):
        done = home.call("run", "--", "mytool")
        assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr


def test_a_detected_program_that_is_a_link_runs_by_its_name(home: Home) -> None:
    real = home.tool(".chain/bin/rustup")
    os.symlink(real, real.with_name("cargo"))
    (home.root / "bin").mkdir()
    os.symlink(real, home.root / "bin" / "rustup")
    home.on_path("bin", ".chain/bin")
    assert home.call("run", "--", "cargo").stdout == "it ran\n"
    assert home.call("run", "--", "rustup").stdout == "it ran\n"  # what ~/bin leads to


def test_a_directory_that_the_cage_may_write_is_never_searched(home: Home) -> None:
    home.tool(".chain/bin/mytool")
    home.on_path(".chain/bin")
    done = home.call("run", "--allow-write", str(home.root / ".chain"), "--", "mytool")
    assert done.returncode == 127
    assert home.call("run", "--", "sh", "-c", "echo $PATH").stdout.find(".chain") == -1  # nor for what is not detected


def test_a_path_of_the_policy_s_own_is_kept(home: Home) -> None:
    home.tool(".chain/bin/mytool")
    home.on_path(".chain/bin")
    assert home.call("run", "--env", "PATH=/usr/bin", "--", "mytool").returncode == 127


@pytest.mark.parametrize("text", ["#!/bin/sh\necho it ran\n", None])
def test_the_advice_leads_to_a_run_that_works(home: Home, text: str | None) -> None:
    if text is None:
        file = home.tool("tools/mine", "")
        file.write_bytes(Path("/bin/true").read_bytes())
    else:
        home.tool("tools/mine", text)
    home.on_path("tools")
    done = home.call("run", "--", "mine")
    assert done.returncode == 127
    advice = re.search(r"\((--allow .*)\)$", done.stderr.strip())
    assert advice, done.stderr
    assert "interpreter" not in done.stderr  # which is shown
    assert home.call("run", *shlex.split(advice[1])).returncode == 0


def test_an_interpreter_that_is_hidden_is_named_with_its_script(home: Home) -> None:
    interpreter = home.tool("other/interpreter")
    home.tool("tools/mine", f"#!{interpreter}\n")
    home.on_path("tools")
    said = home.call("run", "--", "mine").stderr
    assert f"and its interpreter {str(interpreter)!r} (--allow" in said


def test_what_is_nowhere_gets_no_advice(home: Home) -> None:
    done = home.call("run", "--", "no-such-program")
    assert done.returncode == 127 and "--allow" not in done.stderr and "check the name" in done.stderr


def test_a_script_without_its_interpreter_says_so(home: Home) -> None:
    script = home.project / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = home.call("run", "--", "./script")
    assert done.returncode == 127
    assert "its interpreter '/no/such/interpreter' does not exist" in done.stderr


# ---- the directory it is run in ------------------------------------------------------------------------------


def test_the_home_directory_is_not_granted_by_default(home: Home) -> None:
    (home.root / ".ssh").mkdir()
    (home.root / ".ssh" / "id").write_text("KEY")
    for cwd in (home.root, home.root.parent):
        done = home.call("run", "--", "cat", f"{home.root}/.ssh/id", cwd=cwd)
        assert (done.returncode, done.stdout) == (125, "")
        assert "your home directory" in done.stderr
        assert "--workdir write" in done.stderr
    # CONTROL: who says so gets it; and nothing of it is granted to who wants nothing of it.
    assert home.call("run", "--workdir", "write", "--", "cat", ".ssh/id", cwd=home.root).stdout == "KEY"
    assert home.call("run", "--workdir", "none", "--", "true", cwd=home.root).returncode == 0


def test_what_is_weaker_is_said_without_being_asked(home: Home) -> None:
    for _ in range(3):  # also from a kept plan
        done = home.call("run", "--isolation", "landlock", "--", "true")
        lines = [line for line in done.stderr.splitlines() if "weaker" in line]
        assert sum("there are no namespaces" in line for line in lines) == 1, done.stderr
    ordinary = home.call("run", "--", "true")
    assert (ordinary.returncode, ordinary.stderr) == (0, "")
    idle = home.call("run", "-r", "pytest", "--host", "a.example", "--", "true")
    assert "weaker: network" in idle.stderr or idle.returncode == 125


def test_what_this_host_has_not_is_not_called_weaker(home: Home) -> None:
    assert "because they do not exist" not in home.call("explain", "--", "true").stdout
    assert "because they do not exist" not in home.call("run", "--json", "--", "true").stdout


def test_the_advice_shows_the_tree_that_a_program_is_part_of(home: Home) -> None:
    home.tool("app/bin/mine", '#!/bin/sh\nexec "$(dirname "$0")/../libexec/real"\n')
    home.tool("app/libexec/real")
    home.on_path("app/bin")
    advice = re.search(r"\((--allow .*)\)$", home.call("run", "--", "mine").stderr.strip())
    assert advice and home.call("run", *shlex.split(advice[1])).stdout == "it ran\n"


def test_the_advice_is_no_grant_of_what_is_shown_already(home: Home) -> None:
    file = home.project / "node_modules" / ".bin" / "mine"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\necho it ran\n")
    file.chmod(0o755)
    home.env["PATH"] = f"{file.parent}:{os.environ['PATH']}"
    said = home.call("run", "--", "mine").stderr.strip()
    assert "--allow" not in said
    advice = re.search(r"\(-- (.*)\)$", said)
    assert advice and home.call("run", "--", advice[1]).stdout == "it ran\n"
    # With nothing of the project shown it is a grant again, and works too.
    advice = re.search(r"\((--allow .*)\)$", home.call("run", "--workdir", "none", "--", "mine").stderr.strip())
    assert advice and home.call("run", "--workdir", "none", *shlex.split(advice[1])).stdout == "it ran\n"


def test_what_is_denied_gets_no_advice(home: Home) -> None:
    file = home.tool("tools/mine")
    said = home.call("run", "--deny", str(file.parent), "--", str(file)).stderr
    assert "--allow" not in said and "denies" in said


def test_a_link_of_the_project_calls_for_no_recipe(home: Home) -> None:
    home.tool(".chain/bin/mytool")
    (home.project / "mine").symlink_to(home.root / ".chain/bin/mytool")
    assert home.call("run", "--", "./mine").returncode == 127
    assert home.call("run", "--", str(home.root / ".chain/bin/mytool")).returncode == 0  # CONTROL
