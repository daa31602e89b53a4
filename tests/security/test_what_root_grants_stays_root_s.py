"""Claim: what root grants to a cage, which is nobody outside, the cage has as root would without a capability: it
reads and writes what is root's, and what it makes is root's on the disk; what is another user's it has as anybody has.
Nothing that it is granted is shared with the host's mounts, and what cannot be granted so is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pysandbox._native import lib

from pysandbox import Cage, Grant, Policy

from .harness import PYTHON, caged, policy, program

pytestmark = [pytest.mark.root, pytest.mark.guest]
NOBODY = lib.PSB_OUTSIDE
OTHER = 12345

FILES = """
    def put(path, data="x"):
        with open(path, "w") as file: file.write(data)
    attempt("make", put, D + "/made")
    attempt("make a directory", os.mkdir, D + "/below")
    attempt("make below", put, D + "/below/made")
    attempt("make a link", os.symlink, "made", D + "/link")
    attempt("read what is root's alone", lambda: open(D + "/private").read())
    attempt("write what is root's alone", put, D + "/private", "changed")
    attempt("change its mode", os.chmod, D + "/private", 0o640)
    attempt("write for root's group", put, D + "/of the group")
    attempt("read another's", lambda: open(D + "/another's").read())
    attempt("write another's", put, D + "/another's")
    attempt("change another's mode", os.chmod, D + "/another's", 0o666)
    attempt("write what another lets all write", put, D + "/another's, open")
    attempt("give away", os.chown, D + "/made", 12345, 12345)
    attempt("open a device", lambda: open(D + "/device", "rb"))
    attempt("make a device", os.mknod, D + "/new device", 0o20666, os.makedev(1, 3))
    attempt("make it set-id", os.chmod, D + "/made", 0o4755)
"""
SEEN = {
    **dict.fromkeys(("make", "make a directory", "make below", "make a link", "change its mode"), None),
    **dict.fromkeys(("read what is root's alone", "write what is root's alone", "write for root's group"), None),
    "write what another lets all write": None,
    "read another's": "EACCES", "write another's": "EACCES", "change another's mode": "EPERM",
    "give away": ("EPERM", "EINVAL"), "open a device": "EACCES", "make a device": "EPERM", "make it set-id": "EPERM",
}  # fmt: skip


FURNITURE = (
    ("private", 0, 0o600),
    ("of the group", 0, 0o660),
    ("another's", OTHER, 0o600),
    ("another's, open", OTHER, 0o666),
)


def furnished(at: Path) -> Path:
    """A directory of root's, with what is not."""
    at.mkdir(mode=0o700)
    for name, owner, mode in FURNITURE:
        (at / name).write_text("secret")
        os.chown(at / name, owner, owner)
        (at / name).chmod(mode)
    os.mknod(at / "device", 0o20666, os.makedev(1, 1))
    (at / "device").chmod(0o666)
    return at


def owners(at: Path) -> set[tuple[int, int]]:
    return {(each.lstat().st_uid, each.lstat().st_gid) for each in at.rglob("*") if "another" not in each.name}


@pytest.mark.parametrize("run_as", ["nobody", "self", "root"])
def test_files_are_as_root_would_have_them_without_a_capability(run_as: str, tmp_path: Path) -> None:
    here, there = furnished(tmp_path / "control"), furnished(tmp_path / "granted")
    bare = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", "--"]
    done = subprocess.run([*bare, *program(FILES, D=str(here))], capture_output=True, text=True, check=True)
    assert '"read another\'s", "errno": "EACCES"' in done.stdout, "the control: root, bare of its capabilities"

    report = caged(program(FILES, D=str(there)), policy(run_as=run_as, allow_write=[Grant(str(there))]))

    assert report.differs(SEEN) == {}
    assert (there / "private").read_text() == "changed" and (there / "another's").read_text() == "secret"
    assert owners(there) == {(0, 0)}


def test_a_set_id_program_on_a_grant_makes_nobody_root(tmp_path: Path) -> None:
    for name, owner in (("root's", 0), ("another's", OTHER)):
        shutil.copy("/usr/bin/cat", tmp_path / name)
        os.chown(tmp_path / name, owner, owner)
        (tmp_path / name).chmod(0o6755)
    for name in ("root's", "another's"):
        done = caged([str(tmp_path / name), "/proc/self/status"], policy(allow_write=[Grant(str(tmp_path))])).result
        assert done is not None and done.exit_code == 0, done
    plain = Policy(allow_write=[Grant(str(tmp_path))])
    with Cage(plain) as cage:
        for name in ("root's", "another's"):
            said = str(cage.run([str(tmp_path / name), "/proc/self/status"]).stdout)
            for line in said.splitlines():
                if line.startswith(("Uid:", "Gid:")):
                    assert set(line.split()[1:]) == {"65534"}, (name, line)
                if line.startswith("CapEff:"):
                    assert int(line.split()[1], 16) == 0


