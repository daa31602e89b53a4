"""A recipe that a project brings along may narrow; what widens is refused until its user trusts that very file."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy import search
from pysandbox.policy.compose import resolve
from pysandbox.policy.model import Policy
from pysandbox.policy.reading import sha256
from pysandbox.policy.recipe import with_base
from pysandbox.policy.sources import parse_recipe
from pysandbox.policy.trust import pin, pins, trust_file

Write = Callable[[str, str], Path]


def trust(path: Path) -> None:
    pin({search.place_of(str(path)): sha256(path.read_bytes())})


# ---- a project's own recipes -------------------------------------------------------------------------------------


WIDER = [
    ('[filesystem]\nallow = ["/srv"]', "filesystem.allow"),
    ('[filesystem]\nallow_write = ["/srv"]', "filesystem.allow_write"),
    ('[network]\negress = "direct"\nunsafe = true', "network.egress"),
    ('[process]\nenv = { LD_PRELOAD = "./x.so" }', "process.env"),
    ('[process]\nenv_passthrough = ["AWS_SECRET_ACCESS_KEY"]', "process.env_passthrough"),
    ('[syscalls]\nallow_extra = ["ptrace"]', "syscalls.allow_extra"),
    ('isolation = "landlock"', "isolation"),
    ("caged = false", "caged"),
    ('[[host]]\ndomain = "evil.example"', "host"),
]
NARROWER = [
    '[filesystem]\ndeny = ["/srv"]\nmask = [".env"]',
    "strict = true\n[process]\nmax_pids = 8",
    '[process]\nallow_execve = ["/usr/bin/python3"]',
    "[resources]\nwalltime_sec = 5",
]


@pytest.mark.parametrize(("text", "key"), WIDER)
def test_a_projects_recipe_that_widens_is_refused_until_it_is_trusted(host: Path, write: Write, text: str, key: str):
    path = write("project/ours.toml", text)
    with pytest.raises(PolicyError) as caught:
        resolve(["ours"])
    assert caught.value.file == str(path)
    assert key in caught.value.message
    assert f"pysandbox recipe trust {path}" in (caught.value.suggestion or "")
    trust(path)
    assert resolve(["ours"]).policy == parse_recipe(text).policy(Policy)


@pytest.mark.parametrize("text", NARROWER)
def test_a_projects_recipe_that_only_narrows_needs_no_trust(host: Path, write: Write, text: str):
    write("project/ours.toml", text)
    assert resolve(["ours"]).policy == parse_recipe(text).policy(Policy)
    assert not os.path.exists(trust_file())


def test_a_changed_file_is_trusted_no_longer(host: Path, write: Write):
    path = write("project/ours.toml", WIDER[0][0])
    trust(path)
    resolve(["ours"])
    path.write_text(WIDER[1][0])
    with pytest.raises(PolicyError, match="has changed since you trusted it"):
        resolve(["ours"])


def test_a_shadowed_name_is_compared_with_what_it_shadows(host: Path, write: Write):
    path = write("project/generic-strict.toml", "[process]\nmax_pids = 64")
    with pytest.raises(PolicyError, match="strict"):
        resolve(["generic-strict"])
    path.write_text('strict = true\n[process]\nmax_pids = 8\nenv_passthrough = ["PATH"]\n[network]\negress = "none"')
    assert resolve(["generic-strict"]).policy.max_pids == 8


def test_a_projects_base_drops_no_denial_of_what_another_recipe_grants(host: Path, write: Write):
    write("user/etc.toml", '[filesystem]\nallow = ["/etc"]')
    write("project/base.toml", '[filesystem]\nallow = [{ path = "/usr", optional = true }]')
    policy = with_base(resolve(["etc"]).policy)
    assert "/etc" in [grant.path for grant in policy.allow]
    assert "/etc/shadow" in [grant.path for grant in policy.deny]


def test_a_projects_baseline_needs_trust(host: Path, write: Write):
    path = write("project/default.toml", '[syscalls]\nallow = ["read"]')
    with pytest.raises(PolicyError, match=r"syscalls\.lists"):
        resolve([])
    trust(path)
    assert resolve([]).policy.syscall_lists


def test_a_projects_recipe_cannot_have_itself_detected(host: Path, write: Write):
    write("project/auto.toml", f'[recipe]\nmatch_prefix = ["{host}"]\n[filesystem]\nallow = ["/srv"]')
    program = write("bin/tool", "")
    program.chmod(0o755)
    with pytest.raises(PolicyError, match=r"auto\.toml"):
        resolve([], command=[str(program)])


def test_a_file_named_by_its_path_in_a_projects_directory_is_no_exception(host: Path, write: Write):
    write("project/ours.toml", WIDER[0][0])
    with pytest.raises(PolicyError, match="recipe trust"):
        resolve([".pysandbox/ours.toml"])


@pytest.mark.parametrize(
    ("link", "to", "asked"),
    [
        ("project/innocent", "project/.pysandbox", "innocent/ours.toml"),  # by where it lies
        ("project/.pysandbox", "elsewhere", ".pysandbox/ours.toml"),  # by its letters
    ],
)
def test_a_projects_directory_is_one_by_its_name_and_by_where_it_lies(host: Path, link: str, to: str, asked: str):
    (host / to).mkdir(parents=True)
    (host / link).symlink_to(host / to)
    (host / to / "ours.toml").write_text(WIDER[0][0])
    with pytest.raises(PolicyError, match="recipe trust"):
        resolve([asked])


def test_trust_in_one_recipe_is_not_trust_in_another(host: Path, write: Write):
    first, second = write("project/a.toml", WIDER[0][0]), write("project/b.toml", WIDER[1][0])
    trust(first)
    with pytest.raises(PolicyError, match=second.name):
        resolve(["a", "b"])


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("{}", 0o600, "not a record of trust"),
        ("not json", 0o600, "is not JSON"),
        ("[]", 0o600, "not a record of trust"),
        (json.dumps({"version": 1, "files": {"/x": None}}), 0o600, "not a record of trust"),
        (json.dumps({"version": 1, "files": {}}), 0o666, "written by somebody else"),
        (json.dumps({"version": 1, "files": {}}), 0o620, "written by somebody else"),
        (json.dumps({"version": 1, "files": {}}), 0o602, "written by somebody else"),
        (json.dumps({"version": 2, "files": {}}), 0o600, "not a record of trust"),
    ],
)
def test_a_record_of_trust_that_cannot_be_believed_is_an_error(
    host: Path, write: Write, content: str, mode: int, message: str
):
    write("project/ours.toml", WIDER[0][0])
    path = Path(trust_file())
    path.parent.mkdir(parents=True)
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(PolicyError, match=message):
        resolve(["ours"])


def test_a_record_of_another_user_s_is_not_believed(host: Path, write: Write, monkeypatch: pytest.MonkeyPatch):
    trust(write("project/ours.toml", WIDER[0][0]))
    assert resolve(["ours"]).policy.allow
    mine = os.stat(trust_file()).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    if mine != 0:  # root's is everybody's
        with pytest.raises(PolicyError, match="written by somebody else"):
            pins()


def test_a_record_that_cannot_be_read_is_an_error(host: Path):
    path = Path(trust_file())
    path.parent.mkdir(parents=True)
    path.symlink_to(path)
    with pytest.raises(PolicyError, match="cannot be read"):
        pins()


def test_what_lies_in_the_place_of_the_next_record_is_neither_followed_nor_kept(host: Path, tmp_path: Path):
    """A link there would have another file written over; what was left of a longer record would spoil the new one."""
    victim, new = tmp_path / "victim", Path(f"{trust_file()}.new")
    victim.write_text("mine")
    new.parent.mkdir(parents=True)
    new.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        pin({"/x": "0"})
    assert victim.read_text() == "mine"
    new.unlink()
    new.write_text("{" * 4096)
    pin({"/x": "0"})
    assert pins() == {"/x": "0"}


def test_two_that_trust_at_once_lose_neither(host: Path):
    pin({"/x": "0"})
    with open(f"{trust_file()}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=pin, args=({"/y": "1"},))
        other.start()
        other.join(0.2)
        assert other.is_alive()
    other.join()
    assert pins() == {"/x": "0", "/y": "1"}


def test_the_record_is_the_users_alone_and_forgets(host: Path, write: Write):
    path = write("project/ours.toml", "")
    trust(path)
    assert os.stat(trust_file()).st_mode & 0o777 == 0o600
    assert list(pins()) == [str(path)]
    pin({str(path): None})
    assert pins() == {}
