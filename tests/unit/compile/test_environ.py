"""PROC-03..05: nothing is inherited but what is named."""

from __future__ import annotations

from golden.pretend import MODERN, plan_of
from pysandbox.policy.model import Policy


def variables(**options: object) -> dict[str, str]:
    return dict(plan_of(Policy(**options)).env)  # type: ignore[arg-type]


OWN = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0", "LSAN_OPTIONS": "detect_leaks=0"}


def test_only_a_fixed_path_and_home_are_set() -> None:
    """... and what a cage without a network, or without ptrace, spares its programs."""
    assert variables() == {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", **OWN}


def test_a_client_with_a_way_out_may_try_again_and_a_debugger_look_for_leaks() -> None:
    assert not OWN.keys() & variables(hosts=("example.org",), allow_syscalls=("ptrace",)).keys()
    assert variables(env=(("PIP_RETRIES", "3"),))["PIP_RETRIES"] == "3"


def test_a_list_keeps_only_its_names_and_those_that_are_set() -> None:
    assert variables(env_passthrough=("LANG", "UNSET")).keys() == {"PATH", "HOME", "LANG", *OWN}


def test_a_path_that_is_passed_through_replaces_the_fixed_one() -> None:
    assert variables(env_passthrough=("PATH",))["PATH"] == MODERN.env["PATH"]


def test_fixed_variables_come_after_passthrough() -> None:
    assert variables(env_passthrough=("TERM",), env=(("TERM", "dumb"),))["TERM"] == "dumb"


def test_home_is_the_callers_for_self() -> None:
    assert variables(run_as="self")["HOME"] == "/home/ann"


def test_uncaged_everything_is_inherited_under_what_is_set() -> None:
    assert variables(caged=False, env=(("TERM", "dumb"),)) == {**MODERN.env, "TERM": "dumb"}