def test_the_host_writes_into_it_as_the_cage_would(tmp_path: Path) -> None:
    there = furnished(tmp_path / "granted")
    with Cage(Policy(allow_write=[Grant(str(there))])) as cage:
        cage.files.write(f"{there}/new", "n")
        cage.files.write("/tmp/own", "o")
        assert cage.run([PYTHON, "-c", "open('/tmp/own', 'a').write('p')"]).exit_code == 0
        assert cage.files.read("/tmp/own") == b"op"
        for ask in (lambda: cage.files.read(f"{there}/another's"), lambda: cage.files.write(f"{there}/another's", "")):
            with pytest.raises(PermissionError):
                ask()
    assert owners(there) == {(0, 0)} and (there / "another's").read_text() == "secret"


def test_a_path_is_closed_while_it_runs(tmp_path: Path) -> None:
    there = furnished(tmp_path / "granted")
    code = f"open({str(there / 'private')!r}).read()"
    with Cage(Policy(allow_write=[Grant(str(there))]), watch=["network"], policy_fn=lambda *_: None) as cage:
        assert cage.run([PYTHON, "-c", code]).exit_code == 0, "the control"
        cage.context.deny_path(str(there / "private"))
        assert "Permission denied" in str(cage.run([PYTHON, "-c", code]).stderr)
    assert (there / "private").read_text() == "secret"


def test_streams_can_be_opened_again_by_their_names() -> None:
    code = "open('/dev/stdout', 'w').write('o'); open('/dev/stderr', 'w').write('e'); print(open('/dev/stdin').read())"
    with Cage(Policy()) as cage:
        done = cage.run([PYTHON, "-c", code], input="i")
    assert (done.exit_code, str(done.stdout).strip(), done.stderr) == (0, "oi", "e")


# ---- mounts of the host's ------------------------------------------------------------------------------------------


