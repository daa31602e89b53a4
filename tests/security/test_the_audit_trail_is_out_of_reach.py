"""Claim: no cage reads, changes, moves or hides the audit trail, however wide its policy is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import AuditLog, Cage, Policy, Runtime
from pysandbox.audit.read import records, verify
from pysandbox.errors import CageError, PolicyError, SandboxCompileError

from .harness import Report, in_cage, program, uncaged

ATTACK = """
    trail = PLACE + "/state/pysandbox/audit"
    stream = trail + "/events.jsonl"
    attempt("read", lambda: open(stream).read())
    attempt("list", os.listdir, trail)
    attempt("append", lambda: open(stream, "a").write("forged"))
    attempt("truncate", os.truncate, stream, 0)
    attempt("unlink", os.unlink, stream)
    attempt("plant", lambda: open(trail + "/events.jsonl.head", "w").write("x"))
    attempt("link", os.link, stream, PLACE + "/copy")
    attempt("chmod", os.chmod, trail, 0o777)
    attempt("rename trail", os.rename, trail, PLACE + "/moved")
    attempt("rename parent", os.rename, PLACE + "/state/pysandbox", PLACE + "/moved")
    attempt("rename grandparent", os.rename, PLACE + "/state", PLACE + "/moved")
    for fd in range(3, 64):
        try:
            target = os.readlink("/proc/self/fd/%d" % fd)
        except OSError:
            continue
        if "audit" in target:
            attempt("inherited", os.write, fd, b"forged")
"""
HARMLESS = ("read", "list", "append")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "place" / "state"))
    (tmp_path / "place" / "state").mkdir(parents=True)
    return tmp_path / "place"


@pytest.fixture
def runtime(place: Path) -> Iterator[Runtime]:
    with AuditLog() as log:
        log.append("cage.note", {"key": "before"})
        runtime = Runtime(audit=log, warm=0)
        yield runtime
        runtime.drain()


def attacked(place: Path, runtime: Runtime) -> Report:
    """All of it, from a cage that may write everything around the trail."""
    cage = Cage(Policy(allow_write=[str(place)]), runtime=runtime)
    return in_cage(cage, program(ATTACK, PLACE=str(place)))


def test_control_the_same_attacks_work_without_a_cage(place: Path, runtime: Runtime) -> None:
    tried = uncaged(program(ATTACK, PLACE=str(place)))
    assert all(tried[name].errno is None for name in HARMLESS)


def test_inside_a_writable_grant_nothing_of_it_can_be_touched(place: Path, runtime: Runtime) -> None:
    tried = attacked(place, runtime)
    assert {name: each.errno for name, each in tried.attempts.items() if each.errno is None} == {}
    assert "inherited" not in tried.attempts
    verdict = verify(str(place / "state/pysandbox/audit/events.jsonl"))
    assert verdict.ok
    assert not (place / "moved").exists()
    assert {"subagent.spawn", "subagent.exit"} <= {each.type for each in records(verdict.path)}


def test_a_runtime_without_an_audit_keeps_out_of_it_too(place: Path, runtime: Runtime) -> None:
    tried = attacked(place, Runtime(warm=0))
    assert {name for name, each in tried.attempts.items() if each.errno is None} == set()


@pytest.mark.parametrize("below", ["", "/events.jsonl"])
@pytest.mark.parametrize("how", ["allow", "allow_write"])
def test_a_policy_that_grants_it_is_refused_by_name(place: Path, runtime: Runtime, how: str, below: str) -> None:
    trail = f"{place}/state/pysandbox/audit"
    with pytest.raises(PolicyError, match="audit trail") as caught:
        Cage(Policy(**{how: [trail + below]}), runtime=runtime).run(["true"])  # type: ignore[arg-type]
    assert trail in str(caught.value)
    assert caught.value.key == f"filesystem.{how}"


def test_neither_a_link_nor_the_working_directory_leads_into_it(place: Path, runtime: Runtime) -> None:
    trail = place / "state" / "pysandbox" / "audit"
    (place / "innocent").symlink_to(trail)
    with pytest.raises(PolicyError, match="audit trail"):
        Cage(Policy(allow=[str(place / "innocent")]), runtime=runtime).run(["true"])
    with pytest.raises(PolicyError, match="audit trail"):
        Cage(Policy(workdir="read"), cwd=str(trail), runtime=runtime).run(["true"])


def test_without_mounts_a_wider_grant_is_refused(place: Path, runtime: Runtime) -> None:
    policy = Policy(isolation="landlock", run_as="self", allow_write=[str(place)])
    with pytest.raises(CageError, match="audit"):
        Cage(policy, runtime=runtime).run(["true"])


def test_landlock_isolation_refuses_a_grant_that_holds_it(place: Path, runtime: Runtime) -> None:
    """A guard around it, of which landlock isolation only tells, changes nothing: the directory of what is trusted."""
    with pytest.raises(SandboxCompileError, match="cannot deny"):
        Cage(Policy(isolation="landlock", run_as="self", allow=[str(place)]), runtime=runtime).run(["true"])
