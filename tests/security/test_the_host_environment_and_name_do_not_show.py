"""Claim: the host's environment and host name do not show in a cage.

Landlock mode has no UTS namespace: test_landlock_mode_names_its_gaps has the name.
"""

from __future__ import annotations

import os
import socket

import pytest

from .harness import caged, policy, program, token, uncaged, victim

pytestmark = pytest.mark.guest

ENVIRONMENT = 'say("environ", {os.fsdecode(k): os.fsdecode(v) for k, v in os.environb.items()})'

ENVIRONMENTS = """
    found = []
    for each in os.listdir("/proc"):
        try:
            found.append(content(f"/proc/{each}/environ").decode("latin-1"))
        except OSError:
            pass
    say("environments", found)
"""

NAMES = """
    import socket
    say("gethostname", socket.gethostname())
    say("uname", os.uname().nodename)
    attempt("sysctl", content, "/proc/sys/kernel/hostname")
    attempt("/etc/hostname", content, "/etc/hostname")
    attempt("/etc/hosts", content, "/etc/hosts")
    buffer = ctypes.create_string_buffer(390)
    call("uname", buffer)
    say("raw uname", buffer.raw[65:130].rstrip(b"\\0").decode())
"""


def test_only_a_fixed_path_is_set(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSB_HOST_SECRET", token())

    report = caged(program(ENVIRONMENT), policy(isolation))

    assert "PSB_HOST_SECRET" in uncaged(program(ENVIRONMENT))["environ"].value
    assert report["environ"].value["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert os.environ["PSB_HOST_SECRET"] not in str(report["environ"].value)
    inherited = {"PATH"} | {name for name in report["environ"].value if name in ("LC_CTYPE", "PWD")}
    ours = {"npm_config_fetch_retries", "PIP_RETRIES", "LSAN_OPTIONS"}
    assert set(report["environ"].value) <= inherited | {"HOME", "TMPDIR", "USER", "LANG", *ours}


def test_a_variable_passes_only_by_name(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSB_PASSED", "yes")
    monkeypatch.setenv("PSB_PASSED_NOT", "no")

    report = caged(program(ENVIRONMENT), policy(isolation, env_passthrough=("PSB_PASSED",), env=(("PSB_SET", "1"),)))

    assert report["environ"].value["PSB_PASSED"] == "yes" and report["environ"].value["PSB_SET"] == "1"
    assert "PSB_PASSED_NOT" not in report["environ"].value


def test_no_environment_of_a_host_process_is_in_proc() -> None:
    with victim() as target:
        control, report = uncaged(program(ENVIRONMENTS)), caged(program(ENVIRONMENTS), policy())

        assert any(target.secret in each for each in control["environments"].value)
        assert not any(target.secret in each for each in report["environments"].value)


def test_the_cage_has_a_name_of_its_own() -> None:
    host = socket.gethostname()

    control, report = uncaged(program(NAMES)), caged(program(NAMES), policy())

    assert control["gethostname"].value == host
    names = [report[each].value for each in ("gethostname", "uname", "raw uname")]
    assert len(set(names)) == 1 and names[0].startswith("cage-")
    assert report["sysctl"].errno in ("ENOENT", "EACCES") or report["sysctl"].value.strip() == names[0]
    assert report["/etc/hostname"].errno == "ENOENT" or host not in report["/etc/hostname"].value.split()
    assert host == "localhost" or host not in (report["/etc/hosts"].value or "").split()


def test_the_name_cannot_be_changed(isolation: str) -> None:
    report = caged(program('attempt("sethostname", call, "sethostname", "x", 1)'), policy(isolation))

    assert report.differs({"sethostname": "EPERM"}) == {}
