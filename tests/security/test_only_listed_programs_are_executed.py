"""Claim: with allow_execve no process of a cage executes a file that is not listed, however it names it: by another
spelling, a link, a descriptor of its own, of the host's or of another cage, or through a script."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy

from .conftest import Ground
from .harness import LOADER, PYTHON, Report, caged, first_line, host_script, policy, program, uncaged

# The exit code of a program, or the errno of its exec.
RUN = """
    def run(path, *arguments):
        pid = os.posix_spawn(path, [path, *arguments], os.environ)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def execveat(fd, path, flags):
        pid = os.fork()
        if pid == 0:
            try:
                call("execveat", fd, path, (ctypes.c_char_p * 2)(b"x", None), (ctypes.c_char_p * 1)(None), flags)
            except OSError as error:
                os._exit(error.errno)
        number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if number:
            raise OSError(number, "execveat")
"""
SPELLINGS = """
    os.chdir(PLACE)
    attempt("listed", run, f"{PLACE}/listed")
    attempt("link to listed", run, f"{PLACE}/link-to-listed")
    attempt("plain", run, f"{PLACE}/unlisted")
    attempt("slashes", run, f"/{PLACE}//unlisted")
    attempt("dots", run, f"{PLACE}/sub/../unlisted")
    attempt("through the listed", run, f"{PLACE}/sub/../../{os.path.basename(PLACE)}/unlisted")
    attempt("relative", run, "./unlisted")
    attempt("symlink", run, f"{PLACE}/link-to-unlisted")
    attempt("prefix of a listed tree", run, f"{PLACE}/tree-extra/unlisted")
    attempt("by cwd", run, "/proc/self/cwd/unlisted")
    fd, path_fd, directory = (os.open(PLACE + name, flags) for name, flags in (
        ("/unlisted", os.O_RDONLY), ("/unlisted", os.O_PATH), ("", os.O_PATH)))
    attempt("by descriptor", run, f"/proc/self/fd/{fd}")
    attempt("by path descriptor", run, f"/proc/self/fd/{path_fd}")
    attempt("execveat empty path", execveat, fd, "", 0x1000)
    attempt("execveat empty path, O_PATH", execveat, path_fd, "", 0x1000)
    attempt("execveat below a directory", execveat, directory, "unlisted", 0)
    attempt("script", run, f"{PLACE}/script")
    attempt("system program", run, "/usr/bin/true")
    attempt("in the listed tree", run, f"{PLACE}/tree/tool")
    attempt("script of the listed tree", run, f"{PLACE}/tree/script")
"""
RUNS = {"listed": None, "link to listed": None, "in the listed tree": None}
REFUSED = (
    "plain", "slashes", "dots", "through the listed", "relative", "symlink", "prefix of a listed tree", "by cwd",
    "by descriptor", "by path descriptor", "execveat empty path", "execveat empty path, O_PATH",
    "execveat below a directory", "script", "system program", "script of the listed tree",
)  # fmt: skip


@pytest.fixture
def place(ground: Ground) -> Path:
    """Programs, listed and not."""
    inside = ground.inside
    for name in ("sub", "tree", "tree-extra"):
        (inside / name).mkdir()
    for name in ("listed", "unlisted", "tree/tool", "tree-extra/unlisted"):
        shutil.copy("/usr/bin/true", inside / name)
    for name in ("script", "tree/script"):
        (inside / name).write_text("#!/usr/bin/true\n")
        (inside / name).chmod(0o755)
    (inside / "link-to-listed").symlink_to("listed")
    (inside / "link-to-unlisted").symlink_to("unlisted")
    return inside


def listing(place: Path, isolation: str = "full", **options: object) -> Policy:
    given = {"allow": [str(place)], "allow_syscalls": ["execveat"], **options}
    return policy(isolation, allow_execve=[PYTHON, f"{place}/listed", f"{place}/tree/*"], **given)


def test_by_no_spelling_is_an_unlisted_program_executed(place: Path, isolation: str) -> None:
    attack = program(RUN, SPELLINGS, PLACE=str(place))
    every = {**RUNS, **dict.fromkeys(REFUSED)}
    assert uncaged(attack).differs(every) == {}
    open_cage = policy(isolation, allow=[str(place)], allow_syscalls=["execveat"])
    if isolation == "full":
        assert caged(attack, open_cage).differs(every) == {}

    assert caged(attack, listing(place, isolation)).differs({**RUNS, **dict.fromkeys(REFUSED, "EACCES")}) == {}


HANDED = """
    for name, fd in FDS.items():
        attempt(name, run, f"/proc/self/fd/{fd}")
        attempt(f"{name}, execveat", execveat, fd, "", 0x1000)
