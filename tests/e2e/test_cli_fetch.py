"""`pysandbox init` and `update`: from a local bare repository and from a directory; checked first, written after."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MODULE = [sys.executable, "-m", "pysandbox"]
FILES = {
    "team.toml": "strict = true\n",
    "services/ours.toml": '[[host]]\ndomain = "ours.example"\n',
    "base.toml": '[filesystem]\nallow = ["/"]\n',
    "default.toml": '[syscalls]\nallow = ["read"]\n',
}
GIT = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


@pytest.fixture
def call(tmp_path: Path, home: Path) -> Call:
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {"HOME": str(home)}

    def call(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*MODULE, *arguments], cwd=tmp_path, env=env | more, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip

    return call


def source(folder: Path, files: dict[str, str] = FILES) -> Path:
    folder.mkdir()
    sums = ""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        sums += f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
    (folder / "SHA256SUMS").write_text(sums)
    return folder


def repository(tmp_path: Path, branch: str = "main") -> Path:
    """A bare repository of the files above."""
    work = source(tmp_path / "work")
    for command in (["init", "-q", "-b", branch], ["add", "-A"], ["commit", "-q", "-m", "recipes"]):
        subprocess.run([*GIT, "-C", str(work), *command], check=True)
    bare = tmp_path / "recipes.git"
    subprocess.run([*GIT, "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return bare


def fetched(home: Path) -> dict[str, str]:
    root = home / ".config" / "pysandbox" / "recipes"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


WANTED = {name: FILES[name] for name in ("team.toml", "services/ours.toml")}


@pytest.mark.parametrize("command", ["init", "update"])
def test_a_repository_is_cloned_checked_and_copied_but_for_base_and_default(
    call: Call, home: Path, tmp_path: Path, command: str
) -> None:
    bare = repository(tmp_path)
    done = call(command, "--json", str(bare))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] is True
    assert fetched(home) == WANTED
    assert "team" in call("recipe", "list").stdout
    assert call("run", "-r", "team", "--workdir", "none", "--", "true").returncode == 0


def test_a_branch_can_be_named_by_url(call: Call, home: Path, tmp_path: Path) -> None:
    bare = repository(tmp_path, "stable")
    assert call("init", f"file://{bare}", "--branch", "stable").returncode == 0
    assert fetched(home) == WANTED
    missing = call("init", f"file://{bare}", "--branch", "absent")
    assert missing.returncode == 1
    assert "git clone failed" in missing.stderr


def test_a_directory_will_do_and_replaces_what_was_there(call: Call, home: Path, tmp_path: Path) -> None:
    assert call("init", str(source(tmp_path / "one"))).returncode == 0
    changed = {**FILES, "team.toml": "strict = false\n"}
    assert call("update", str(source(tmp_path / "two", changed))).returncode == 0
    assert fetched(home)["team.toml"] == "strict = false\n"


def test_the_users_base_and_baseline_are_never_overwritten(call: Call, home: Path, tmp_path: Path) -> None:
    root = home / ".config" / "pysandbox" / "recipes"
    root.mkdir(parents=True)
    for name in ("base.toml", "default.toml"):
        (root / name).write_text("# mine\n")
    assert call("init", "--no-verify", str(source(tmp_path / "one"))).returncode == 0
    assert fetched(home) == {**WANTED, "base.toml": "# mine\n", "default.toml": "# mine\n"}


def damaged(folder: Path) -> None:
    (folder / "team.toml").write_text("strict = false\n")


def unlisted(folder: Path) -> None:
    (folder / "new.toml").write_text("")


def unsummed(folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()


@pytest.mark.parametrize(
    ("spoil", "words"), [(damaged, "checksum"), (unlisted, "not in SHA256SUMS"), (unsummed, "has no SHA256SUMS")]
)
def test_what_the_checksums_do_not_vouch_for_is_not_taken_unless_asked(
    call: Call, home: Path, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    folder = source(tmp_path / "one")
    spoil(folder)
    done = call("init", str(folder))
    assert done.returncode == 125
    assert words in done.stderr
    assert fetched(home) == {}
    assert call("init", "--no-verify", str(folder)).returncode == 0
    assert "team.toml" in fetched(home)


def test_one_bad_recipe_spoils_the_batch(call: Call, home: Path, tmp_path: Path) -> None:
    done = call("init", str(source(tmp_path / "one", {**FILES, "zz.toml": "[[["})))
    assert done.returncode == 125
    assert "zz.toml" in done.stderr
    assert fetched(home) == {}


def test_a_link_in_the_source_is_not_followed(call: Call, home: Path, tmp_path: Path) -> None:
    folder = source(tmp_path / "one")
    (tmp_path / "secret.toml").write_text("strict = true\n")
    (folder / "stolen.toml").symlink_to(tmp_path / "secret.toml")
    assert call("init", str(folder)).returncode == 0
    assert fetched(home) == WANTED


def test_a_failing_clone_says_so_and_changes_nothing(call: Call, home: Path, tmp_path: Path) -> None:
    done = call("init", f"file://{tmp_path}/absent.git")
    assert done.returncode == 1
    assert "git clone failed" in done.stderr
    assert fetched(home) == {}
    assert "does not appear to be a git repository" in done.stderr  # and not the advice that git ends with
    assert call("run", "-r", "python", "--workdir", "none", "--", "true").returncode == 0


def test_without_git_there_are_instructions(call: Call, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = call("init", "https://example.com/recipes.git", PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert "git is not installed" in done.stderr
    assert "sha256sum -c SHA256SUMS" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["a", "--repo", "b"], ["--repo=--upload-pack=x"], ["x", "--branch=-b"]])
def test_wrong_usage_fetches_nothing(call: Call, home: Path, arguments: list[str]) -> None:
    done = call("init", *arguments)
    assert done.returncode == 125
    assert fetched(home) == {}


def test_a_transport_that_runs_a_program_is_not_allowed(call: Call, tmp_path: Path) -> None:
    done = call("init", f"ext::sh -c touch% {tmp_path}/ran")
    assert done.returncode == 1
    assert not (tmp_path / "ran").exists()
