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
# What a decided call may lead to: (file, function) -> why it lends nothing; the rows of csrc/host/emulate/table.c
# first.
EFFECTS: dict[tuple[str, str], str] = {
    ("emulate.c", "connect"): "row: no capability is asked",
    ("emulate.c", "bind"): "row: low ports are refused",
    ("emulate.c", "listen"): "row: no capability is asked",
    ("emulate.c", "sendto"): "row: no capability is asked; netlink by netlink.c",
    ("door.c", "socket"): "a listener on our loopback for one connect, closed before the call is answered",
    ("door.c", "setsockopt"): "on that listener; on the caller's own, that it connects now and not later",
    ("door.c", "bind"): "that listener, to a port of the kernel's choosing",
    ("door.c", "listen"): "that listener",
    ("door.c", "accept4"): "on that listener; whoever is not the caller is closed",
    ("door.c", "connect"): "the caller's own socket, to nowhere: what could not be handed over is undone",
    ("door.c", "send_descriptors"): "the other end of the caller's connection, to the gatekeeper",
    ("message.c", "sendmsg"): "row: ancillary data by a list; netlink by netlink.c",
    ("netlink.c", "bind"): "row: no groups, a number of our choosing",
    ("unix.c", "SYS_openat2"): "a path, without powers (drop_effective_caps), O_PATH, below the caller's root",
    ("direct.c", "socket"): "a plain one of the host's network, which any process may have",
    ("direct_filter.c", "setsockopt"): "on that socket: a filter, and its lock",
    ("direct_options.c", "setsockopt"): "on that socket, without powers: what the caller had set on its own",
    ("direct_options.c", "socket"): "plain ones, to ask for defaults",
    ("direct_own.c", "socket"): "our own question to the kernel",
    ("direct_own.c", "send"): "the same",
    ("target.c", "SYS_pidfd_open"): "the caller",
    ("target.c", "SYS_pidfd_getfd"): "the caller's descriptor, which it named",
    ("target.c", "open"): "the caller's /proc: for reading, its root, and its memory for the lengths of sendmmsg",
    ("target.c", "process_vm_readv"): "the caller's memory",
    ("target.c", "process_vm_writev"): "the same, of a caller whose memory cannot be opened and that waits still",
    ("target.c", "pwrite"): "the lengths of sendmmsg, in memory that was opened",
    ("target.c", "SYS_pidfd_send_signal"): "SIGPIPE, to a caller that waits still",
    ("target.c", "SYS_tkill"): "the same, before Linux 6.9",
    ("program.c", "SYS_openat2"): "what the caller is about to execute, O_PATH, below its root, to say its whole path",
    ("paths.c", "SYS_openat2"): "what the call names, O_PATH, below its root, to say what it will be answered",
    ("paths.c", "SYS_faccessat2"): "a question, about that file",
}
CALLS = re.compile(
    r"(?<![\w.>])(connect|bind|listen|accept4?|sendto|sendm?msg|send|send_descriptors|setsockopt|socket|shutdown|setns|unshare|mount|"
    r"open|openat2?|fopen|opendir|unlink\w*|mkdir\w*|chmod|chown|kill|tgkill|prctl|set[re]*[ug]id|"
    r"process_vm_readv|process_vm_writev|pwrite|ptrace)\(|syscall\((SYS_\w+)"
)
HARMLESS = frozenset(("SYS_capget", "SYS_capset"))


def code(path: Path) -> str:
    """Without comments and texts."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", path.read_text(), flags=re.DOTALL)


def on_behalf() -> list[Path]:
    """The files of the path on behalf, by what they include; the exec's own tracer is another matter."""
    includes = re.compile(r'#include "(?:[.\w/]*/)?(emulate|borrowed|answers|pending_calls|cages|direct|notifier)\.h"')
    found = [path for path in HOST.rglob("*.c") if includes.search(path.read_text())]
    return sorted({*found, HOST / "notify" / "target.c"} - {HOST / "relay" / "cut.c"})


def test_every_effect_on_behalf_is_written_down() -> None:
    found = set()
    for path in on_behalf():
        for plain, raw in CALLS.findall(code(path)):
            if (plain or raw) not in HARMLESS:
                found.add((path.name, plain or raw))
    assert found == set(EFFECTS)


