"""The recipes that ship, and the base under every policy."""

from __future__ import annotations

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy import bake, base_grants
from pysandbox.policy.expand import expand
from pysandbox.policy.match import access, covers
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.recipe import SHIPPED, shipped_file, with_base
from pysandbox.policy.sources import shipped

DOCUMENTED = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/share",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/ssl",
    "/etc/ca-certificates",
    "/etc/localtime",
    "/etc/alternatives",
    "/etc/passwd",
    "/etc/group",
]


def test_the_grants_in_python_are_those_of_base_toml():
    for name, text in bake.baked().items():
        with open(bake.target(name), encoding="utf-8") as file:
            assert file.read() == text, "run python -m pysandbox.policy.bake"
    given = shipped("base").given
    assert (given["allow"], given["deny"]) == (base_grants.ALLOW, base_grants.DENY)


def test_every_file_in_the_folder_ships_and_every_shipped_recipe_has_a_file():
    assert SHIPPED.keys() == dict(bake.packaged()).keys()
    assert all(shipped_file(name) == file for name, file in bake.packaged())


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_reads_strictly_and_is_named_after_its_file(name):
    recipe = shipped(name)
    assert recipe.name == name.rpartition(":")[2]
    assert recipe.meta is not None
    assert recipe.meta.description
    assert recipe.meta.version
    assert recipe.policy(Policy).caged


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_expands_without_any_variable_and_demands_no_path(name):
    policy = expand(shipped(name).policy(Policy), env={}, cwd="/w", home="/home/u")
    assert all(each.optional for each in (*policy.allow, *policy.allow_write, *policy.deny))
    assert not policy.allow_write or name in ("claude-code", "codex", "opencode")


@pytest.mark.parametrize("name", SHIPPED)
def test_no_shipped_recipe_limits_memory_or_cpu(name):
    assert not shipped(name).given.keys() & {"memory_mb", "cpu_percent", "cpu_shares"}


def test_an_unknown_recipe_is_refused_with_the_known_ones():
    with pytest.raises(PolicyError, match=r'pythn: no such recipe ships; there are base, .*did you mean "python"'):
        shipped("pythn")
    with pytest.raises(PolicyError):
        shipped("../recipes/base")


def test_the_base_covers_every_documented_path_and_not_the_hosts_tmp():
    policy = with_base(Policy())
    for path in DOCUMENTED:
        assert access(policy, path)[0] == "read", path
    for path in ("/tmp", "/etc", "/home/u", "/root", "/var", "/etc/machine-id", "/etc/ssh", "/etc/pki/tls/private/k"):
        assert access(policy, path)[0] == "unseen", path


def test_the_base_denies_passwords_and_keys_also_when_etc_is_granted():
    policy = with_base(Policy(allow=["/etc"]))
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/ssl/private/host.key"):
        assert access(policy, path)[0] == "denied"


def test_the_base_is_laid_under_a_policy_once_and_only_when_wanted():
    policy = Policy(allow=["/proj", "/etc/hosts"], deny=["/usr/games"], memory_mb=64)
    based = with_base(policy)
    assert with_base(based) == based
    assert [each.path for each in based.allow] == [*(each.path for each in base_grants.ALLOW), "/proj"]
    assert Grant("/etc/hosts") in based.allow  # asked for by name, so no longer optional
    assert based.deny[-1] == Grant("/usr/games")
    assert based.memory_mb == 64
    bare = with_base(Policy(base=False, allow=["/proj"], deny=["/proj/keys"]))
    assert bare.allow == (Grant("/proj"),)
    assert bare.deny == (*base_grants.DENY, Grant("/proj/keys"))


def test_no_base_grant_lies_below_another_but_those_that_landlock_mode_needs_by_name():
    paths = [each.path for each in base_grants.ALLOW]
    assert {a for a in paths for b in paths if a != b and covers(a, b)} == {"/etc/ssl"}


def test_untrusted_is_tighter_than_the_default_and_node_lifts_the_address_space():
    untrusted = shipped("untrusted").policy(Policy)
    assert Policy().narrow(**shipped("untrusted").given) == untrusted
    assert untrusted.strict
    assert shipped("node").policy(Policy).address_space_gb == 0


def test_generic_strict_holds_the_documents_values():
    policy = shipped("generic-strict").policy(Policy)
    assert policy.strict
    assert policy.max_pids == 64
    assert policy.env_passthrough == ("PATH", "LANG", "TERM")
    assert policy.allow_syscalls == (
        "ptrace", "personality", "seccomp", "io_uring_setup", "io_uring_enter", "io_uring_register",
    )  # fmt: skip
