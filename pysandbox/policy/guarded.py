"""The files that a cage must not write even where it was granted the directory around them, by name: what steers the
next run, or is obeyed by programs of the host that nobody started on purpose.

A hook or a configuration of git names commands (core.fsmonitor, an alias) that `git status` runs; an editor runs tasks
when a directory is opened, a shell its start files, direnv its .envrc, a prompt the compiler that rust-toolchain.toml
names. What is run when somebody builds or tests is not of this table: `workspace.risk` marks it.

`filesystem.unguarded` opens them, each by the word that is the key here. `pysandbox.toml` and `.pysandbox` have no
word. What is not there yet cannot be covered, so of git this closes the ways that any repository has, not those that
begin with a new file (.git/commondir, a repository inside). Which of them there are on a host is for `probe.guards` to
find; what is done about them for `compile.guards`.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pysandbox.policy.below import covers
from pysandbox.shapes import dataclass

POLICY_FILES = ("pysandbox.toml", ".pysandbox")
GIT, OURS = ".git", "pysandbox"

# The guarded names in a git directory. config.worktree and commondir lead git to another configuration.
GIT_FILES = ("hooks", "config", "config.worktree", "commondir")

PROJECT: Mapping[str, tuple[str, ...]] = {
    ".gitmodules": (".gitmodules",),
    ".envrc": (".envrc",),
    # Run by hooks of git that are installed once, at the next commit of whoever.
    ".husky": (".husky",),
    ".githooks": (".githooks",),
    ".pre-commit-config.yaml": (".pre-commit-config.yaml",),
    "lefthook": ("lefthook.yml",),
    # Read by an editor that opens the directory, or a file in it: tasks, and which language server to start.
    ".vscode": (".vscode",),
    ".idea": (".idea",),
    ".cursor": (".cursor",),
    ".devcontainer": (".devcontainer",),
    ".zed": (".zed",),
    ".helix": (".helix",),
    # Which compiler `rustc --version` is, and what stands before it: prompts and language servers ask.
    ".cargo": (".cargo/config.toml",),
    "rust-toolchain": ("rust-toolchain.toml", "rust-toolchain"),
    # Read by agents: hooks, and servers that they start.
    ".mcp.json": (".mcp.json",),
    ".claude": (".claude/settings.json", ".claude/settings.local.json", ".claude/hooks"),
    ".codex": (".codex",),
    ".gemini": (".gemini/settings.json",),
    ".opencode": ("opencode.json", ".opencode/plugin", ".opencode/plugins"),
}

# Below the home directory: start files of shells and sessions, keys, and directories of programs. A grant of one of
# them by its own path opens it.
HOME: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in (
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".xprofile", ".xsession", ".xsessionrc", ".xinitrc", ".pam_environment",
        ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".screenrc",
        ".ssh", ".gnupg", ".gitconfig", ".vimrc", ".vim", ".emacs", ".emacs.d", ".tmux.conf", ".claude.json",
        ".config/git", ".config/fish", ".config/zsh", ".config/systemd", ".config/autostart", ".config/environment.d",
        ".config/direnv", ".config/mise", ".config/starship.toml", ".config/tmux", ".config/nvim", ".config/emacs",
        ".config/helix", ".config/zed", ".config/Code", ".local/bin", ".local/share/systemd",
        ".local/share/applications", ".local/share/dbus-1", "bin",
    )},
}  # fmt: skip

WORDS = tuple(dict.fromkeys((GIT, *PROJECT, *HOME, OURS)))


@dataclass(frozen=True, slots=True)
class Guard:
    """A path inside the writable directory `tree` (both real paths) that the grant does not open. `word`: what opens it
    in `filesystem.unguarded`. `hide`: not read either. `only_file`: not where it is a directory."""

    path: str
    word: str
    tree: str
    hide: bool = False
    only_file: bool = False


def named(tree: str, home: str, closed: Iterable[str]) -> Iterator[Guard]:
    """The guards that are known by their name alone, for one writable directory, by real paths. `closed`: the words."""
    for word in closed:
        for name in PROJECT.get(word, ()):
            yield Guard(f"{tree}/{name}", word, tree)
        for name in HOME.get(word, ()):
            path = f"{home}/{name}"
            if path != tree and covers(tree, path):
                yield Guard(path, word, tree)


def of_repository(git: str, tree: str, *, bare: bool = False) -> Iterator[Guard]:
    """The guards of one git directory; `.git` itself may be a file, which says where that directory is."""
    if not bare:
        yield Guard(git, GIT, tree, only_file=True)
    yield from (Guard(f"{git}/{name}", GIT, tree) for name in GIT_FILES)


def hidden(tree: str) -> Iterator[Guard]:
    """What no cage reads either."""
    yield from (Guard(f"{tree}/{name}", "", tree, hide=True) for name in POLICY_FILES)