"""


def test_a_descriptor_of_the_host_is_not_executed_either(place: Path, isolation: str) -> None:
    fds = {"unlisted": os.open(place / "unlisted", os.O_RDONLY), "system": os.open("/usr/bin/true", os.O_RDONLY),
           "path": os.open("/usr/bin/true", os.O_PATH)}  # fmt: skip
    try:
        attack = program(RUN, HANDED, FDS=fds)
        names = [name + how for name in fds for how in ("", ", execveat")]
        assert uncaged(attack, pass_fds=fds.values()).differs(dict.fromkeys(names)) == {}
        report = caged(attack, listing(place, isolation), pass_fds=tuple(fds.values()))
        assert report.differs(dict.fromkeys(names, "EACCES")) == {}
    finally:
        for fd in fds.values():
            os.close(fd)


MAKES_A_PROGRAM = """
    import shutil, socket
    path = shutil.copy("/usr/bin/true", "/tmp/program")
    attempt("made", run, path)
    with socket.socket(fileno=FD) as peer, open(path, "rb") as made:
        socket.send_fds(peer, [b"x"], [made.fileno()])
"""
TAKES_IT = """
    import socket
    with socket.socket(fileno=FD) as peer:
        fd = socket.recv_fds(peer, 1, 1)[1][0]
    os.set_inheritable(fd, True)
    attempt("read", os.pread, fd, 4, 0)
    attempt("of another cage", run, f"/proc/self/fd/{fd}")
    attempt("of another cage, execveat", execveat, fd, "", 0x1000)
    attempt("of another cage, loaded", run, LOADER, f"/proc/self/fd/{fd}")
"""


def pass_on(rules: Policy) -> Report:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        maker = caged(program(RUN, MAKES_A_PROGRAM, FD=ours.fileno()), Policy(), pass_fds=[ours.fileno()])
        assert maker["made"].errno is None
        taker = program(RUN, TAKES_IT, FD=theirs.fileno(), LOADER=LOADER)
        return caged(taker, rules, pass_fds=[theirs.fileno()])


def test_a_program_of_another_cage_is_not_executed(place: Path) -> None:
    told = pass_on(listing(place))
    assert told["read"].value == "\x7fELF"
    assert (told["of another cage"].errno, told["of another cage, execveat"].errno) == ("EACCES", "EACCES")
    assert told["of another cage, loaded"].value == 127


MAKES = """
    def make(name):
        with open("/usr/bin/true", "rb") as source, open(name, "wb") as made:
            made.write(source.read())
        os.chmod(name, 0o755)
        return name

    for directory in DIRECTORIES:
        attempt(directory, lambda: run(make(f"{os.environ.get(directory, directory)}/made")))
    fd = os.open(DIRECTORIES[0], os.O_TMPFILE | os.O_RDWR, 0o755)
    os.write(fd, open("/usr/bin/true", "rb").read())
    reading = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    attempt("nameless", run, f"/proc/self/fd/{reading}")
    attempt("memory file", call, "memfd_create", "x", 0)
"""


def test_what_the_cage_writes_is_not_executed(place: Path, isolation: str) -> None:
    own = ("TMPDIR",) if isolation == "landlock" else ("/tmp", "/dev/shm", "/var/tmp", "HOME")
    directories = [str(place), *own]
    attack = program(RUN, MAKES, DIRECTORIES=directories)
    wanted = [*directories, "nameless"]
    given = {"allow_write": [str(place)], "run_as": "self"}
    control = caged(attack, policy(isolation, **given))
    assert control.differs({**dict.fromkeys(wanted), "memory file": "EPERM"}) == {}

    told = caged(attack, policy(isolation, allow_execve=[PYTHON], **given))
    assert told.differs({**dict.fromkeys(wanted, "EACCES"), "memory file": "EPERM"}) == {}


REPLACES = """
    tool, other = f"{PLACE}/sub/tool", f"{PLACE}/other"
    os.symlink("/usr/bin/false", f"{PLACE}/to-false")
    attempt("before", run, tool)
    attempt("write", overwrite, tool)
    attempt("truncate", os.truncate, tool, 0)
    attempt("unlink", os.unlink, tool)
    attempt("rename over it", os.rename, other, tool)
    attempt("rename it away", os.rename, tool, f"{PLACE}/away")
    attempt("symlink over it", os.rename, f"{PLACE}/to-false", tool)
    attempt("move its directory", os.rename, f"{PLACE}/sub", f"{PLACE}/moved")
    attempt("another name for it", os.link, tool, f"{PLACE}/name")
    attempt("chmod", os.chmod, tool, 0o777)
    attempt("after", run, tool)