def test_nothing_on_behalf_closes_a_descriptor_of_a_caged_process() -> None:
    """Construction: where borrowed.h is included close(2) does not compile. This looks that nobody went around it."""
    assert "#pragma GCC poison close" in (HOST / "notify" / "borrowed.h").read_text()
    for path in on_behalf():
        text = code(path)
        assert ("MAY_CLOSE" in text) == (path.name == "borrowed.c"), path.name
        assert not re.search(r"SYS_close|close_range|dup2|dup3|fclose\(.*socket", text), path.name
        if path.name not in ("borrowed.c", "target.c"):
            assert not re.search(r"(?<!\w)close\(", text), path.name


def test_a_class_without_an_action_is_refused() -> None:
    assert lib.PSB_ACTION_REFUSE == 0
    assert len(ffi.new("struct psb_rules *").action) == lib.PSB_CALL_CLASSES


def test_the_facts_of_a_call_are_const_and_a_forgotten_one_opens_nothing() -> None:
    """Construction: what writes a fact of a call that has begun does not compile, and nobody casts it away; zero is an
    address of which nobody asked whose it is, and a route that leads nowhere."""
    assert "const struct call_facts facts;" in (HOST / "emulate" / "emulate.h").read_text()
    assert re.search(r"enum address_owner \{\s*OWNER_UNKNOWN,", (HOST / "emulate" / "call_facts.h").read_text())
    for path in on_behalf():
        assert not re.search(r"\(struct call_facts \*\)", code(path)), path.name
    assert "!req->route.reach) return refuse(req)" in (HOST / "emulate" / "emulate.c").read_text()


def test_powers_are_laid_down_in_one_place() -> None:
    users = {path.name for path in HOST.rglob("*.c") if re.search("SYS_capset|capset\\(", code(path))}
    assert users == {"effective_caps.c"}
    assert "geteuid" not in code(HOST / "notify" / "effective_caps.c")


NUMBERS = re.compile(
    r"process_vm_(?:read|write)v|pidfd_getfd|pidfd_open|SYS_tkill|SYS_tgkill|getsid|"
    r'"/proc/%d|->tid\b|\.tid\b'
)
# Beside target.c, who may speak of a thread by its number: (file, what) -> why nothing of another process is met.
BY_NUMBER: dict[tuple[str, str], str] = {
    ("event_queue.c", ".tid"): "told, and nothing else",
    ("refusals.c", ".tid"): "told, and nothing else",
    ("receive.c", ".tid"): "compared with cage-init's, which lives as long as the cage",
    ("notify.c", ".tid"): "is_init: the answer goes by the notification",
    ("image.c", "->tid"): "ptrace(2), which knows numbers alone; a tracee keeps its own",
    ("image.c", ".tid"): "a tracee keeps its number",
    ("answers_exec.c", "->tid"): "of a tracee",
    ("target_access.c", ".tid"): "psb_get_fd: of whoever has the number, which cut.py looks at afterwards",
}


def test_a_caller_is_reached_through_one_file_alone() -> None:
    """A number means another process as soon as its own is gone: target.c pins what it has found by one, and asks the
    kernel then whether the caller still waits. Nobody else goes by a number."""
    found = set()
    for folder in ("notify", "emulate"):
        for path in (HOST / folder).glob("*.[ch]"):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
            found |= {(path.name, each) for each in NUMBERS.findall(text)}
    assert {each for each in found if each[0] != "target.c"} == set(BY_NUMBER)


def test_what_is_opened_or_read_by_a_number_is_held_against_the_notification() -> None:
    """Each way of target.c to a process by its number is followed by the question in the same function."""
    text = re.sub(r"/\*.*?\*/", "", (HOST / "notify" / "target.c").read_text(), flags=re.DOTALL)
    for body in re.findall(r"^\w[^;{}]*\) \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
        by_number = [found.start() for found in re.finditer(r"caller->tid", body)]
        if by_number and not re.search(r"cache->pid\[place\] == caller->tid", body):
            last = [found.start() for found in re.finditer(r"still_is\(caller\)|if_its_own\(caller", body)]
            assert last, body
