"""The policies before the system's own tools, and what is on disk when a tool fails. Needs no security module."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pysandbox.setup import apparmor, install, selinux
from pysandbox.setup.install import SetupError, compile_module
from pysandbox.setup.status import ABI_DIRECTORY, wanted
from pysandbox.setup.target import InstallTarget

PATH = install.PATH
TARGET = InstallTarget("/opt/app/bin/python3.11", "/opt/app/lib/cage-init")
KNOWN_ABIS = [abi for abi in apparmor.ABIS if Path(ABI_DIRECTORY, abi).exists()]


def tool(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


# ---- the real tools ------------------------------------------------------------------------------------------


def parse(abi: str, text: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """apparmor_parser for a kernel that has all that the language knows; every warning is an error."""
    (tmp_path / "policy").write_text(text)
    features = f"--kernel-features={ABI_DIRECTORY}/{abi}"
    flags = ["--skip-kernel-load", "--skip-cache", "--Werror", "--warn=all", features]
    command = [tool("apparmor_parser"), *flags, str(tmp_path / "policy")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_parser_of_this_host_takes_the_policy_without_a_warning(tmp_path: Path) -> None:
    tool("apparmor_parser")
    assert KNOWN_ABIS
    for abi in KNOWN_ABIS:
        done = parse(abi, apparmor.policy(TARGET, abi), tmp_path)
        assert (done.returncode, "rror" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(
    ("before", "after"), [("  file,", "  file"), ("capability,", "capabilities,"), ("abi <", "abi <absent/")]
)
def test_the_parser_would_notice_a_broken_policy(tmp_path: Path, before: str, after: str) -> None:
    abi = KNOWN_ABIS[-1] if KNOWN_ABIS else apparmor.ABIS[-1]
    whole = apparmor.policy(TARGET, abi)
    assert before in whole
    assert parse(abi, whole.replace(before, after, 1), tmp_path).returncode != 0


def selinux_tools() -> dict[str, str]:
    return {name: tool(name) for name in ("checkmodule", "semodule_package")}


def test_the_selinux_module_compiles_and_is_packaged(tmp_path: Path) -> None:
    package = compile_module(selinux_tools(), wanted("SELinux", TARGET), str(tmp_path))
    content = Path(package).read_bytes()
    assert b"pysandbox_sandboxed_t" in content
    assert selinux.contexts(TARGET).encode() in content


@pytest.mark.parametrize(("before", "after"), [("class fd { use };", ""), ("};", "}"), ("pysandbox_t, domain", "x")])
def test_the_selinux_compiler_would_notice_a_broken_module(tmp_path: Path, before: str, after: str) -> None:
    files = wanted("SELinux", TARGET)
    source = next(iter(files))
    assert before in files[source]
    broken = {**files, source: files[source].replace(before, after, 1)}
    with pytest.raises(SetupError, match="checkmodule failed"):
        compile_module(selinux_tools(), broken, str(tmp_path))


# ---- tools that fail -----------------------------------------------------------------------------------------


class Tools:
    """Stand-ins that write down how they were called, and fail where `fails` is in what they were told."""

    def __init__(self, directory: Path, log: Path) -> None:
        self.directory, self.log = directory, log
        directory.mkdir()

    def add(self, name: str, fails: str = "nothing-at-all") -> None:
        script = (
            f'#!/bin/sh\necho "{name} $*" >>"{self.log}"\ncase "$*" in *{fails}*) echo no luck >&2; exit 3;; esac\n'
        )
        (self.directory / name).write_text(script)
        (self.directory / name).chmod(0o755)

    def calls(self) -> list[str]:
        return [" ".join(line.split()[:2]) for line in self.log.read_text().splitlines()]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setattr(install, "PATH", f"{tmp_path}/bin")
    return Tools(tmp_path / "bin", tmp_path / "log")


def on_disk(directory: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in directory.iterdir()} if directory.exists() else {}


def apparmor_files(tmp_path: Path) -> tuple[dict[str, str], Path]:
    directory = tmp_path / "apparmor.d"
    directory.mkdir()
    return {f"{directory}/pysandbox": "new\n"}, directory


def test_a_profile_is_compiled_then_loaded_then_kept(tools: Tools, tmp_path: Path) -> None:
    files, directory = apparmor_files(tmp_path)
    tools.add("apparmor_parser")
    install.install("AppArmor", files, TARGET)
    assert tools.calls() == ["apparmor_parser --skip-kernel-load", "apparmor_parser --replace"]
    assert on_disk(directory) == {"pysandbox": "new\n"}
    assert (directory / "pysandbox").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("fails", ["--skip-kernel-load", "--replace"])
def test_a_profile_that_cannot_be_loaded_leaves_the_old_one(tools: Tools, tmp_path: Path, fails: str) -> None:
    files, directory = apparmor_files(tmp_path)
    (directory / "pysandbox").write_text("old\n")
    tools.add("apparmor_parser", fails)
    with pytest.raises(SetupError, match="exit code 3: no luck"):
        install.install("AppArmor", files, TARGET)
    assert on_disk(directory) == {"pysandbox": "old\n"}


def test_a_profile_that_cannot_be_unloaded_stays_on_disk(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, directory = apparmor_files(tmp_path)
    (directory / "pysandbox").write_text("old\n")
    monkeypatch.setattr(install, "LOADED", f"{tmp_path}/unreadable")
    tools.add("apparmor_parser", "--remove")
    with pytest.raises(SetupError):
        install.remove("AppArmor", files, TARGET)
    assert on_disk(directory) == {"pysandbox": "old\n"}
    assert len(tools.calls()) == 1
    tools.add("apparmor_parser")
    install.remove("AppArmor", files, TARGET)
    assert on_disk(directory) == {}


@pytest.mark.parametrize(
    ("loaded", "removed"),
    [
        ("pysandbox (unconfined)\npysandbox_sandboxed (enforce)\n", 2),
        ("pysandbox (unconfined)\n", 1),
        ("x (enforce)\n", 0),
    ],
)
def test_what_the_kernel_has_is_unloaded_the_interpreter_s_profile_last(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: str, removed: int
) -> None:
    files, directory = apparmor_files(tmp_path)
    (tmp_path / "profiles").write_text(loaded)
    monkeypatch.setattr(install, "LOADED", f"{tmp_path}/profiles")
    assert install._loaded() == [apparmor.CAGED, apparmor.HOST][2 - removed :]
    tools.add("apparmor_parser")
    tools.log.touch()
    install.remove("AppArmor", files, TARGET)
    assert len(tools.calls()) == removed
    assert on_disk(directory) == {}


def selinux_files(tmp_path: Path) -> tuple[dict[str, str], Path]:
    directory = tmp_path / "packages/pysandbox"
    return {f"{directory}/pysandbox.te": "types\n", f"{directory}/pysandbox.fc": "contexts\n"}, directory


def test_a_module_is_installed_before_its_files_are_labelled_and_kept(tools: Tools, tmp_path: Path) -> None:
    files, directory = selinux_files(tmp_path)
    for name in install.TOOLS["SELinux"]:
        tools.add(name)
    install.install("SELinux", files, TARGET)
    assert tools.calls() == ["checkmodule -M", "semodule_package -o", "semodule --install", "restorecon -F"]
    assert on_disk(directory) == {"pysandbox.te": "types\n", "pysandbox.fc": "contexts\n"}
    install.remove("SELinux", files, TARGET)
    assert tools.calls()[-2:] == ["semodule --remove", "restorecon -F"]
    assert not directory.exists()


@pytest.mark.parametrize(
    ("broken", "undone"),
    [("checkmodule", False), ("semodule_package", False), ("semodule", False), ("restorecon", True)],
)
def test_a_module_of_which_one_step_fails_is_taken_out_again(
    tools: Tools, tmp_path: Path, broken: str, undone: bool
) -> None:
    files, directory = selinux_files(tmp_path)
    for name in install.TOOLS["SELinux"]:
        tools.add(name, "-" if name == broken else "nothing-at-all")
    with pytest.raises(SetupError, match=f"{broken} failed"):
        install.install("SELinux", files, TARGET)
    assert ("semodule --remove" in tools.calls()) is undone
    assert not directory.exists()


@pytest.mark.parametrize("mac", install.TOOLS)
def test_every_missing_tool_is_named_with_its_package(tools: Tools, mac: str) -> None:
    with pytest.raises(SetupError) as error:
        install.install(mac, {}, TARGET)
    for name, package in install.TOOLS[mac].items():
        assert f"{name} (package {package})" in str(error.value)
