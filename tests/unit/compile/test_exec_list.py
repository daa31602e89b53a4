"""allow_execve in the Plan: who may be executed (Landlock), what may be mapped (noexec), and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.pretend import EXECUTABLES, LINKER, MODERN, PROJECT, SYSTEM, TREE, grants, notes_of, plan_of
from pysandbox.compile.notes import GRANT_SKIPPED, ISOLATION_GAP, NOT_COVERABLE, WIDE_GRANT
from pysandbox.compile.plan import Attr, MountKind, Plan
from pysandbox.errors import SandboxCompileError, UnsupportedError
from pysandbox.policy.model import Grant, Policy
from unit.compile.mount_model import Mounts, below

ENV, PYTHON = "/usr/bin/env", "/usr/bin/python3.11"
REAL_LINKER = "/usr/lib/ld-linux-x86-64.so.2"


def listing(*entries: str, tree: str = TREE, **options: Any) -> Plan:
    return plan_of(Policy(allow_execve=entries, **{"allow": SYSTEM, **options}), tree=tree)


def executed(plan: Plan) -> set[str]:
    """The paths under which Landlock lets files be executed."""
    assert plan.landlock is not None
    return {rule.path for rule in plan.landlock.rules if "EXECUTE" in rule.access}


def mapped(plan: Plan, *paths: str) -> set[str]:
    """Those of the paths that lie on a mount without noexec."""
    mounts = Mounts(plan.mounts)
    return {path for path in paths if Attr.NOEXEC not in mounts.at(path).attrs}


def test_without_a_list_nothing_is_noexec_and_all_may_be_executed() -> None:
    plan = plan_of(Policy(allow=SYSTEM))
    assert not any(Attr.NOEXEC in step.attrs for step in plan.mounts)
    assert "/" in executed(plan)
    assert plan.executables is None


def test_the_right_to_execute_lies_on_the_list_and_its_linkers_alone() -> None:
    assert executed(listing(ENV, "/usr/lib/tool/*")) == {ENV, REAL_LINKER, "/usr/lib/tool"}
    assert executed(listing("/usr/bin/static")) == {"/usr/bin/static"}


def test_an_entry_is_the_file_that_it_leads_to() -> None:
    plan = listing("/bin/python3")
    assert executed(plan) == {PYTHON, REAL_LINKER}
    assert plan.executables == (PYTHON,)


def test_the_linker_is_executed_by_the_kernel_and_not_by_a_command() -> None:
    assert REAL_LINKER not in (listing(ENV).executables or ())


def test_libraries_are_mapped_and_other_programs_are_not() -> None:
    plan = listing(ENV)
    inside = (ENV, "/usr/lib/libc.so", "/usr/lib64/libc.so", "/usr/local/lib/x.so")
    outside = (PYTHON, "/usr/share/x", "/tmp/x", "/dev/shm/x", "/var/tmp/x", "/scratch/x", "/x", "/etc/passwd")
    assert mapped(plan, *inside, *outside) == set(inside)


def test_the_libraries_beside_a_listed_program_are_mapped_unless_the_cage_can_write_them() -> None:
    plan = listing("/opt/tool/bin/run", ENV, allow=(*SYSTEM, *grants("/opt")))
    assert mapped(plan, "/opt/tool/lib/x.so", "/opt/tool/bin/other") == {"/opt/tool/lib/x.so"}
    venv = f"{PROJECT}/venv"
    assert mapped(listing(f"{venv}/bin/python", workdir="read"), f"{venv}/lib/x.so") == {f"{venv}/lib/x.so"}
    written = listing("/opt/tool/bin/run", ENV, allow_write=grants("/opt/tool"))
    assert not mapped(written, "/opt/tool/lib/x.so")


def test_a_link_beside_a_listed_program_names_no_libraries() -> None:
    plan = listing("/opt/other/bin/run", allow=(*SYSTEM, *grants("/opt")))
    assert mapped(plan, "/opt/other/bin/run", "/usr/bin/env", "/usr/lib/x.so") == {
        "/opt/other/bin/run",
        "/usr/lib/x.so",
    }


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("entry", [f"{PROJECT}/venv/bin/python", "/home/ann/linked/.git/hooks/*"])
def test_a_link_that_the_cage_may_replace_is_no_entry(entry: str, isolation: str) -> None:
    given = {"isolation": isolation, "run_as": "self", "allow": (*SYSTEM, *grants("/opt"))}
    assert listing(entry, workdir="read", **given).executables
    with pytest.raises(SandboxCompileError, match="the cage may replace") as caught:
        listing(entry, allow_write=grants(PROJECT, "/home/ann/linked"), **given)
    assert caught.value.key == "process.allow_execve"


def test_a_listed_file_in_a_writable_tree_is_read_only_there() -> None:
    plan = listing(f"{PROJECT}/build/tool", workdir="write", allow=(*SYSTEM, *grants("/opt")))
    mounts = Mounts(plan.mounts)
    assert (mounts.shows(f"{PROJECT}/build/tool"), mounts.shows(f"{PROJECT}/build/other")) == ("read", "write")
    assert mounts.is_mount_point(f"{PROJECT}/build")  # pinned, so that it is not moved away
    assert mapped(plan, f"{PROJECT}/build/tool", f"{PROJECT}/build/other") == {f"{PROJECT}/build/tool"}


def test_a_listed_tree_that_is_writable_is_noted() -> None:
    plan = listing(f"{PROJECT}/out/*", workdir="write")
    assert "execute what it puts there" in notes_of(plan, WIDE_GRANT)[0]
    assert Mounts(plan.mounts).shows(f"{PROJECT}/out/x") == "write"
    assert mapped(plan, f"{PROJECT}/out/x", f"{PROJECT}/src/x") == {f"{PROJECT}/out/x"}


def test_a_file_that_is_granted_by_its_own_name_is_bound_once() -> None:
    plan = listing("/opt/tool/bin/run", ENV, allow=(*SYSTEM, *grants("/opt/tool/bin/run")))
    assert [step.target for step in plan.mounts].count("/opt/tool/bin/run") == 1
    assert mapped(plan, "/opt/tool/bin/run", "/opt/tool/bin/other") == {"/opt/tool/bin/run"}


def test_a_listed_file_that_nobody_can_read_may_be_for_any_linker() -> None:
    assert executed(listing("/usr/sbin/odd", tree=f"{TREE}/usr/sbin/odd\n")) == {"/usr/sbin/odd", REAL_LINKER}


def test_a_tree_around_the_grants_means_what_is_granted_of_it() -> None:
    plan = listing("/home/ann/*", allow=(*SYSTEM, *grants("/home/ann/empty")))
    assert executed(plan) == {"/home/ann/empty", REAL_LINKER}
    assert mapped(plan, "/home/ann/empty/x", "/home/ann/x") == {"/home/ann/empty/x"}


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/scratch"])
@pytest.mark.parametrize("state", ["ephemeral", "scratch"])
def test_a_place_of_the_cages_own_is_open_when_it_is_listed(place: str, state: str) -> None:
    plan = listing(f"{place}/*", state=state)
    assert place in executed(plan)
    assert mapped(plan, "/tmp/x", "/dev/shm/x", "/scratch/x") == {f"{place}/x"}
    assert notes_of(plan, GRANT_SKIPPED) == notes_of(plan_of(Policy(allow=SYSTEM)), GRANT_SKIPPED)


@pytest.mark.parametrize(("entry", "reason"), [
    ("/absent", "does not exist"), ("/absent/*", "does not exist"),
    ("/usr/bin/absent", "does not exist"), ("/dev/null", "no regular file"),
    ("/data/set/a", "does not see it"), ("/data/*", "does not see it"),
])  # fmt: skip
def test_what_is_listed_in_vain_is_noted(entry: str, reason: str) -> None:
    plan = listing(ENV, entry)
    assert executed(plan) == ({ENV, REAL_LINKER})
    assert any(entry.removesuffix("/*") in note and reason in note for note in notes_of(plan, GRANT_SKIPPED))


def test_what_a_cage_may_create_for_the_next_one_is_noted() -> None:
    plan = listing(ENV, f"{PROJECT}/build/later", workdir="write")
    assert any("the next cage may execute" in note for note in notes_of(plan, NOT_COVERABLE))
    assert executed(plan) == {ENV, REAL_LINKER}


def test_a_list_of_which_nothing_exists_allows_nothing() -> None:
    plan = listing("/absent")
    assert (executed(plan), plan.executables) == (set(), ())


def test_a_denied_program_is_not_executed() -> None:
    plan = listing(ENV, "/usr/bin/static", deny=grants(ENV))
    assert ENV not in executed(plan)
    assert Mounts(plan.mounts).shows(ENV) == "denied"
    assert "/usr/bin/static" in executed(plan)


@pytest.mark.parametrize(("options", "key", "word"), [
    ({"allow_execve": ("/*",)}, "process.allow_execve", "every program"),
    ({"allow_execve": ("/usr/bin",)}, "process.allow_execve", 'write "/usr/bin/*"'),
    ({"allow_execve": ("/usr/bin/env/*",)}, "process.allow_execve", "is no directory"),
    ({"allow_execve": ("/opt/tool/bin/run",)}, "process.allow_execve", 'add "/usr/bin/env"'),
    ({"allow_execve": (f"{PROJECT}/build/tool",), "allow_write": grants(f"{PROJECT}/build/tool")},
     "process.allow_execve", "outside of what filesystem.allow_write grants"),
    ({"allow_execve": (ENV,), "allow_syscalls": ("memfd_create",)}, "syscalls.allow_extra", "deny_extra"),
    ({"allow_execve": (ENV,), "seccomp": "relaxed"}, "syscalls.profile", "deny_extra"),
    ({"allow_execve": (ENV,), "seccomp": "default"}, "syscalls.profile", "deny_extra"),
])  # fmt: skip
def test_what_a_list_cannot_hold_is_refused_by_key(options: dict[str, Any], key: str, word: str) -> None:
    with pytest.raises(SandboxCompileError, match=word.replace("*", r"\*")) as caught:
        plan_of(Policy(allow=(*SYSTEM, *grants("/opt")), **options))
    assert caught.value.key == key


def test_memory_files_that_are_denied_again_are_no_reason_to_refuse() -> None:
    closed = Policy(allow=SYSTEM, allow_execve=(ENV,), seccomp="relaxed", deny_syscalls=("memfd_create",))
    assert plan_of(closed).executables == (ENV,)


def test_a_file_with_another_name_cannot_be_kept_from_a_cage_that_may_write_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from golden import pretend

    whole = pretend._walk

    def linked(*arguments: Any) -> Any:
        fact = whole(*arguments)
        return replace(fact, names=2) if fact.kind == "file" else fact

    monkeypatch.setattr(pretend, "_walk", linked)
    assert listing(f"{PROJECT}/build/tool", workdir="read").executables
    with pytest.raises(SandboxCompileError, match="hard link"):
        listing(f"{PROJECT}/build/tool", workdir="write")


def test_a_kernel_without_landlock_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="allow_execve") as caught:
        plan_of(Policy(allow=SYSTEM, allow_execve=(ENV,)), replace(MODERN, landlock_abi=0))
    assert caught.value.feature == "landlock"


@pytest.mark.parametrize("abi", range(1, 8))
def test_every_landlock_has_the_right_to_execute(abi: int) -> None:
    plan = plan_of(Policy(allow=SYSTEM, allow_execve=(ENV,)), replace(MODERN, landlock_abi=abi))
    assert executed(plan) == {ENV, REAL_LINKER}
    assert all(rule.access for rule in plan.landlock.rules) if plan.landlock else False


def test_landlock_isolation_holds_the_list_and_owns_up_to_the_linker() -> None:
    plan = listing(ENV, f"{PROJECT}/out/*", isolation="landlock", run_as="self", workdir="write")
    assert executed(plan) == {ENV, REAL_LINKER, f"{PROJECT}/out"}
    assert any("ld.so" in note for note in notes_of(plan, ISOLATION_GAP))
    unlisted = plan_of(Policy(allow=SYSTEM, isolation="landlock", run_as="self"))
    assert not any("ld.so" in note for note in notes_of(unlisted, ISOLATION_GAP))


def test_landlock_isolation_cannot_protect_a_listed_file_in_a_writable_tree() -> None:
    with pytest.raises(SandboxCompileError, match="read-only") as caught:
        listing(f"{PROJECT}/build/tool", isolation="landlock", run_as="self", workdir="write")
    assert caught.value.key == "process.allow_execve"


def test_a_program_bind_is_required_and_a_library_bind_is_not() -> None:
    binds = {step.target: step for step in listing(ENV).mounts if step.kind is MountKind.BIND}
    assert not binds[ENV].optional
    assert binds["/usr/lib"].optional
    assert all(binds[path].ino and binds[path].inside_bind for path in (ENV, "/usr/lib"))


# ---- any nesting of grants, denials and lists ---------------------------------------------------------------------

FOLDERS = ("/d", "/d/a", "/d/a/x", "/d/b", "/tmp/t", "/tmp/t/a")
FILES = tuple(f"{folder}/f" for folder in FOLDERS)
FOREST = "\n".join((*(f"{name}/" for name in FOLDERS), *FILES, "/mnt/", "/tmp/", f"{PROJECT}/", LINKER))
some_folders = st.lists(st.sampled_from(FOLDERS), max_size=3, unique=True)
some_entries = st.lists(st.sampled_from((*FILES, *(f"{each}/*" for each in FOLDERS))), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(allow=some_folders, write=some_folders, deny=some_folders, entries=some_entries)
def test_what_is_seen_is_executed_and_mapped_exactly_if_it_is_listed(
    allow: list[str], write: list[str], deny: list[str], entries: list[str]
) -> None:
    policy = Policy(allow=grants(*allow), allow_write=grants(*write), deny=tuple(Grant(each) for each in deny),
                    allow_execve=tuple(entries))  # fmt: skip
    plan = plan_of(policy, tree=FOREST)
    mounts, may_execute = Mounts(plan.mounts), executed(plan)
    for path in FILES:
        by_name = path in entries
        listed = by_name or any(entry.endswith("/*") and below(path, entry[:-2]) for entry in entries)
        if mounts.shows(path) in ("read", "write"):
            assert (Attr.NOEXEC not in mounts.at(path).attrs) == listed, path
            assert any(below(path, each) for each in may_execute) == listed, path
            assert not (by_name and mounts.shows(path) == "write"), path


def test_the_pretended_executables_are_files_of_the_tree() -> None:
    plan = listing(*EXECUTABLES, workdir="read", allow=(*SYSTEM, *grants("/opt")))
    assert set(EXECUTABLES) <= set(plan.executables or ())