"""
STAYS = {
    "before": None, "write": ("EROFS", "EACCES"), "truncate": ("EROFS", "EACCES"), "unlink": "EBUSY",
    "rename over it": ("EBUSY", "EXDEV"), "rename it away": ("EBUSY", "EXDEV"), "symlink over it": ("EBUSY", "EXDEV"),
    "move its directory": "EBUSY", "another name for it": ("EXDEV", "EROFS"), "chmod": "EROFS", "after": None,
}  # fmt: skip


def test_a_listed_file_in_a_writable_tree_stays_what_it_is(place: Path) -> None:
    shutil.copy("/usr/bin/true", place / "sub/tool")
    shutil.copy("/usr/bin/false", place / "other")
    attack = program(RUN, REPLACES, PLACE=str(place))
    rules = {"allow_write": [str(place)], "run_as": "self"}
    told = caged(attack, Policy(allow_execve=[PYTHON, f"{place}/sub/tool"], **rules))  # type: ignore[arg-type]
    assert told.differs(STAYS) == {}
    assert (told["before"].value, told["after"].value) == (0, 0)
    assert (place / "sub/tool").read_bytes() == Path("/usr/bin/true").read_bytes()

    (place / "to-false").unlink()
    control = caged(attack, Policy(**rules))  # type: ignore[arg-type]
    assert (control["rename over it"].errno, control["rename it away"].errno) == (None, None)


def test_a_cage_does_not_choose_what_the_list_of_the_next_one_means(place: Path) -> None:
    """A second name for a listed file, or another link in the place of a listed one, is refused before any start."""
    prepare = program("os.link(f'{PLACE}/sub/tool', f'{PLACE}/name')", "os.unlink(f'{PLACE}/link-to-listed')",
                      "os.symlink('/usr/bin/true', f'{PLACE}/link-to-listed')", PLACE=str(place))  # fmt: skip
    shutil.copy("/usr/bin/true", place / "sub/tool")
    given = {"allow_write": [str(place)], "run_as": "self"}
    assert caged(prepare, policy(**given)).exit_code == 0
    for entry, reason in (("sub/tool", "hard link"), ("link-to-listed", "may replace")):
        with pytest.raises(SandboxCompileError, match=reason):
            caged(prepare, policy(allow_execve=[PYTHON, f"{place}/{entry}"], **given))


# A host of its own user namespace, which since Linux 6.7 has handlers of binfmt_misc of its own.
REGISTERS = """
    import ctypes, json, os, sys
    from pathlib import Path
    libc = ctypes.CDLL(None)
    uid, gid = os.getuid(), os.getgid()
    assert libc.unshare(0x10000000 | 0x00020000) == 0
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path("/proc/self", name).write_text(text)
    if libc.mount(b"none", b"/proc/sys/fs/binfmt_misc", b"binfmt_misc", 0, None):
        print(json.dumps("cannot mount"), flush=True)
        sys.exit()
    for name, flags in (("plain", ""), ("fixed", "F")):
        Path("/proc/sys/fs/binfmt_misc/register").write_text(f":psb-{name}:M::PSB-{name}::/usr/bin/true:{flags}")
    from pysandbox import Policy, run
    place, python = sys.argv[1:3]
    told = {}
    for how, listed in (("no list", ()), ("not listed", (python,)), ("listed", (python, f"{place}/*")),
                        ("with its handler", (python, f"{place}/*", "/usr/bin/true"))):
        for name in ("plain", "fixed"):
            script = f"import os; os.execv('{place}/{name}', ['x'])"
            ended = run([python, "-c", script], Policy(allow=[place], allow_execve=listed))
            told[f"{how}, {name}"] = ended.stderr.strip().splitlines()[-1].split(":")[0] if ended.stderr else "ran"
    print(json.dumps(told), flush=True)
"""


# The kernel opens a fixed handler (F) with the rights of whoever registered it: a listed file starts it unlisted.
HANDLERS = {"no list": ("ran", "ran"), "not listed": ("PermissionError", "PermissionError"),
            "listed": ("PermissionError", "ran"), "with its handler": ("ran", "ran")}  # fmt: skip


def test_a_file_that_is_not_listed_is_not_executed_by_a_handler_of_binfmt_misc(ground: Ground) -> None:
    for name in ("plain", "fixed"):
        (ground.inside / name).write_text(f"PSB-{name}")
        (ground.inside / name).chmod(0o755)
    with host_script(REGISTERS, str(ground.inside), PYTHON) as host:
        told = json.loads(first_line(host, within=60) or b"null")
    if told == "cannot mount":
        pytest.skip("binfmt_misc cannot be mounted in a user namespace (Linux 6.7)")
    for how, (plain, fixed) in HANDLERS.items():
        assert (told[f"{how}, plain"], told[f"{how}, fixed"]) == (plain, fixed), how
