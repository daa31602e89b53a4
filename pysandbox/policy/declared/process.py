"""[process]: what runs, as whom, with which variables."""

from __future__ import annotations

from pysandbox.policy.option import Sentence, option
from pysandbox.policy.tighter import executes_less, fewer_processes, shrinks, towards
from pysandbox.shapes import dataclass


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    env: tuple[tuple[str, str], ...] = option(
        "process", "env", "Variables set in the cage, after env_passthrough.",
        default=(), merge="union", tighter=shrinks, flag="--env",
        in_plan=True, listed="Variables set", sentence=Sentence("Runs", "Variables set: {}.", place=3),
    )  # fmt: skip
    env_passthrough: tuple[str, ...] = option(
        "process", "env_passthrough", "Names of host variables the cage inherits; all others are dropped.",
        default=(), merge="union", tighter=shrinks, flag="--env-passthrough", item="variable",
        in_plan=True, listed="Variables passed through",
        sentence=Sentence("Runs", "Variables inherited from the host: {}.",
                          unset="No variable of the host is inherited.", place=2),
    )  # fmt: skip
    allow_execve: tuple[str, ...] = option(
        "process", "allow_execve", "Executables the cage may run, `/dir/*` for a tree; empty allows all.",
        default=(), merge="union", tighter=executes_less, flag="--allow-execve", item="executable",
        in_plan=False, recorded="execute", listed="Executables",
        sentence=Sentence("Runs", "No other program can be executed than {}.", place=1),
    )  # fmt: skip
    max_pids: int | None = option(
        "process", "max_pids", "Most processes and threads at once; further forks fail with EAGAIN.",
        default=None, merge="last", tighter=fewer_processes, flag="--max-pids", minimum=1,
        in_plan=False, recorded="limit", violation="pids", listed="Limits",
        sentence=Sentence("Uses", "At most {} processes and threads exist at once.", unlimited="processes", place=0),
    )  # fmt: skip
    run_as: str = option(
        "process", "run_as", "The user id seen inside: 65534, the caller's own, or 0. None has any power outside.",
        default="nobody", merge="last", tighter=towards("nobody", "self", "root"), flag="--run-as",
        choices=("nobody", "self", "root"),
        in_plan=True,
        sentence=Sentence("Runs", place=0, cases={
            "nobody": "Commands run as nobody (65534).",
            "self": "Commands see their caller's own user id.",
            "root": "Commands see themselves as root (0), with no power outside.",
        }),
    )  # fmt: skip
