"""What the C half does for a caged process is written down, call by call; and it never closes where others wait.

Whoever adds a system call to the path on behalf adds a row here, and says what power the kernel asks of it: the host's
user owns the cage's namespaces, and is asked in the cage's stead.
"""

from __future__ import annotations

import re
from pathlib import Path

from pysandbox._native import ffi, lib

from _support.tree import REPOSITORY

HOST = REPOSITORY / "csrc" / "host"
# What a decided call may lead to: (file, function) -> why it lends nothing; the rows of csrc/host/on_behalf.c first.
EFFECTS: dict[tuple[str, str], str] = {
    ("behalf.c", "connect"): "row: no capability is asked",
    ("behalf.c", "bind"): "row: low ports are refused",
    ("behalf.c", "listen"): "row: no capability is asked",
    ("behalf.c", "sendto"): "row: no capability is asked; netlink by behalf_netlink.c",
    ("behalf_message.c", "sendmsg"): "row: ancillary data by a list; netlink by behalf_netlink.c",
    ("behalf_netlink.c", "bind"): "row: no groups, a number of our choosing",
    ("behalf_unix.c", "SYS_openat2"): "a path, without powers (lower_powers), O_PATH, below the caller's root",
    ("behalf_unix.c", "open"): "the caller's root, O_PATH",
    ("direct.c", "socket"): "a plain one of the host's network, which any process may have",
    ("direct_filter.c", "setsockopt"): "on that socket: a filter, and its lock",
    ("direct_options.c", "setsockopt"): "on that socket, without powers: what the caller had set on its own",
    ("direct_options.c", "socket"): "plain ones, to ask for defaults",
    ("direct_own.c", "socket"): "our own question to the kernel",
    ("direct_own.c", "send"): "the same",
    ("direct_table.c", "fopen"): "the caller's /proc, for reading",
    ("direct_table.c", "opendir"): "the same",
    ("guest.c", "SYS_pidfd_open"): "the caller",
    ("guest.c", "SYS_pidfd_getfd"): "the caller's descriptor, which it named",
    ("guest.c", "open"): "the caller's /proc, for reading",
    ("guest.c", "process_vm_readv"): "the caller's memory",
    ("guest.c", "process_vm_writev"): "the caller's memory: the lengths of sendmmsg",
    ("program.c", "open"): "the caller's root, O_PATH",
    ("program.c", "SYS_openat2"): "what the caller is about to execute, O_PATH, below its root, to say its whole path",
    ("answers.c", "SYS_tkill"): "SIGPIPE, to a caller that waits still",
}
CALLS = re.compile(
    r"(?<![\w.>])(connect|bind|listen|accept4?|sendto|sendm?msg|send|setsockopt|socket|shutdown|setns|unshare|mount|"
    r"open|openat2?|fopen|opendir|unlink\w*|mkdir\w*|chmod|chown|kill|tgkill|prctl|set[re]*[ug]id|"
    r"process_vm_readv|process_vm_writev|ptrace)\(|syscall\((SYS_\w+)"
)
HARMLESS = frozenset(("SYS_capget", "SYS_capset"))


def code(path: Path) -> str:
    """Without comments and texts."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", path.read_text(), flags=re.DOTALL)


def on_behalf() -> list[Path]:
    """The files of the path on behalf, by what they include; the exec's own tracer is another matter."""
    includes = re.compile(r'#include "(behalf|borrowed|answers|tickets|guests|direct|notifier)\.h"')
    found = [path for path in HOST.glob("*.c") if includes.search(path.read_text())]
    return sorted({*found, HOST / "guest.c"} - {HOST / "cut.c"})


def test_every_effect_on_behalf_is_written_down() -> None:
    found = set()
    for path in on_behalf():
        for plain, raw in CALLS.findall(code(path)):
            if (plain or raw) not in HARMLESS:
                found.add((path.name, plain or raw))
    assert found == set(EFFECTS)


def test_nothing_on_behalf_closes_a_descriptor_of_a_caged_process() -> None:
    """Construction: where borrowed.h is included close(2) does not compile. This looks that nobody went around it."""
    assert "#pragma GCC poison close" in (HOST / "borrowed.h").read_text()
    for path in on_behalf():
        text = code(path)
        assert ("MAY_CLOSE" in text) == (path.name == "borrowed.c"), path.name
        assert not re.search(r"SYS_close|close_range|dup2|dup3|fclose\(.*socket", text), path.name
        if path.name not in ("borrowed.c", "guest.c"):
            assert not re.search(r"(?<!\w)close\(", text), path.name


def test_a_class_without_an_action_is_refused() -> None:
    assert lib.PSB_ACTION_REFUSE == 0
    assert len(ffi.new("struct psb_rules *").action) == lib.PSB_CALL_CLASSES


def test_powers_are_laid_down_in_one_place() -> None:
    users = {path.name for path in HOST.glob("*.c") if re.search("SYS_capset|capset\\(", code(path))}
    assert users == {"powers.c"}
    assert "geteuid" not in code(HOST / "powers.c")
