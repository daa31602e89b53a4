"""What a reviewer must see first: changes that something of the host will obey later, as marks of one word each. Pure.

A cage writes a hook, a task of an editor, a build file; nothing happens until its user types `git commit`, opens the
directory, runs the tests. The tables name the files by which that is known to happen. They cannot name all: any source
file of a project runs when the project does.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping

from pysandbox.policy.guarded import GIT_FILES, HOME, POLICY_FILES, PROJECT

# The marks, and what each says to a person.
MARKS: Mapping[str, str] = {
    "policy": "is read by pysandbox itself at the next run",
    "guarded": "is obeyed by programs that nobody starts on purpose: it is written only where it is named",
    "runs-on-host": "holds commands that tools of the host run",
    "instructs-agents": "is read by agents as what they are to do",
    "executable": "is new as a program, or was made one",
    "set-id": "asks to run as its owner or group; the bits are not written",
    "leads-out": "is a link that leads out of the tree",
    "hidden-name": "has a name that a terminal does not show as it is",
}

RUN_BY_NAME = frozenset((
    "Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "meson.build", "SConstruct", "BUILD", "WORKSPACE",
    "justfile", "Justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", "Rakefile", "Gemfile", "Procfile",
    "Dockerfile", "Containerfile", "docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml",
    "Vagrantfile", "package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs",
    "pnpm-workspace.yaml", "bunfig.toml", "deno.json", "deno.jsonc", "gulpfile.js", "Gruntfile.js", ".eslintrc.js",
    ".eslintrc.cjs", ".prettierrc.js", ".prettierrc.cjs", ".babelrc.js", ".lintstagedrc", ".lintstagedrc.json",
    "conftest.py", "setup.py", "setup.cfg", "pyproject.toml", "hatch.toml", "pixi.toml", "uv.toml", "pytest.ini",
    "tox.ini", "noxfile.py", "sitecustomize.py", "usercustomize.py", "build.rs", "build.gradle",
    "build.gradle.kts", "gradlew", "mvnw", "pom.xml", ".overcommit.yml", ".gitattributes", ".bazelrc", ".bazeliskrc",
    ".bazelversion", "BUILD.bazel", "WORKSPACE.bazel", "MODULE.bazel",
    ".gitlab-ci.yml", ".travis.yml", "Jenkinsfile", "azure-pipelines.yml", "flake.nix", "default.nix", "shell.nix",
    ".tool-versions", ".nvmrc", ".node-version", ".python-version", ".ruby-version", "mise.toml", ".mise.toml",
    "mise.local.toml", "devbox.json", ".editorconfig", ".lldbinit", ".gdbinit", ".dir-locals.el", ".aider.conf.yml",
    ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", "lefthook.toml", ".lefthook.yml", "opencode.jsonc",
    ".inputrc", ".wgetrc", ".curlrc", ".ssh",
))  # fmt: skip
RUN_BY_END = (".pth", ".service", ".timer", ".desktop", ".code-workspace", ".sublime-project", ".bzl", ".config.js",
              ".config.cjs", ".config.mjs", ".config.ts", ".config.mts")  # fmt: skip
INSTRUCTS = frozenset((b"CLAUDE.md", b"CLAUDE.local.md", b"AGENTS.md", b"AGENTS.override.md", b"GEMINI.md",
                       b".cursorrules", b".windsurfrules", b".clinerules", b".goosehints", b"copilot-instructions.md",
                       ))  # fmt: skip
RUN_BELOW = frozenset((b".github", b".circleci", b".cargo", b".gradle", b".mvn", b".buildkite", b".woodpecker",
                        b".lefthook", b".kiro", b".roo", b".vim"))  # fmt: skip

_NAMES = frozenset(name.encode() for name in RUN_BY_NAME)
_ENDS = tuple(end.encode() for end in RUN_BY_END)
_POLICY = frozenset(name.encode() for name in POLICY_FILES)
_GIT_FILES = frozenset(name.encode() for name in GIT_FILES) | {b"modules", b"worktrees", b"info"}
_GUARDED = tuple((word, name.encode()) for table in (PROJECT, HOME) for word, names in table.items() for name in names
                 if name != "bin")  # fmt: skip
_GUARDED_FIRST = frozenset(name.partition(b"/")[0] for _, name in _GUARDED)

NOBODY_COMMITS = ("policy", "guarded")  # marks of what is written only where it is named


def marks(path: bytes, mode_before: int | None, mode_after: int | None, target: bytes | None,
          unguarded: tuple[str, ...] = ()) -> tuple[str, ...]:  # fmt: skip
    """The marks of one change. A mode is st_mode with its type, None for what is absent; `target`: of a link."""
    found = by_name(path, unguarded)
    if mode_after is not None and stat.S_ISREG(mode_after):
        was = mode_before if mode_before is not None and stat.S_ISREG(mode_before) else 0
        if mode_after & 0o111 and not was & 0o111:
            found += ("executable",)
    if mode_after is not None and mode_after & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(mode_after):
        found += ("set-id",)
    if target is not None and leads_out(path, target):
        found += ("leads-out",)
    return found


def by_name(path: bytes, unguarded: tuple[str, ...] = ()) -> tuple[str, ...]:
    parts = path.split(b"/")
    name = parts[-1]
    found: tuple[str, ...] = ()
    if any(part in _POLICY for part in parts) and "pysandbox" not in unguarded:
        found = ("policy",)
    elif (b".git" in parts and ".git" not in unguarded and _of_git(parts)) or (
        not _GUARDED_FIRST.isdisjoint(parts) and _is_guarded(path, unguarded)
    ):
        found = ("guarded",)
    elif name in _NAMES or name.endswith(_ENDS) or not RUN_BELOW.isdisjoint(parts) or _is_of_a_bare_repository(parts):
        found = ("runs-on-host",)
    elif name in INSTRUCTS or b".claude" in parts:
        found = ("instructs-agents",)
    if not (path.isascii() and path.decode("ascii").isprintable()) and not _is_shown(path):
        found += ("hidden-name",)
    return found


def is_written_by_name_alone(path: bytes, unguarded: tuple[str, ...] = ()) -> bool:
    return not set(NOBODY_COMMITS).isdisjoint(by_name(path, unguarded))


def leads_out(path: bytes, target: bytes) -> bool:
    """Whether a link at `path` names something outside of the tree; the links on its way are not looked at."""
    if target.startswith(b"/"):
        return True
    depth = path.count(b"/")
    for part in target.split(b"/"):
        depth += -1 if part == b".." else 0 if part in (b"", b".") else 1
        if depth < 0:
            return True
    return False


def _of_git(parts: list[bytes]) -> bool:
    """`.git` itself, its directory of hooks, what names commands, and what leads git to another configuration."""
    at = len(parts) - 1 - parts[::-1].index(b".git")
    return at == len(parts) - 1 or parts[at + 1] in _GIT_FILES


def _is_of_a_bare_repository(parts: list[bytes]) -> bool:
    """git takes a directory with such a file for one, and runs what the `config` beside it names."""
    return parts[-1] == b"HEAD" and b".git" not in parts


def _is_guarded(path: bytes, unguarded: tuple[str, ...]) -> bool:
    inside = b"/" + path + b"/"
    return any(b"/" + name + b"/" in inside for word, name in _GUARDED if word not in unguarded)


def _is_shown(path: bytes) -> bool:
    try:
        return path.decode().isprintable()
    except UnicodeDecodeError:
        return False
