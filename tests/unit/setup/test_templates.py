"""The texts of the policies. That the system's tools take them is shown in tests/e2e/test_cli_setup.py."""

from __future__ import annotations

import re

import pytest

from pysandbox.setup import apparmor, selinux
from pysandbox.setup.target import InstallTarget

TARGET = InstallTarget("/opt/app/bin/python3.11", "/opt/app/lib/c++/cage-init")


def profile(text: str, name: str) -> str:
    found = re.search(rf'^profile {name} ("[^"]+" .*?^}})$', text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_each_apparmor_profile_is_attached_to_its_program() -> None:
    text = apparmor.policy(TARGET)
    assert profile(text, apparmor.HOST).startswith(f'"{TARGET.interpreter}"')
    assert profile(text, apparmor.CAGED).startswith(f'"{TARGET.init}"')


def test_the_right_to_make_user_namespaces_is_the_interpreter_s_alone() -> None:
    text = apparmor.policy(TARGET)
    assert "\n  userns," in profile(text, apparmor.HOST)
    assert "\n  userns," not in profile(text, apparmor.CAGED)


@pytest.mark.parametrize("denied", ["capability", "mount", "umount", "pivot_root", "userns", "dbus"])
def test_what_is_in_a_cage_is_denied_by_name(denied: str) -> None:
    assert f"audit deny {denied}," in profile(apparmor.policy(TARGET), apparmor.CAGED)


def test_a_cage_is_traced_by_its_host_and_traces_nobody_else() -> None:
    rules = re.findall(r"ptrace \((.*)\) peer=(\w+)", profile(apparmor.policy(TARGET), apparmor.CAGED))
    outward = {peer for may, peer in rules if {"trace", "read"} & set(may.split(", "))}
    assert outward == {apparmor.CAGED}
    assert {"pysandbox", "unconfined"} <= {peer for may, peer in rules if "readby" in may}


def test_the_older_language_has_no_word_for_what_is_newer() -> None:
    older = apparmor.policy(TARGET, "3.0")
    assert "abi <abi/3.0>," in older
    assert not re.search("userns,|mqueue,|io_uring,", older)


def allowed(source: str) -> list[selinux.Rule]:
    return [rule for rule in (*selinux.RULES, *selinux.REACHED) if rule.source == source]


def test_a_selinux_cage_has_no_rule_for_capabilities_mounts_namespaces_or_the_bus() -> None:
    kinds = {rule.kind for rule in allowed(selinux.CAGED)}
    assert not kinds & {"capability", "capability2", "cap_userns", "cap2_userns", "user_namespace", "dbus", "process2"}
    mounts = {"mount", "remount", "unmount", "mounton"}
    assert not any(mounts & set(rule.may.split()) for rule in allowed(selinux.CAGED))
    assert not any("ptrace" in rule.may.split() for rule in allowed(selinux.CAGED))


def test_every_selinux_type_of_ours_is_declared_and_used() -> None:
    text = selinux.types(TARGET)
    for name in ("pysandbox_t", "pysandbox_exec_t", "pysandbox_sandboxed_t", "pysandbox_init_exec_t"):
        assert f"\ntype {name}, " in text
        assert len(re.findall(rf"\b{name}\b", text)) > 1


def test_a_selinux_path_is_a_pattern_that_matches_itself_alone() -> None:
    lines = [line.split(" ") for line in selinux.contexts(TARGET).splitlines()]
    assert [line[-1] for line in lines] == [
        "system_u:object_r:pysandbox_exec_t:s0",
        "system_u:object_r:pysandbox_init_exec_t:s0",
    ]
    assert re.fullmatch(lines[0][0], TARGET.interpreter)
    assert not re.fullmatch(lines[0][0], TARGET.interpreter.replace(".", "x"))
    assert re.fullmatch(lines[1][0], TARGET.init)
