"""The front door of document 000: a cage block in, a policy and an effective cage out."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.errors import PolicyError, SandboxCompileError, SandboxPathMissing
from pysandbox.policy.cage_block import from_cage_block, named_paths
from pysandbox.policy.cage_shape import is_ulid
from pysandbox.policy.expand import expand
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.way_out import effective_egress
from pysandbox.probe.facts import PathFact

ULID = "01HXABCDEFGHJKMNPQRSTVWXYZ"
OTHER = "01HXABCDEFGHJKMNPQRSTVWXY0"
BLOCK = {
    "kind": "enabled",
    "fs": [{"mode": "ro", "path": "./data"}, {"mode": "rw", "path": "scratch"}],
    "net": {"allow": []},
    "state": "ephemeral",
    "seccomp": "default",
    "limits": {"memory_mb": 256, "cpu_shares": 100, "pids": 32, "walltime_sec": 600},
}


class Pretend(dict[str, PathFact]):
    """Facts of a host on which every path is a plain directory, unless told otherwise."""

    def __missing__(self, path: str) -> PathFact:
        return PathFact(path, path, "dir")


def compiled(block: Any = BLOCK, **asked: Any):
    spawn = {
        "project_root": "/proj", "project_id": "scraper", "invocation_id": ULID, "session_id": "s1",
        "daemon_mode": "user", "daemon_uid": 1000, "paths": Pretend(),
    }  # fmt: skip
    return from_cage_block(block, **(spawn | asked))


def block_with(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(BLOCK) | changes


def limits_with(**changes: Any) -> dict[str, Any]:
    return block_with(limits=BLOCK["limits"] | changes)


def test_a_block_becomes_its_policy():
    policy, _ = compiled()
    assert policy == Policy(
        allow=["/proj/data"], allow_write=["/proj/scratch"], state="ephemeral", seccomp="default",
        seccomp_mode="deny-list", run_as="nobody", memory_mb=256, cpu_shares=100, max_pids=32, walltime_sec=600,
    )  # fmt: skip
    assert policy.base
    assert effective_egress(policy) == "none"
    assert policy.limits_required


def test_the_effective_cage_holds_the_plans():
    _, cage = compiled()
    assert cage.caged
    assert (cage.netns.name, cage.netns.allow, cage.netns.enabled) == (f"cage-{ULID}", (), False)
    assert cage.cgroup.name == f"cage-{ULID}"
    assert (cage.cgroup.memory_mb, cage.cgroup.cpu_shares, cage.cgroup.pids, cage.cgroup.walltime_sec) == (
        256,
        100,
        32,
        600,
    )
    assert cage.id_map == (65534, 1000)
    assert [(each.mode, each.src_host, each.dst_cage) for each in cage.audit.fs_mounts] == [
        ("ro", "/proj/data", "/proj/data"),
        ("rw", "/proj/scratch", "/proj/scratch"),
    ]


def test_the_summary_is_one_line_in_the_documents_form():
    _, cage = compiled()
    assert cage.audit.summary == (
        "cage[scraper@01HXAB] fs=ro:./data,rw:./scratch net=none state=ephemeral mem=256mb walltime=600s"
    )
    _, cage = compiled(limits_with(walltime_sec=1.5) | {"fs": []}, name="deployer")
    assert cage.audit.summary == "cage[deployer@01HXAB] fs=none net=none state=ephemeral mem=256mb walltime=1.5s"


def test_a_path_cannot_break_the_summarys_line_or_forge_a_field():
    _, cage = compiled(block_with(fs=[{"mode": "ro", "path": "a\n net=x,rw:./\u2028ü\\"}]))
    assert r" fs=ro:./a\u{a}\u{20}net=x\u{2c}rw:./\u{2028}ü\u{5c} net=none " in cage.audit.summary
    assert len(cage.audit.summary.splitlines()) == 1


def test_equal_input_gives_equal_output_and_only_names_depend_on_the_invocation():
    assert compiled() == compiled()
    policy, cage = compiled()
    other_policy, other = compiled(invocation_id=OTHER)
    assert other_policy == policy
    assert other.effective_cage_hash == cage.effective_cage_hash
    assert (
        replace(
            other,
            invocation_id=ULID,
            netns=cage.netns,
            cgroup=cage.cgroup,
            scratch_dir=cage.scratch_dir,
        )
        == cage
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"block": limits_with(pids=33)},
        {"block": limits_with(walltime_sec=601)},
        {"block": block_with(seccomp="relaxed")},
        {"block": block_with(state="scratch")},
        {"block": block_with(fs=[])},
        {"block": {"kind": "disabled"}},
        {"daemon_uid": 1001},
        {"project_root": "/elsewhere"},
        {"limits_required": False},
    ],
)
def test_the_hash_differs_where_the_cage_does(asked):
    assert compiled(**asked)[1].effective_cage_hash != compiled()[1].effective_cage_hash


def test_scratch_belongs_to_the_invocation_or_to_the_session():
    assert compiled()[1].scratch_dir == f"scratch-{ULID}"
    policy, cage = compiled(block_with(state="scratch"))
    assert cage.scratch_dir == "scratch-s1"
    assert policy.state == "scratch"


def test_a_disabled_block_has_empty_plans_and_runs_uncaged():
    policy, cage = compiled({"kind": "disabled"}, paths={})
    assert not policy.caged
    assert not cage.caged
    assert cage.uncaged_reason == "dsl_disabled"
    assert (cage.netns.name, cage.netns.enabled, cage.cgroup.name, cage.scratch_dir) == ("", False, "", "")
    assert cage.audit.fs_mounts == ()
    assert cage.audit.summary == "cage[scraper@01HXAB] disabled"


def test_no_sandbox_disables_every_block_and_keeps_its_wall_time():
    block = block_with(net={"allow": ["example.com"]})
    policy, cage = compiled(block, no_sandbox=True, paths={})
    assert policy == Policy(caged=False, base=False, walltime_sec=600)
    assert cage.uncaged_reason == "daemon_no_sandbox"
    assert compiled({"kind": "disabled"}, no_sandbox=True)[1].uncaged_reason == "daemon_no_sandbox"


def test_limits_may_be_declared_dispensable_by_the_caller():
    assert not compiled(limits_required=False)[0].limits_required


@pytest.mark.parametrize(
    ("block", "key"),
    [
        (None, "cage"),
        ([], "cage"),
        ({}, "cage.kind"),
        ({"kind": "on"}, "cage.kind"),
        ({"kind": ["disabled"]}, "cage.kind"),
        ({"kind": "disabled", "fs": []}, "cage"),
        ({"kind": "enabled"}, "cage"),
        (block_with(extra=1), "cage"),
        (block_with(fs={}), "cage.fs"),
        (block_with(fs=["./data"]), "cage.fs[0]"),
        (block_with(fs=[{"mode": "ro"}]), "cage.fs[0]"),
        (block_with(fs=[{"mode": "ro", "path": "a", "x": 1}]), "cage.fs[0]"),
        (block_with(fs=[{"mode": "wo", "path": "a"}]), "cage.fs[0].mode"),
        (block_with(fs=[{"mode": "ro", "path": ""}]), "cage.fs[0].path"),
        (block_with(fs=[{"mode": "ro", "path": 3}]), "cage.fs[0].path"),
        (block_with(fs=[{"mode": "ro", "path": "a\0"}]), "cage.fs[0].path"),
        (block_with(fs=[{"mode": "ro", "path": "/etc"}]), "cage.fs[0].path"),
        (block_with(fs=[{"mode": "ro", "path": "a"}, {"mode": "ro", "path": "../x"}]), "cage.fs[1].path"),
        (block_with(fs=[{"mode": "ro", "path": "a/../../proj/a"}]), "cage.fs[0].path"),
        (block_with(fs=[{"mode": "ro", "path": "a"}, {"mode": "rw", "path": "./b/../a"}]), "cage.fs[1]"),
        (block_with(net=[]), "cage.net"),
        (block_with(net={"deny": []}), "cage.net"),
        (block_with(net={"allow": "example.com"}), "cage.net.allow"),
        (block_with(net={"allow": ["a.com", "openai:gpt-4"]}), "cage.net.allow[1]"),
        (block_with(net={"allow": ["10.0.0.8x"]}), "cage.net.allow[0]"),
        (block_with(state="kept"), "cage.state"),
        (block_with(seccomp="baseline"), "cage.seccomp"),
        (limits_with(memory_mb=15), "cage.limits.memory_mb"),
        (limits_with(memory_mb=True), "cage.limits.memory_mb"),
        (limits_with(memory_mb="256"), "cage.limits.memory_mb"),
        (limits_with(cpu_shares=0), "cage.limits.cpu_shares"),
        (limits_with(pids=0), "cage.limits.pids"),
        (limits_with(walltime_sec=0), "cage.limits.walltime_sec"),
        (limits_with(walltime_sec=float("nan")), "cage.limits.walltime_sec"),
        (limits_with(gpu=1), "cage.limits"),
        (block_with(limits={"memory_mb": 64}), "cage.limits"),
        (limits_with(pids=None), "cage.limits.pids"),
    ],
)
def test_any_other_shape_is_refused_and_blamed_on_the_parser(block, key):
    with pytest.raises(SandboxCompileError) as caught:
        compiled(block)
    assert caught.value.key == key
    assert "policy parser" in str(caught.value)


def test_network_entries_become_hosts_with_their_ports_and_addresses():
    entries = ["Example.com", "b.example:443", "b.example:8443", "**.c.example", "10.0.0.0/8", "192.0.2.7:443",
               "[2001:DB8::1]:443", "2001:db8::/32", "[2001:db8:1::/48]:80"]  # fmt: skip
    policy, effective = compiled(block_with(net={"allow": entries}))
    assert policy.egress == "proxy-only"
    assert [(rule.domain, rule.ports) for rule in policy.hosts] == [
        ("example.com", ()), ("b.example", (443, 8443)), ("**.c.example", ()),
    ]  # fmt: skip
    assert policy.allow_ips == (
        "10.0.0.0/8/tcp", "192.0.2.7:443/tcp", "[2001:db8::1]:443/tcp", "[2001:db8::]/32/tcp",
        "[2001:db8:1::]/48:80/tcp",
    )  # fmt: skip
    assert effective.netns.enabled


@pytest.mark.parametrize("entries", [["a.example", "a.example:443"], ["a.example:443", "a.example"]])
def test_a_name_without_a_port_allows_them_all_whatever_else_is_said_of_it(entries):
    policy, _ = compiled(block_with(net={"allow": entries}))
    assert [(rule.domain, rule.ports) for rule in policy.hosts] == [("a.example", ())]


def test_no_network_entry_is_no_network():
    policy, effective = compiled(block_with(net={"allow": []}))
    assert (effective_egress(policy), policy.hosts, policy.allow_ips, effective.netns.enabled) == (
        "none",
        (),
        (),
        False,
    )


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"project_root": "proj"}, "project_root"),
        ({"project_root": "/a/../b"}, "project_root"),
        ({"project_root": None}, "project_root"),
        ({"project_id": "a/b"}, "project_id"),
        ({"project_id": ""}, "project_id"),
        ({"session_id": ".."}, "session_id"),
        ({"session_id": "a\n"}, "session_id"),
        ({"name": "a b"}, "name"),
        ({"invocation_id": ULID[:-1]}, "invocation_id"),
        ({"invocation_id": ULID.lower()}, "invocation_id"),
        ({"daemon_mode": "root"}, "daemon_mode"),
        ({"daemon_uid": -1}, "daemon_uid"),
        ({"daemon_uid": True}, "daemon_uid"),
        ({"daemon_uid": 2**32 - 1}, "daemon_uid"),
    ],
)
def test_a_spawn_that_cannot_be_named_is_refused(asked, key):
    with pytest.raises(SandboxCompileError) as caught:
        compiled(**asked)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (ULID, True),
        ("7" + "Z" * 25, True),
        ("8" + "0" * 25, False),
        ("0" * 25, False),
        ("0" * 27, False),
        ("0" * 25 + "I", False),
        ("0" * 25 + "U", False),
        ("0" * 26 + "\n", False),
        (None, False),
        ("٠" * 26, False),
    ],
)
def test_a_ulid_is_26_characters_of_128_bits(value, valid):
    assert is_ulid(value) is valid


def test_both_deployment_modes_give_the_same_cage_for_their_own_user():
    assert compiled(daemon_mode="system", daemon_uid=990)[1].id_map == (65534, 990)


# --- what only the file system can tell, told by facts ---

DATA = block_with(fs=[{"mode": "ro", "path": "data/x"}])


def test_the_paths_to_look_at_are_the_root_and_every_entry():
    assert named_paths(BLOCK, "/proj/") == ("/proj", "/proj/data", "/proj/scratch")
    assert named_paths(block_with(fs=[{"mode": "rw", "path": "."}]), "/proj") == ("/proj",)
    assert named_paths({"kind": "disabled"}, "/proj") == ()


@pytest.mark.parametrize(("kind", "message"), [("missing", "does not exist"), ("file", "is not a directory")])
def test_the_project_root_must_be_a_directory(kind, message):
    with pytest.raises(SandboxCompileError, match=message):
        compiled(paths=Pretend({"/proj": PathFact("/proj", "/proj", kind)}))


def test_a_path_that_does_not_exist_is_its_own_error():
    facts = Pretend({"/proj/data/x": PathFact("/proj/data/x", "/proj/data/x", "missing")})
    with pytest.raises(SandboxPathMissing, match="/proj/data/x does not exist") as caught:
        compiled(DATA, paths=facts)
    assert not isinstance(caught.value, SandboxCompileError)


def test_a_path_nobody_looked_at_is_refused():
    with pytest.raises(SandboxCompileError, match="nobody has looked at"):
        compiled(paths={"/proj": PathFact("/proj", "/proj", "dir")})


@pytest.mark.parametrize(
    "fact",
    [
        PathFact("/proj/data/x", "/etc/x", "file", (("/proj/data", "/etc"),)),
        PathFact("/proj/data/x", "/etc/x", "missing", (("/proj/data", "/etc"),)),
        PathFact("/proj/data/x", "/projects/x", "file", (("/proj/data", "/projects"),)),
        PathFact("/proj/data/x", "/proj/y", "file", (("/proj/data/x", "/var/l"), ("/var/l", "/proj/y"))),
    ],
)
def test_a_link_that_leaves_the_project_root_is_refused(fact):
    with pytest.raises(SandboxCompileError, match="leads out of the project root"):
        compiled(DATA, paths=Pretend({"/proj/data/x": fact}))


def test_links_within_the_root_and_the_way_to_the_root_are_its_owners_business():
    way = ("/proj", "/srv/proj")
    facts = Pretend(
        {
            "/proj": PathFact("/proj", "/srv/proj", "dir", (way,)),
            "/proj/data/x": PathFact("/proj/data/x", "/srv/proj/y", "file", (way, ("/srv/proj/data", "../proj"))),
        }
    )
    policy, _ = compiled(DATA, paths=facts)
    assert policy.allow == (Grant("/proj/data/x"),)


def test_a_path_means_its_letters_and_is_never_expanded():
    policy, _ = compiled(block_with(fs=[{"mode": "ro", "path": "$HOME/~"}]))
    assert expand(policy, env={}, cwd="/", home="").allow == (Grant("/proj/$HOME/~"),)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["enabled", "ro", "."]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*BLOCK, *BLOCK["limits"], "mode", "path", "allow"]) | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([None, *BLOCK]), JSON)
def test_no_block_raises_anything_but_a_policy_error(key, value):
    try:
        _, cage = compiled(value if key is None else block_with(**{key: value}))
    except PolicyError:
        return
    assert len(cage.audit.summary.splitlines()) == 1
