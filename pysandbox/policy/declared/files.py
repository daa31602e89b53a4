"""[filesystem]: what a cage sees, and what it may write."""

from __future__ import annotations

from pysandbox.policy.option import Grant, Sentence, option
from pysandbox.policy.tighter import hides_more, keeps_apart, reads_less, shrinks, towards, writes_less
from pysandbox.shapes import dataclass


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    allow: tuple[Grant, ...] = option(
        "filesystem", "allow", "Paths visible in the cage, read-only.",
        default=(), merge="union", tighter=reads_less, flag="--allow",
        in_plan=True, recorded="read", listed="Read-only", sentence=Sentence("Reads", "Visible and read-only: {}."),
    )  # fmt: skip
    allow_write: tuple[Grant, ...] = option(
        "filesystem", "allow_write", "Paths visible and writable; changes reach the host.",
        default=(), merge="union", tighter=writes_less, flag="--allow-write",
        in_plan=True, recorded="write", listed="Writable",
        sentence=Sentence("Writes", "Writable, with changes that reach the host: {}.", place=1),
    )  # fmt: skip
    deny: tuple[Grant, ...] = option(
        "filesystem", "deny", "Paths never readable or writable, also inside an allowed directory.",
        default=(), merge="union", tighter=hides_more, flag="--deny",
        in_plan=True, recorded="deny", listed="Denied", sentence=Sentence("Reads", "Never readable or writable: {}."),
    )  # fmt: skip
    mask: tuple[Grant, ...] = option(
        "filesystem", "mask", "Files shown empty (as /dev/null) and directories shown empty and read-only.",
        default=(), merge="union", tighter=hides_more, flag="--mask",
        in_plan=True, recorded="mask", listed="Shown empty", sentence=Sentence("Reads", "Shown empty: {}."),
    )  # fmt: skip
    workdir: str = option(
        "filesystem", "workdir", "How the current directory appears in the cage.",
        default="none", merge="last", tighter=towards("none", "read", "cow", "write"), flag="--workdir",
        choices=("none", "read", "write", "cow"),
        in_plan=True,
        sentences=(
        Sentence("Reads", place=1, cases={
            "none": "The current directory is not visible unless it is granted.",
            "read": "The current directory is visible and read-only.",
            "cow": "The current directory is writable, and what is written stays apart from the host's.",
        }),
        Sentence("Writes", place=0, cases={
            "write": "The current directory is writable, but for git's hooks and config; policy files in it are "
                     "hidden.",
        }, alone={
            "write": "The current directory is writable, with git's hooks and config and the policy files in it.",
        }),
        ),
    )  # fmt: skip
    cow: tuple[Grant, ...] = option(
        "filesystem", "cow", "Directories visible and writable; what is written stays apart from the host's until "
        "it is committed.",
        default=(), merge="union", tighter=keeps_apart, flag="--cow",
        in_plan=True, recorded="cow", listed="Copy-on-write",
        sentence=Sentence("Writes", "Writable, with changes that stay apart from the host's until they are "
                          "committed: {}.", place=1),
    )  # fmt: skip
    unguarded: tuple[str, ...] = option(
        "filesystem", "unguarded", "Names of guarded files that writable grants open all the same, such as .vscode "
        "or .git; without it they are read-only in every cage.",
        default=(), merge="union", tighter=shrinks, flag="--unguard", item="guard",
        in_plan=True,
    )  # fmt: skip
    base: bool = option(
        "filesystem", "base", "Mount the system directories that any program needs (recipe `base`).",
        default=True, merge="last", tighter=towards(False, True), flag="--base",
        in_plan=True,
        sentence=Sentence("Reads", place=0, cases={
            True: "The system directories that programs need are visible and read-only.",
        }),
    )  # fmt: skip
    state: str = option(
        "filesystem", "state", "Whether /scratch is fresh for every cage or shared by the cages of one session.",
        default="ephemeral", merge="last", tighter=towards("ephemeral", "scratch"), flag="--state",
        choices=("ephemeral", "scratch"),
        in_plan=False,
        sentence=Sentence("Writes", cases={
            "ephemeral": "Also writable: /tmp and /scratch, which are the cage's own and vanish with it.",
            "scratch": "Also writable: /tmp, which vanishes with the cage, and /scratch, which its session shares.",
        }, alone={"ephemeral": "", "scratch": ""}),
    )  # fmt: skip
