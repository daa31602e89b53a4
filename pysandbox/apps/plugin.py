"""The capabilities of document 000's plugins as a Policy (COMP-26): read:fs:./data, net:api.example.com:443,
exec:bash:git status. Pure; one function reads a word, another puts all of them together.

A policy made here is never uncaged: a PluginPolicy without a cage cannot be made, neither by a word of it nor by a
runtime with `no_sandbox`. It holds no more than the words: the project read or written below the named paths, the named
hosts, and the programs of the named commands. `commands` are fixed argv for the host to run; a process of the cage may
execute their programs with other arguments: the kernel's list knows no arguments.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from pysandbox.errors import PolicyError
from pysandbox.policy.expand import quote
from pysandbox.policy.fields import PolicyFields
from pysandbox.policy.model import Policy
from pysandbox.policy.netallow import entry, granted
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.shapes import Any, NamedTuple, Self, dataclass, replace

READ, WRITE, NET, EXEC = "read:fs", "write:fs", "net", "exec:bash"
VERBS = (READ, WRITE, NET, EXEC)
LONGEST = 1024
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
SHELL_WORDS = re.compile(r"[A-Za-z0-9_./:=@%+,-]+(?: [A-Za-z0-9_./:=@%+,-]+)*")  # nothing that a shell expands

PLAIN = re.compile(r"[\w./:@%+*-]*\w|\.")  # no space, no comma, and no full stop at its end

Find = Callable[[str], str | None]  # a program by its name, as shutil.which


class PluginCapability(NamedTuple):
    verb: str
    what: str

    def __str__(self) -> str:
        return f"{self.verb}:{self.what}"

    @property
    def sentence(self) -> str:
        program, path = self.what.partition(" ")[0], in_sentence(self.what)
        return {
            READ: f"read {path} of the project",
            WRITE: f"read and write {path} of the project",
            NET: f"reach {self.what} over the network",
            EXEC: f"run `{self.what}`, which takes bash and {program}, with any arguments of theirs",
        }[self.verb]


@dataclass(frozen=True, kw_only=True)
class PluginPolicy(Policy):
    """A Policy that has a cage, whatever is done to it, and whose grants lead out of its project through no link."""

    project: str = ""

    def __new__(cls, /, *_: Any, project: str = "", **asked: Any) -> Self:
        return super().__new__(cls, **asked)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.caged:
            hint = "run it with a runtime that has cages"
            raise PolicyError("a plugin is never run without a cage", key="caged", suggestion=hint)

    def merge(self, other: PolicyFields) -> Self:
        merged: Self = replace(super().merge(other), project=self.project)
        return merged

    @property
    def strangers(self) -> tuple[str, ...]:
        """Directories, by their real paths, in which no grant follows a link (runtime/plans.py): a policy of another
        kind has none."""
        return (os.path.realpath(self.project),) if self.project else ()


@dataclass(frozen=True, slots=True)
class CompiledPlugin:
    """What a plugin may be run with. `commands`: the argv of each exec:bash: word, by its text."""

    policy: PluginPolicy
    commands: Mapping[str, tuple[str, ...]]


def in_sentence(text: str) -> str:
    """A name as a sentence has it: in quotes where it could end the sentence, or begin another."""
    return text if PLAIN.fullmatch(text) else shown(text)


def is_plugin_word(word: str) -> bool:
    return ":" in word


def parse_capability(word: object) -> PluginCapability:
    """Raises CommandRefused."""
    if not isinstance(word, str) or len(word) > LONGEST or not word.isprintable():
        raise CommandRefused(f"{shown(word)} is no capability of a plugin", "write read:fs:./data")
    for verb in VERBS:
        if word.startswith(f"{verb}:"):
            return PluginCapability(verb, _READERS[verb](word[len(verb) + 1 :]))
    begun = ":".join(word.split(":")[:2])
    near = did_you_mean(begun, VERBS) or did_you_mean(word.partition(":")[0], VERBS)
    raise CommandRefused(f"{shown(word)} begins with no verb of {', '.join(VERBS)}", near)


def _path(text: str) -> str:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text or text.startswith(("/", "~", "$")) or ".." in parts:
        raise CommandRefused(f"{shown(text)} is not below the project", "write ./DIRECTORY")
    return "/".join((".", *parts))


def _host(text: str) -> str:
    return entry(text)


def _command(text: str) -> str:
    if not SHELL_WORDS.fullmatch(text):
        raise CommandRefused(
            f"{shown(text)} is more than words: it would be for a shell to say what it runs",
            "write the words of one command, a space between them; no quotes, no variables, no pipes",
        )
    if "=" in text.partition(" ")[0] or text.startswith("-"):
        raise CommandRefused(f"{shown(text)} names no program", "begin with the program")
    return text


_READERS: Mapping[str, Callable[[str], str]] = {READ: _path, WRITE: _path, NET: _host, EXEC: _command}


def compile_plugin(
    words: Iterable[PluginCapability], project: str, *, find: Find, programs: Iterable[str] = ()
) -> CompiledPlugin:
    """`programs` may be executed besides: what the plugin itself is started with. Raises PolicyError."""
    words = tuple(dict.fromkeys(words))
    if not project.startswith("/"):
        raise PolicyError(f"{shown(project)} is not an absolute path", key="project")
    hosts, addresses = granted(each.what for each in words if each.verb == NET)
    commands, executables = {}, list(programs)
    for each in words:
        if each.verb == EXEC:
            bash, program = _found("bash", find), _found(each.what.partition(" ")[0], find)
            commands[each.what] = (bash, "-c", shlex.join(("exec", program, *each.what.split(" ")[1:])))
            executables += [bash, program]
    writable = {each.what for each in words if each.verb == WRITE}
    policy = PluginPolicy(
        allow=_grants(project, (each.what for each in words if each.verb == READ and each.what not in writable)),
        allow_write=_grants(project, sorted(writable)),
        hosts=hosts,
        allow_ips=addresses,
        allow_execve=tuple(dict.fromkeys(executables)),
        project=project,
    )
    return CompiledPlugin(policy, commands)


def _grants(project: str, paths: Iterable[str]) -> tuple[Grant, ...]:
    return tuple(Grant(quote(project.rstrip("/") + each[1:] or "/")) for each in paths)


def _found(name: str, find: Find) -> str:
    path = find(name)
    if path is None or not path.startswith("/"):
        raise PolicyError(f"{shown(name)} is no program of this host", key="exec:bash", suggestion="install it")
    return path
