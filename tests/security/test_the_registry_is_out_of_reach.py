"""Claim: no cage sees the records of cages, or reaches the shim of a detached one, whatever it is granted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pysandbox import Cage, PolicyError, SandboxCompileError
from pysandbox.records import registry
from pysandbox.testing import wait_idle

from .harness import caged, policy, program, uncaged

LOOK = """
    attempt("list", lambda: os.listdir(DIRECTORY))
    attempt("read", lambda: [open(f"{DIRECTORY}/{name}").read() for name in os.listdir(DIRECTORY)])
    attempt("write", lambda: open(f"{DIRECTORY}/01FORGED.json", "w").close())
"""

KNOCK = """
    import json, socket
    def knock(key):
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        place = os.open(os.path.dirname(DOOR), os.O_PATH)  # a path may be longer than an address
        door.connect(f"/proc/self/fd/{place}/{os.path.basename(DOOR)}")
        door.send(json.dumps({"key": key, "do": "signal", "number": 9}).encode())
        return door.recv(10).decode()
    attempt("key", lambda: knock(json.load(open(RECORD))["key"]))
    attempt("guess", lambda: knock("0" * 32))
"""


@pytest.mark.parametrize("grant", ["allow", "allow_write"])
def test_its_directory_is_not_in_any_grant(registry_home: Path, grant: str) -> None:
    with Cage() as known:
        known.runtime.wait_idle()
        directory = registry.private_directory()
        look = program(LOOK, DIRECTORY=directory)
        control = uncaged(look)
        assert control.differs({"list": None, "read": None, "write": None}) == {}
        os.unlink(f"{directory}/01FORGED.json")

        attack = caged(look, policy(**{grant: [str(registry_home)]}))

        wait_idle()
        assert {each.errno for each in attack.attempts.values()} <= {"ENOENT", "EACCES", "EROFS"}
        assert os.listdir(directory) == [f"{known.id}.json"]


@pytest.mark.parametrize("grant", ["allow", "allow_write"])
def test_a_grant_of_the_directory_itself_is_refused_by_name(registry_home: Path, grant: str, isolation: str) -> None:
    with Cage() as known:
        known.runtime.wait_idle()
        with pytest.raises(PolicyError, match="registry of cages"):
            Cage(policy(isolation, **{grant: [registry.private_directory()]})).run(["/bin/true"])


def test_a_grant_of_a_shim_s_socket_is_refused_by_name(registry_home: Path, isolation: str) -> None:
    """As the grant of a file in it is: whatever an option grants at a path, nothing in the directory can be it."""
    command = Cage().detach(["/bin/sleep", "600"])
    try:
        (record,) = registry.live()
        socket = f"{registry.private_directory()}/{record.id}.spool/socket"
        assert os.path.exists(socket)
        with pytest.raises(PolicyError, match="registry of cages"):
            Cage(policy(isolation, unix_sockets=[socket])).run(["/bin/true"])
    finally:
        command.kill()
        command.wait(10)
        command.close()


def test_its_directory_is_hidden_where_it_was_made_after_the_policy_was_read(registry_home: Path) -> None:
    rules = policy(allow_write=[str(registry_home)])
    with Cage(rules) as cage:
        directory = registry.private_directory()
        cage.runtime.wait_idle()
        assert os.path.isdir(directory)
        assert cage.run(["/bin/ls", "-A", directory]).stdout == ""


def test_landlock_mode_refuses_a_grant_that_holds_it(registry_home: Path) -> None:
    with pytest.raises(SandboxCompileError, match="cannot deny"):
        Cage(policy("landlock", allow=[str(registry_home)])).run(["/bin/true"])


def test_nor_is_that_of_programs_with_another_environment(
    registry_home: Path, isolation: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A job of cron keeps its records in /tmp, a login of the same user does not."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(registry, "TEMPORARY", str(shared))
    mine, place = registry.private_directory(), shared / f"pysandbox-{os.geteuid()}"
    place.mkdir(0o700)
    (place / "01OTHER.json").write_text("{}")
    look = program(LOOK, DIRECTORY=str(place))
    assert str(place) != mine and uncaged(look).differs({"list": None, "read": None, "write": None}) == {}  # CONTROL
    (place / "01FORGED.json").unlink()
    with pytest.raises(PolicyError, match="registry of cages"):
        Cage(policy(isolation, allow_write=[str(place)])).run(["/bin/true"])
    if isolation == "landlock":
        with pytest.raises(SandboxCompileError, match="cannot deny"):
            Cage(policy(isolation, allow_write=[str(shared)])).run(["/bin/true"])
    else:
        attack = caged(look, policy(allow_write=[str(shared)]))
        assert {each.errno for each in attack.attempts.values()} <= {"ENOENT", "EACCES", "EROFS"}
    assert os.listdir(place) == ["01OTHER.json"]


def test_a_shim_does_not_listen_to_a_cage(registry_home: Path, isolation: str) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    (record,) = registry.live()
    directory = registry.private_directory()
    knock = program(KNOCK, DOOR=f"{directory}/{record.id}.spool/socket", RECORD=f"{directory}/{record.id}.json")

    attack = caged(knock, policy(isolation))

    assert attack["key"].errno in ("ENOENT", "EACCES"), "the key cannot be read"
    assert attack["guess"].errno is not None or attack["guess"].value == "", "and nothing else opens the door"
    assert command.poll() is None
    guess = uncaged(program(KNOCK.replace('    attempt("key"', "    # "), DOOR=f"{directory}/{record.id}.spool/socket"))
    assert guess["guess"].value == "" and command.poll() is None, "nor to whoever reaches it without the key"
    control = uncaged(knock)
    assert control["key"].value == "done"
    assert command.wait(10) == -9
    command.close()


def test_a_record_shows_nothing_to_others(registry_home: Path) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    directory = Path(registry.private_directory())
    modes = {path.name: path.stat().st_mode & 0o077 for path in (directory, *directory.rglob("*"))}
    assert set(modes.values()) == {0}, json.dumps(modes)
    command.close()
