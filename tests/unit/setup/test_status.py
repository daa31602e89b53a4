"""The five words about a policy, on pretended hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pysandbox.probe.features import Host
from pysandbox.setup import apparmor
from pysandbox.setup.status import apparmor_abi, read_status, wanted
from pysandbox.setup.target import InstallTarget

HERE = InstallTarget("/opt/app/bin/python3.11", "/opt/app/lib/cage-init")
ELSEWHERE = InstallTarget("/opt/other/bin/python3.11", "/opt/app/lib/cage-init")
MARKS = {"AppArmor": ("/sys/module/apparmor/parameters/enabled", "Y\n"), "SELinux": ("/sys/fs/selinux/enforce", "1")}


def put(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def pretend(root: Path, mac: str, policy: dict[str, str]) -> Host:
    put(root, *MARKS[mac])
    for path, text in policy.items():
        put(root, path, text)
    return Host(root=str(root))


def test_a_host_without_a_security_module_needs_no_policy(tmp_path: Path) -> None:
    status = read_status(HERE, Host(root=str(tmp_path)))
    assert (str(status), status.path) == ("not needed", "")


@pytest.mark.parametrize("mac", MARKS)
def test_a_policy_that_is_absent_is_not_installed(tmp_path: Path, mac: str) -> None:
    assert str(read_status(HERE, pretend(tmp_path, mac, {}))) == "not installed"


@pytest.mark.parametrize("mac", MARKS)
def test_the_current_policy_for_this_installation_is_installed_and_says_where(tmp_path: Path, mac: str) -> None:
    status = read_status(HERE, pretend(tmp_path, mac, wanted(mac, HERE, str(tmp_path))))
    assert str(status) == f"installed ({next(iter(wanted(mac, HERE, str(tmp_path))))})"


@pytest.mark.parametrize("mac", MARKS)
def test_the_policy_of_another_installation_has_the_wrong_path(tmp_path: Path, mac: str) -> None:
    assert str(read_status(HERE, pretend(tmp_path, mac, wanted(mac, ELSEWHERE, str(tmp_path))))) == "wrong path"


@pytest.mark.parametrize("mac", MARKS)
def test_another_content_for_the_same_paths_is_outdated(tmp_path: Path, mac: str) -> None:
    changed = {path: f"{text}# a line of another version\n" for path, text in wanted(mac, HERE, str(tmp_path)).items()}
    assert str(read_status(HERE, pretend(tmp_path, mac, changed))) == "OUTDATED"


def test_a_file_of_another_origin_in_our_place_is_outdated(tmp_path: Path) -> None:
    host = pretend(tmp_path, "AppArmor", {apparmor.FILE: "profile pysandbox /usr/bin/python3 { userns, }\n"})
    assert str(read_status(HERE, host)) == "OUTDATED"


def test_half_of_a_policy_is_outdated(tmp_path: Path) -> None:
    half = dict(list(wanted("SELinux", HERE, str(tmp_path)).items())[:1])
    assert str(read_status(HERE, pretend(tmp_path, "SELinux", half))) == "OUTDATED"


def test_the_language_is_the_newest_that_the_tools_of_the_host_know(tmp_path: Path) -> None:
    assert apparmor_abi(str(tmp_path)) == "4.0"
    put(tmp_path, "/etc/apparmor.d/abi/3.0", "")
    assert apparmor_abi(str(tmp_path)) == "3.0"
    put(tmp_path, "/etc/apparmor.d/abi/4.0", "")
    assert apparmor_abi(str(tmp_path)) == "4.0"
