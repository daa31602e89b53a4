"""Run one attack in a cage and without one, and read what it says.

An attack is a Python program (`program`) or a C program (`attacks/*.c`, built once per session by the fixture
`attack_bin`). Either prints one JSON object a line, {"try": name, "errno": "EPERM" or null, "value": ...}, read here
into a `Report`. Nothing here knows what a cage should refuse: that is in the tests, as tables of errno names.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import os
import re
import select
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pysandbox
from pysandbox.policy.model import Policy

PYTHON = "/usr/bin/python3"
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
LOADER = next(path for path in LOADERS if os.path.exists(path))  # the dynamic linker, which can be given a program
OWN_PROC = {"full": (), "landlock": ("/proc",)}  # without namespaces a process must be granted the sight of itself
PATIENCE = 60.0  # seconds until an attack counts as hanging
SLOWNESS = 30 if "PSB_GUEST" in os.environ else 1  # how much longer an emulated processor may take than a promise says
PRELUDE = Path(__file__).with_name("attacks") / "prelude.py"
YOUNG = {"fchmodat2": 452, "map_shadow_stack": 453, "open_tree_attr": 467}  # newer than Debian 12's headers
SILENCE = "silence"  # of attacks/prelude.py: nobody answered, which is no refusal
SAID = '{"try"'  # how a line of evidence begins; a terminal may have echoed something before it
Expected = Mapping[str, str | Sequence[str | None] | None]  # an errno name, None for success, or several of these


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line an attack said: `errno` is None when it worked."""

    name: str
    errno: str | None
    value: Any


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one attack said. `result` is None for an uncaged run."""

    attempts: Mapping[str, Attempt]
    exit_code: int
    stderr: str
    result: pysandbox.Result | None = None

    def __getitem__(self, name: str) -> Attempt:
        assert name in self.attempts, f"the attack never tried {name!r}; exit {self.exit_code}, stderr: {self.stderr}"
        return self.attempts[name]

    def differs(self, expected: Expected) -> dict[str, tuple[object, object]]:
        """{name: (what came back, what was expected)} for every attempt that went otherwise; {} is the claim."""
        wrong: dict[str, tuple[object, object]] = {}
        for name in {*expected, *self.attempts}:
            want = expected.get(name, "not in the table")
            got = self.attempts[name].errno if name in self.attempts else f"never tried; stderr: {self.stderr}"
            if got not in ((want,) if want is None or isinstance(want, str) else want):
                wrong[name] = (got, want)
        return wrong


def read_report(exit_code: int, stdout: str, stderr: str, result: pysandbox.Result | None = None) -> Report:
    said = [json.loads(line[line.index(SAID) :]) for line in stdout.splitlines() if SAID in line]
    broke = [each["broke"] for each in said if "broke" in each]
    assert not broke, f"the attack broke off, and shows nothing: {broke[0]}"
    attempts = {each["try"]: Attempt(each["try"], each["errno"], each["value"]) for each in said}
    return Report(attempts, exit_code, stderr, result)


@functools.cache
def syscall_numbers() -> dict[str, int]:
    """Name to number as this machine's own headers have it: independent of the tables under test."""
    defines = subprocess.run(
        ["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.findall(r"^#define __NR_(\w+) (\d+)$", defines, re.MULTILINE)
    return {**YOUNG, **{name: int(number) for name, number in found}}


def program(*bodies: str, **names: object) -> list[str]:
    """argv of a Python attack: `names` are defined as literals, then the prelude, then the bodies."""
    head = "".join(f"{name} = {value!r}\n" for name, value in {**names, "NR": syscall_numbers()}.items())
    attack = "\n".join(textwrap.dedent(body) for body in bodies)
    unbound = never_bound(PRELUDE.read_text() + attack) - names.keys() - {"NR"}
    assert not unbound, f"the attack uses what it never defines: {sorted(unbound)}"
    return [PYTHON, "-I", "-S", "-c", head + PRELUDE.read_text() + attack]


@functools.cache
def never_bound(text: str) -> frozenset[str]:
    """The names that a program reads and nothing in it defines: an attack that ends there attacks nothing."""
    read: set[str] = set()
    bound = set(dir(builtins))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
    return frozenset(read - bound)


def policy(isolation: str = "full", **options: Any) -> Policy:
    """A Policy for a test: str for Grant, and in landlock mode the only identity it has."""
    if isolation == "landlock":
        options.setdefault("run_as", "self")
    return Policy(isolation=isolation, **options)  # type: ignore[arg-type]  # two words of it


def uncaged(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None,
            pass_fds: Sequence[int] = (), stdin: Any = subprocess.DEVNULL) -> Report:  # fmt: skip
    """The CONTROL: the same attack with no cage."""
    done = subprocess.run(
        list(argv), env=None if env is None else dict(env), cwd=cwd, pass_fds=tuple(pass_fds), stdin=stdin,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    return read_report(done.returncode, done.stdout, done.stderr)


def caged(argv: Sequence[str], rules: Policy, **options: Any) -> Report:
    """The ATTACK: one command in a cage of its own."""
    options.setdefault("stdin", pysandbox.DEVNULL)
    return of_result(pysandbox.run(list(argv), policy=rules, timeout=PATIENCE, **options))


def in_cage(cage: pysandbox.Cage, argv: Sequence[str], **options: Any) -> Report:
    """The ATTACK: one more command of a session."""
    options.setdefault("stdin", pysandbox.DEVNULL)
    return of_result(cage.run(list(argv), timeout=PATIENCE, **options))


def of_result(result: pysandbox.Result) -> Report:
    return read_report(result.exit_code, str(result.stdout), str(result.stderr), result)


def has_own_processes(cage: pysandbox.Cage) -> bool:
    """Whether pid 1, as the cage sees it, is the cage's own."""
    return str(cage.run(["/bin/readlink", "/proc/self/ns/pid"]).stdout).strip() != os.readlink("/proc/self/ns/pid")


def names_it(result: pysandbox.Result, word: str) -> bool:
    """Whether the run's notes own up to this gap."""
    return any(word in str(note).lower() for note in result.notes)


def token() -> str:
    """A string that exists nowhere else on this machine."""
    return f"psb-{uuid.uuid4().hex}"


def wait_until(condition: Callable[[], bool], within: float) -> bool:
    """Whether it came true before the deadline. For what only the kernel can tell us, and tells no descriptor."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def alive_with(mark: str) -> list[int]:
    """Host pids of every process that has `mark` in its command line, zombies (no command line) not counted."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            command = Path("/proc", entry, "cmdline").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue
        if mark.encode() in command and int(entry) != os.getpid():
            found.append(int(entry))
    return found


@dataclass(frozen=True, slots=True)
class Victim:
    """A process of the host, of the same user, that would notice any signal. `address` holds `secret` in its memory."""

    process: subprocess.Popen[bytes]
    address: int
    secret: str

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def untouched(self) -> bool:
        assert self.process.stdout is not None
        heard = select.select([self.process.stdout], [], [], 0)[0]
        return self.process.poll() is None and not heard

    def is_touched(self) -> bool:
        """For a control, which waits until it has shown."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 30)[0])

    def memory(self) -> str:
        """What the victim itself finds at `address` now."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"?\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()


# As many descriptors on their way through sockets as the kernel lets a user have there.
FLIGHT = """
    import array, socket
    end = os.pipe()[0]
    kept = []
    def fly():
        while True:
            pair = socket.socketpair()
            pair[0].setblocking(False)
            kept.append(pair)
            try:
                while True:
                    pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [end] * 200))])
            except BlockingIOError:
                pass
    attempt("fly", fly)
    sys.stdin.read(1)
"""

VICTIM = """
    buffer = ctypes.create_string_buffer(SECRET.encode())
    libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER_ANY: Yama must not make the control fail
    signal.signal(signal.SIGURG, lambda *_: os.write(1, b"signal\\n"))
    os.write(1, b"%d\\n" % ctypes.addressof(buffer))
    while os.read(0, 100):
        os.write(1, buffer.value + b"\\n")
"""


@contextmanager
def victim() -> Iterator[Victim]:
    secret = token()
    process = subprocess.Popen(
        program(VICTIM, SECRET=secret), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={"PSB_SECRET": secret}, bufsize=0, process_group=0,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield Victim(process, int(process.stdout.readline()), secret)
    finally:
        process.kill()
        process.communicate()


@contextmanager
def host_script(body: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host of its own: a Python process, with this one's import path, that opens cages and may be killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(body), *arguments]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0
    ) as host:
        try:
            yield host
        finally:
            host.kill()


def first_line(process: subprocess.Popen[bytes], within: float = 30.0) -> bytes:
    """What a process says first, b"" when it ends or keeps silent; unlike readline it never waits for ever."""
    assert process.stdout is not None
    patience = within * min(SLOWNESS, 4)
    return process.stdout.readline() if select.select([process.stdout], [], [], patience)[0] else b""
