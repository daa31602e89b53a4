"""`pysandbox init` and `pysandbox update`: recipes from a git repository or a directory, into the user's own.

Fetching is a choice: the package works without. Every file is read strictly and, unless --no-verify says otherwise,
held against the list SHA256SUMS beside it, before the first one is written; base and default are never taken, for they
would stand under every run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import suppress

from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.progress import Progress
from pysandbox.errors import PolicyError
from pysandbox.policy.places import OURS, config_home
from pysandbox.policy.reading import contents, decoded, sha256
from pysandbox.policy.search import KINDS, RESERVED, known
from pysandbox.policy.sources import parse_recipe
from pysandbox.policy.user_home import make_own

SUMS = "SHA256SUMS"
FOLDERS = ("", *KINDS.values())
PATIENCE = 120  # seconds for git
BAD = ("fatal:", "error:", "git:", "remote: ERROR")  # how a line of git's begins that says what is wrong
FAILED = 1

EPILOG = """\
SOURCE is a directory, a URL that git understands, or OWNER/NAME on GitHub. Recipes are the *.toml files at its top or
in its folder recipes/, with services/ and tools/ below; SHA256SUMS (sha256sum *.toml */*.toml) stands beside them.

Examples:
  pysandbox init ../team-recipes
  pysandbox init https://git.example.com/team/recipes.git --branch stable
  pysandbox update --repo team/recipes
"""
BY_HAND = """\
git is not installed. To fetch the recipes by hand:
  1. download {source} and unpack it
  2. compare the checksums: sha256sum -c SHA256SUMS
  3. copy its *.toml files, but for base.toml and default.toml, to {target}
or, with what was unpacked: pysandbox init DIRECTORY"""


class FetchError(PolicyError):
    """What was fetched cannot be used."""


def fetch(command: str, arguments: list[str]) -> int:
    """Both commands: what is there already is replaced, so the first time is like every other."""
    try:
        namespace = parser_of(command).read(arguments)
        source = namespace.source or namespace.repo
        if not source or (namespace.source and namespace.repo):
            raise UsageError("name one source: a directory, a URL, or OWNER/NAME on GitHub")
        if source.startswith("-") or (namespace.branch or "").startswith("-"):
            raise UsageError("a source and a branch do not begin with a dash")
    except UsageError as wrong:
        return console.usage_error(str(wrong), f"pysandbox {command} --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    return _fetch(namespace, source)


def parser_of(command: str) -> Parser:
    declared = Parser(f"pysandbox {command}", "Fetch recipes into your own directory of recipes.", EPILOG)
    declared.usage = f"pysandbox {command} [flags] SOURCE"
    add = declared.add_argument
    add("source", nargs="?", metavar="SOURCE", help="A directory, a URL, or OWNER/NAME on GitHub.")
    add("--repo", metavar="SOURCE", help="The same as SOURCE.")
    add("--branch", metavar="NAME", help="The branch or tag to fetch.")
    add("--no-verify", action="store_true", help="Take files that SHA256SUMS does not vouch for.")
    add("--json", action="store_true", help="Print one JSON document.")
    return declared


def _fetch(namespace: Namespace, source: str) -> int:
    target = os.path.join(config_home(known(os.environ)), OURS, "recipes")
    if os.path.isdir(source) and not _is_repository(source):
        return _install(namespace, source, target)
    with tempfile.TemporaryDirectory(prefix="pysandbox-fetch-") as folder:
        try:
            with Progress(f"fetching {source}"):
                failure = _clone(_url(source), namespace.branch, folder)
        except FileNotFoundError:
            console.error(f"cannot fetch {source}: git is not installed")
            console.out(*BY_HAND.format(source=_url(source), target=target).splitlines())
            return FAILED
        if failure is not None:
            console.error(f"git clone failed: {failure}; nothing was changed, and the shipped recipes work without it")
            return FAILED
        return _install(namespace, folder, target)


def _is_repository(directory: str) -> bool:
    """A bare one: there is no file to copy."""
    return os.path.isfile(os.path.join(directory, "HEAD")) and os.path.isdir(os.path.join(directory, "objects"))


def _url(source: str) -> str:
    owner, slash, name = source.partition("/")
    short = slash and owner and name and "/" not in name and ":" not in source and not os.path.exists(source)
    return f"https://github.com/{source}.git" if short and "." not in owner else source


def _clone(url: str, branch: str | None, folder: str) -> str | None:
    """What git said when it failed. No hook of the repository runs at a clone; no prompt may wait."""
    command = ["git", "-c", "protocol.ext.allow=never", "-c", "core.symlinks=false", "clone", "--quiet", "--depth", "1"]
    command += [*(("--branch", branch) if branch else ()), "--", url, folder]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PATIENCE,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE} s"
    return None if done.returncode == 0 else _reason(done.stderr) or f"exit code {done.returncode}"


def _reason(said: str) -> str:
    """The line in which git first says what is wrong; consequences and advice follow it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith(BAD)]
    return (wrong or lines or [""])[0]


def _install(namespace: Namespace, source: str, target: str) -> int:
    below = os.path.join(source, "recipes")
    root = below if os.path.isdir(below) else source
    files = dict(_recipes(root))
    if not files:
        raise FetchError("holds no recipes", file=root, suggestion="its *.toml files belong at the top or in recipes/")
    if not namespace.no_verify:
        _verify(files, root)
    for name, content in files.items():
        parse_recipe(decoded(content, name), name)
    for name, content in files.items():
        _write(os.path.join(target, name), content)
    if namespace.json:
        document = {"directory": target, "recipes": list(files), "verified": not namespace.no_verify}
        console.document(document, indent=2)
    else:
        checked = "not verified" if namespace.no_verify else "verified"
        console.out(f"{len(files)} recipes ({checked}) in {target}: {', '.join(files)}")
    return 0


def _recipes(root: str) -> Iterator[tuple[str, bytes]]:
    """(relative name, bytes) of every recipe; a symlink could bring in any file of this host, and is passed over."""
    for folder in FOLDERS:
        try:
            names = sorted(os.listdir(os.path.join(root, folder)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for name in names:
            path = os.path.join(root, folder, name)
            plain = os.path.isfile(path) and not os.path.islink(path) and not os.path.islink(os.path.join(root, folder))
            reserved = not folder and name.removesuffix(".toml") in RESERVED
            if name.endswith(".toml") and not name.startswith(".") and plain and not reserved:
                yield os.path.join(folder, name), contents(path)


def _verify(files: Mapping[str, bytes], root: str) -> None:
    sums = _sums(root)
    for name, content in files.items():
        if name not in sums:
            raise FetchError(f"{name} is not in {SUMS}", file=root, suggestion="take it all the same: --no-verify")
        if sums[name] != sha256(content):
            raise FetchError(
                f"{name} does not have the checksum of {SUMS}: it was changed, or damaged on its way",
                file=root, suggestion="fetch again, or ask whoever keeps it; nothing was written",
            )  # fmt: skip


def _sums(root: str) -> dict[str, str]:
    path = os.path.join(root, SUMS)
    if not os.path.isfile(path):
        raise FetchError(f"has no {SUMS}", file=root, suggestion="take it all the same: --no-verify")
    lines = (line.split(maxsplit=1) for line in decoded(contents(path), path).splitlines() if line.strip())
    return {
        pair[1].lstrip("*").removeprefix("./").removeprefix("recipes/"): pair[0] for pair in lines if len(pair) == 2
    }


def _write(path: str, content: bytes) -> None:
    with suppress(FileExistsError):
        make_own(os.path.dirname(path))
    with open(f"{path}.new", "wb") as stream:
        stream.write(content)
    os.replace(f"{path}.new", path)
