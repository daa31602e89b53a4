"""What is visible: missing paths, the cage's own places, guards, and denials that win."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from golden.pretend import PROJECT, SYSTEM, grants, look, notes_of, paths_of, plan_of
from pysandbox.compile.absent_names import placeholders
from pysandbox.compile.notes import GRANT_SKIPPED, NOT_COVERABLE, WIDE_GRANT
from pysandbox.compile.view import build_view
from pysandbox.errors import PolicyError, SandboxCompileError, SandboxPathMissing
from pysandbox.policy.model import Grant, Policy


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (Policy(allow=grants("/nowhere")), "filesystem.allow"),
        (Policy(allow_write=grants("/data/set/none")), "filesystem.allow_write"),
    ],
)
def test_an_explicit_grant_that_is_missing_is_refused_by_key_and_path(policy: Policy, key: str) -> None:
    with pytest.raises(SandboxPathMissing) as caught:
        plan_of(policy)
    assert caught.value.key == key
    assert repr((policy.allow + policy.allow_write)[0].path) in str(caught.value)


def test_a_working_directory_that_is_gone_is_refused() -> None:
    with pytest.raises(SandboxPathMissing) as caught:
        plan_of(Policy(workdir="read"), cwd="/gone")
    assert caught.value.key == "filesystem.workdir"


def test_optional_grants_that_are_missing_are_named_in_one_note() -> None:
    plan = plan_of(Policy(allow=(Grant("/nowhere", optional=True), Grant("/no/where", optional=True))))
    assert notes_of(plan, GRANT_SKIPPED) == ["left out, because they do not exist: /nowhere, /no/where"]


def test_the_whole_root_cannot_be_granted() -> None:
    with pytest.raises(SandboxCompileError, match="whole root"):
        plan_of(Policy(allow_write=grants("/")))


def test_a_root_as_working_directory_is_left_out_with_a_note() -> None:
    plan = plan_of(Policy(workdir="write"), cwd="/")
    assert plan.cwd == "/"
    assert "'/' is left out" in notes_of(plan, GRANT_SKIPPED)[0]


def test_the_home_directory_as_writable_workdir_is_noted() -> None:
    assert "secrets" in notes_of(plan_of(Policy(workdir="write"), cwd="/home/ann"), WIDE_GRANT)[0]
    assert notes_of(plan_of(Policy(workdir="write")), WIDE_GRANT) == []


@pytest.mark.parametrize(("path", "noted"), [("/run", 1), ("/run/daemon", 1), ("/run/daemon/file", 0), ("/runs", 0)])
def test_a_directory_in_which_programs_of_the_host_listen_is_noted(path: str, noted: int) -> None:
    tree = "/run/daemon/file\n/runs/\n/home/ann/project/\n/tmp/"
    told = notes_of(plan_of(Policy(allow=grants(path)), tree=tree), WIDE_GRANT)
    assert len([each for each in told if "network.unix_sockets" in each]) == noted


@pytest.mark.parametrize("path", ["/tmp", "/proc", "/proc/meminfo", "/dev", "/dev/kvm"])
def test_the_hosts_copy_of_what_a_cage_has_itself_is_left_out(path: str) -> None:
    plan = plan_of(Policy(allow_write=grants(path)))
    assert [step for step in plan.mounts if step.ino and step.source == path] == []
    assert repr(path) in notes_of(plan, GRANT_SKIPPED)[0]


def test_a_granted_link_into_proc_is_made_and_proc_is_not_bound() -> None:
    plan = plan_of(Policy(allow=grants("/etc/mtab")))
    assert "/etc/mtab" in paths_of(plan, "SYMLINK")
    assert not any(step.source.startswith("/proc/4711") or step.target == "/proc/self" for step in plan.mounts)


@pytest.mark.parametrize("hidden", ["deny", "mask"])
def test_a_link_in_what_is_hidden_is_not_made(hidden: str) -> None:
    """Its name and where it leads were shown: `deny = ["/etc"]` left /etc/localtime."""
    links = (Grant("/etc/mtab"), Grant("/etc/alternatives", optional=True))
    assert "/etc/mtab" in paths_of(plan_of(Policy(allow=links)), "SYMLINK")  # the control
    plan = plan_of(Policy(allow=links, **{hidden: grants("/etc")}))  # type: ignore[arg-type]
    assert not [path for path in paths_of(plan, "SYMLINK") if path.startswith("/etc/")]


@pytest.mark.parametrize("hidden", ["deny", "mask"])
def test_a_grant_through_a_link_in_what_is_hidden_is_told_to_lack_its_name(hidden: str) -> None:
    """It is there by its real path. What is only wished for, as by a base, is not told of."""
    for optional in (False, True):
        granted = (Grant("/home/ann/way", optional=optional),)
        plan = plan_of(Policy(allow=granted, **{hidden: grants("/home/ann")}, workdir="none"))  # type: ignore[arg-type]
        assert "/data" in paths_of(plan, "BIND")
        told = [f"'/home/ann/way' is left out: {hidden} '/home/ann' wins"]
        assert [note for note in notes_of(plan, GRANT_SKIPPED) if "/way" in note] == ([] if optional else told)


def test_files_about_names_that_are_denied_are_told_so() -> None:
    plan = plan_of(Policy(deny=grants("/etc")))
    assert "'/etc/resolv.conf' is left out: deny '/etc' wins" in notes_of(plan, GRANT_SKIPPED)
    assert not [note for note in notes_of(plan, NOT_COVERABLE) if "names" in note]
    plan = plan_of(Policy(deny=grants("/etc"), hosts=["a.example"]))
    assert "'/etc/resolv.conf' is hidden: names may not be found" in notes_of(plan, NOT_COVERABLE)


def test_deny_and_mask_win_over_the_grants_they_cover() -> None:
    plan = plan_of(Policy(allow=grants("/data/set/a"), allow_write=grants("/opt/tool"), deny=grants("/data"),
                          mask=grants("/opt/tool")))  # fmt: skip
    assert not any(step.target.startswith(("/data", "/opt")) for step in plan.mounts)
    assert notes_of(plan, GRANT_SKIPPED) == ["'/data/set/a' is left out: deny '/data' wins",
                                             "'/opt/tool' is left out: mask '/opt/tool' wins"]  # fmt: skip


def test_a_denial_outside_every_grant_costs_nothing() -> None:
    assert plan_of(Policy(deny=grants("/etc/shadow", "/home/ann/.ssh"))).mounts == plan_of(Policy()).mounts


LATER = "/data/set/later"


@pytest.mark.parametrize("word", ["deny", "mask"])
@pytest.mark.parametrize("strict", [False, True])
def test_an_absent_denial_is_covered_by_a_placeholder(word: str, strict: bool) -> None:
    rules = Policy(allow_write=grants("/data/set"), strict=strict, **{word: grants(LATER)})  # type: ignore[arg-type]
    plan = plan_of(rules)
    assert LATER in paths_of(plan, f"{word.upper()}_FILE")
    assert placeholders(plan, look(rules)) == (LATER,)


@pytest.mark.parametrize("word", ["deny", "mask"])
@pytest.mark.parametrize("isolation, name", [("landlock", LATER), ("full", "/data/set/nowhere/later")])
def test_an_absent_denial_is_refused_where_nothing_can_cover_it(word: str, isolation: str, name: str) -> None:
    rules = Policy(allow_write=grants("/data/set"), isolation=isolation, run_as="self", **{word: grants(name)})  # type: ignore[arg-type]
    with pytest.raises(SandboxCompileError, match=f"'{name}' does not exist") as caught:
        plan_of(rules)
    assert (caught.value.key, "create it" in str(caught.value)) == (f"filesystem.{word}", True)


@pytest.mark.parametrize("word", ["deny", "mask"])
def test_an_optional_one_is_noted_and_strict_covers_it(word: str) -> None:
    rules = Policy(allow_write=grants("/data/set"), **{word: (Grant(LATER, optional=True),)})  # type: ignore[arg-type]
    plan = plan_of(rules)
    assert any(f"'{LATER}' does not exist" in each for each in notes_of(plan, NOT_COVERABLE))
    assert placeholders(plan, look(rules)) == ()
    assert LATER in paths_of(plan_of(replace(rules, strict=True)), f"{word.upper()}_FILE")


@pytest.mark.parametrize("changes", [{"allow": grants("/data/set")}, {}, {"allow_write": grants("/data/set"),
                                     "mask": grants("/data/set")}], ids=("read-only", "unseen", "masked"))  # fmt: skip
def test_an_absent_denial_is_nothing_where_the_cage_cannot_create_it(changes: dict[str, tuple[Grant, ...]]) -> None:
    plan = plan_of(Policy(deny=grants(LATER), strict=True, **changes))  # type: ignore[arg-type]
    assert not any(LATER in each for each in notes_of(plan, NOT_COVERABLE))


KEYS = "/data/set/a.key\n/data/set/deep/b.key\n/data/set/*.key\n/data/set/c.pub\n/mnt/"


@pytest.mark.parametrize("pattern, covered", [
    ("/data/set/*.key", ["*.key", "a.key"]),
    ("/data/**/*.key", ["*.key", "a.key", "deep/b.key"]),
    ("/data/set/[*].key", ["*.key"]),
    ("/data/set/nothing?", []),
])  # fmt: skip
def test_a_pattern_covers_what_matches(pattern: str, covered: list[str]) -> None:
    rules = Policy(allow=grants("/data/set"), deny=grants(pattern))
    plan = plan_of(rules, tree=KEYS)
    assert paths_of(plan, "DENY_FILE") == [f"/data/set/{name}" for name in covered]
    assert not notes_of(plan, NOT_COVERABLE)


@pytest.mark.parametrize(
    "pattern, told", [("/data/set/*.key", True), ("/**/*.key", True), ("/home/*.key", False), ("/data/*.key", False)]
)
def test_where_a_cage_may_make_what_matches_it_is_told_and_strict_refuses_it(pattern: str, told: bool) -> None:
    rules = Policy(allow_write=grants("/data/set"), deny=grants(pattern))
    assert any(pattern in each for each in notes_of(plan_of(rules, tree=KEYS), NOT_COVERABLE)) == told
    if told:
        with pytest.raises(SandboxCompileError, match="leave strict out"):
            plan_of(replace(rules, strict=True), tree=KEYS)


@pytest.mark.parametrize("cwd", ["/tmp", "/scratch", "/dev/shm"])
@pytest.mark.parametrize("workdir", ["read", "write"])
def test_a_working_directory_that_would_be_lost_is_refused(cwd: str, workdir: str) -> None:
    tree = f"{cwd}/\n/mnt/\n/home/ann/"
    with pytest.raises(SandboxCompileError, match="would be lost") as caught:
        plan_of(Policy(workdir=workdir), cwd=cwd, tree=tree)
    assert caught.value.key == "filesystem.workdir"
    plan_of(Policy(), cwd=cwd, tree=tree)  # CONTROL


def test_a_working_directory_below_tmp_is_shown() -> None:
    assert "/tmp/work" in paths_of(plan_of(Policy(workdir="write"), cwd="/tmp/work"), "BIND")


def test_an_entry_of_proc_can_be_denied() -> None:
    plan = plan_of(Policy(deny=grants("/proc/meminfo")))
    assert (plan.mounts[-1].kind.value, plan.mounts[-1].target) == ("DENY_FILE", "/proc/meminfo")


@pytest.mark.parametrize("path", ["/", "/proc", "/dev", "/dev/null", "/proc/self/mounts"])
def test_what_a_cage_needs_cannot_be_denied(path: str) -> None:
    with pytest.raises(SandboxCompileError) as caught:
        plan_of(Policy(deny=grants(path)))
    assert caught.value.key == "filesystem.deny"


def test_policy_files_are_hidden_and_what_git_executes_is_read_only() -> None:
    plan = plan_of(Policy(workdir="write"))
    assert f"{PROJECT}/pysandbox.toml" in paths_of(plan, "MASK_FILE")
    protected = [step.target for step in plan.mounts if step.kind.value == "PROTECT" and len(step.attrs) == 3]
    assert {f"{PROJECT}/.git/hooks", f"{PROJECT}/.git/config"} <= set(protected)
    assert f"{PROJECT}/.git" in paths_of(plan, "PIN"), "an ancestor that is no mount point can be renamed away"


def test_a_git_file_is_read_only_itself() -> None:
    plan = plan_of(Policy(workdir="write"), cwd="/home/ann/worktree")
    assert "/home/ann/worktree/.git" in paths_of(plan, "PROTECT")


def test_files_to_guard_that_do_not_exist_are_noted() -> None:
    plan = plan_of(Policy(workdir="write"), cwd="/home/ann/empty")
    (note,) = notes_of(plan, NOT_COVERABLE)
    assert note.startswith("'/home/ann/empty' has no pysandbox.toml, .pysandbox, ")
    assert note.endswith(": what the cage creates there stays on the host")
    assert {".git", ".envrc,", ".vscode,"} <= set(note.partition(": what")[0].split())


def test_a_guard_never_makes_anything_visible() -> None:
    plan = plan_of(Policy(workdir="write"), cwd="/home/ann/linked")
    assert not any(step.target.startswith("/opt/tool") for step in plan.mounts)
    assert any("is a symlink" in each for each in notes_of(plan, NOT_COVERABLE))


def test_a_guarded_file_that_is_granted_by_name_is_writable() -> None:
    hooks = f"{PROJECT}/.git/hooks"
    plan = plan_of(Policy(workdir="write", allow_write=grants(hooks)))
    assert not any(step.target == hooks and len(step.attrs) == 3 for step in plan.mounts)


def test_a_read_only_workdir_still_hides_policy_files() -> None:
    plan = plan_of(Policy(workdir="read"))
    assert f"{PROJECT}/pysandbox.toml" in paths_of(plan, "MASK_FILE")
    assert f"{PROJECT}/.git/hooks" not in paths_of(plan, "BIND")


@pytest.mark.parametrize("workdir", ["none", "read", "write"])
def test_the_working_directory_appears_as_asked(workdir: str) -> None:
    plan = plan_of(Policy(workdir=workdir))
    bound = [step for step in plan.mounts if step.target == PROJECT and step.kind.value == "BIND"]
    protected = [len(step.attrs) for step in plan.mounts if step.target == PROJECT and step.kind.value == "PROTECT"]
    assert (len(bound), protected) == {"none": (0, []), "read": (1, []), "write": (1, [2])}[workdir]
    assert plan.cwd == ("/" if workdir == "none" else PROJECT)


def test_a_denied_working_directory_is_not_where_commands_start() -> None:
    assert plan_of(Policy(allow=grants("/home/ann"), deny=grants(PROJECT))).cwd == "/"


def test_a_path_that_was_not_expanded_is_refused() -> None:
    with pytest.raises(PolicyError, match="not expanded"):
        plan_of(Policy(deny=grants("$HOME/.ssh")))


def test_a_view_that_was_handed_out_cannot_be_changed() -> None:
    """Mounts, Landlock and the environment read one and the same view, whichever of them is compiled first."""
    policy = Policy(allow=SYSTEM, allow_execve=("/usr/bin/env",))
    view = build_view(policy, look(policy))
    assert view.programs is not None
    with pytest.raises(FrozenInstanceError):
        view.notes = ()  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        view.programs.files = {}  # type: ignore[misc]
    for table in (view.trees, view.holes, view.links, view.sockets, view.own, view.programs.files):
        with pytest.raises(TypeError):
            table["/x"] = None  # type: ignore[index]