def in_mounts_of_its_own(code: str, at: Path) -> str:
    """What a host says that has a mount namespace of its own, where `at` is a mount that is shared."""
    head = f"""
        import os, subprocess
        from pysandbox import Cage, Grant, Policy, StartError, UnsupportedError, run
        at = {str(at)!r}
        def mount(*words): subprocess.run(["mount", *words], check=True)
        def mounts(): return sorted(line.split()[4] for line in open("/proc/self/mountinfo"))
        mount("--bind", at, at)
        mount("--make-shared", at)
    """
    argv = ["unshare", "-m", sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(code)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_mount_of_a_cage_reaches_the_host_nor_the_other_way(tmp_path: Path) -> None:
    """The host's mounts are shared where systemd is: what is laid over a name in a grant would lie there as well."""
    said = in_mounts_of_its_own(
        """
        os.makedirs(at + "/d/.git/hooks"); os.makedirs(at + "/late")
        open(at + "/secret", "w").write("s"); open(at + "/read", "w").close()
        before = mounts()
        for rules in ({"allow_write": [Grant(at)]}, {"allow": [Grant(at)]}):
            with Cage(Policy(deny=[Grant(at + "/secret")], mask=[Grant(at + "/d")], **rules)) as cage:
                print(cage.run(["cat", at + "/secret"]).exit_code, open(at + "/secret").read(), mounts() == before)
                mount("-t", "tmpfs", "tmpfs", at + "/late")
                open(at + "/late/new", "w").close()
                print(cage.run(["ls", at + "/late"]).stdout.split())
                subprocess.run(["umount", at + "/late"], check=True)
            print(mounts() == before)
        """,
        tmp_path,
    )
    assert said.splitlines() == ["1 s True", "[]", "True"] * 2


def test_nor_where_the_file_system_cannot_be_mapped(tmp_path: Path) -> None:
    """Such a grant is bound as it is, which is shared as it is."""
    said = in_mounts_of_its_own(
        """
        subprocess.run(["umount", at], check=True)
        mount("-t", "sysfs", "sysfs", at)
        mount("--make-shared", at)
        before, seen = mounts(), os.listdir(at + "/kernel")
        with Cage(Policy(allow=[Grant(at)], mask=[Grant(at + "/kernel")])) as cage:
            print(cage.run(["ls", at + "/kernel"]).stdout.split())
            print(os.listdir(at + "/kernel") == seen, mounts() == before)
            mount("-t", "tmpfs", "tmpfs", at + "/fs")
            open(at + "/fs/new", "w").close()
            print("new" in cage.run(["ls", at + "/fs"]).stdout.split())
            subprocess.run(["umount", at + "/fs"], check=True)
        print(mounts() == before)
        """,
        tmp_path,
    )
    assert said.splitlines() == ["[]", "True True", "False", "True"]


MAP = """
    def whose(**more):
        try: done = run(["cat", "/proc/self/uid_map"], Policy(**more))
        except UnsupportedError as error: return error.feature
        return done.stdout.split()[1], any("keeps root's id" in note.message for note in done.notes)
"""


def test_what_cannot_be_mapped_is_said_and_strict_refuses_it(tmp_path: Path) -> None:
    said = in_mounts_of_its_own(
        textwrap.dedent(MAP)
        + textwrap.dedent("""
        os.makedirs(at + "/plain"); os.makedirs(at + "/tree/below")
        open(at + "/tree/f", "w").close()
        print(whose(allow_write=[Grant(at + "/plain")]))
        mount("-t", "ramfs", "ramfs", at + "/tree/below")
        os.chmod(at + "/tree/below", 0o700)
        open(at + "/tree/below/f", "w").write("x")
        print(whose(allow_write=[Grant(at + "/plain")]))
        for place in ("/tree/below", "/tree"):
            for strict in (False, True):
                print(whose(allow_write=[Grant(at + place)], strict=strict))
        print(whose(allow=[Grant(at + "/tree")], strict=True))
        print(whose(allow=[Grant(at + "/tree/below")]))
        code = "open('below/f').read(); open('below/f', 'w').write('y')"
        done = run(["python3", "-c", code], Policy(allow_write=[Grant(at + "/tree")]), cwd=at + "/tree")
        print(done.exit_code, open(at + "/tree/below/f").read())
        done = run(["cat", "below/f"], Policy(allow=[Grant(at + "/tree")]), cwd=at + "/tree")
        print(done.exit_code)
        """),
        tmp_path,
    )
    nobody, root = str((str(NOBODY), False)), str(("0", True))
    assert said.splitlines() == [nobody, nobody, *[root, "idmapped_mounts"] * 2, nobody, root, "0 y", "1"]


def test_what_sets_the_kernel_is_written_by_no_cage_of_root_s(tmp_path: Path) -> None:
    """It cannot be mapped, so the cage would keep root's id, and that is all that the kernel asks there."""
    said = in_mounts_of_its_own(
        textwrap.dedent(MAP)
        + textwrap.dedent("""
        from pysandbox import SandboxCompileError
        os.makedirs(at + "/tree/below"); os.makedirs(at + "/tree/beside"); os.makedirs(at + "/another/proc")
        mount("-t", "sysfs", "sysfs", at + "/tree/below")
        mount("--rbind", "/proc", at + "/another/proc")
        control = os.open(at + "/tree/below/kernel/rcu_normal", os.O_WRONLY)  # root itself may
        for place in ("/tree", "/tree/below", "/tree/below/kernel", "/tree/below/kernel/rcu_normal", "/another"):
            for more in ({}, {"strict": True}, {"isolation": "landlock"}):
                try: print(whose(allow_write=[Grant(at + place)], **more))
                except SandboxCompileError as error: print(error.key, "an interface to the kernel" in str(error))
        os.chdir(at + "/tree/below")
        try: run(["true"], Policy(workdir="write"))
        except SandboxCompileError as error: print(error.key)
        os.chdir("/")
        print(whose(allow=[Grant(at + "/tree")], allow_write=[Grant(at + "/tree/beside")]))
        print(whose(allow_write=[Grant("/proc/sys"), Grant("/proc"), Grant("/dev")]))
        """),
        tmp_path,
    )
    nobody = str((str(NOBODY), False))
    assert said.splitlines() == [*["filesystem.allow_write True"] * 15, "filesystem.workdir", nobody, nobody]


def test_what_is_mounted_after_the_plan_was_made_is_an_error_once(tmp_path: Path) -> None:
    said = in_mounts_of_its_own(
        """
        os.makedirs(at + "/tree/below")
        from pysandbox.runtime.runtime import Runtime
        runtime = Runtime(warm=0)
        rules = Policy(allow_write=[Grant(at + "/tree")])
        def attempt():
            try:
                with Cage(rules, runtime=runtime) as cage:
                    return cage.run(["cat", "/proc/self/uid_map"]).stdout.split()[1]
            except StartError as error: return error.step, error.errno, error.filename, bool(error.hint)
        print(attempt())
        mount("-t", "ramfs", "ramfs", at + "/tree/below")
        print(attempt()); print(attempt())
        """,
        tmp_path,
    )
    assert said.splitlines() == [str(NOBODY), str(("idmap", 22, f"{tmp_path}/tree", True)), "0"]


def test_an_installation_that_only_root_may_execute_starts_cages(tmp_path: Path) -> None:
    said = in_mounts_of_its_own(
        """
        import shutil
        from pysandbox.launch import native
        shutil.copy(native.INIT_PATH, at + "/cage-init")
        os.chmod(at + "/cage-init", 0o700)
        native.INIT_PATH = at + "/cage-init"
        print(run(["cat", "/proc/self/uid_map"], Policy()).stdout.split()[1])
        """,
        tmp_path,
    )
    assert said.split() == [str(NOBODY)]
