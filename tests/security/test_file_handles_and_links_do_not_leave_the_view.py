"""Claim: neither a file handle, nor a hard link, nor a directory descriptor reaches a file outside the view."""

from __future__ import annotations

import pytest

from .conftest import Ground
from .harness import Expected, caged, policy, program, uncaged

pytestmark = pytest.mark.guest

HANDLE_OF = """
    handle = ctypes.create_string_buffer((128).to_bytes(4, "little") + bytes(4 + 128), 136)
    mount_id = ctypes.c_int()
    call("name_to_handle_at", -100, SECRET, handle, ctypes.byref(mount_id), 0)
    say("named", handle.raw.hex())
"""

OPEN_HANDLE = """
    handle = ctypes.create_string_buffer(bytes.fromhex(HANDLE), len(HANDLE) // 2)
    mount = os.open(INSIDE, os.O_RDONLY | os.O_DIRECTORY)
    attempt("opened", call, "open_by_handle_at", mount, handle, os.O_RDONLY)
"""

LINKS = """
    directory = os.open(INSIDE, os.O_RDONLY)
    attempt("dots from a descriptor", os.open, "../outside/secret", os.O_RDONLY, dir_fd=directory)
    os.fchdir(directory)
    attempt("dots after fchdir", content, "../outside/secret")
    attempt("a link of the secret", os.link, SECRET, INSIDE + "/linked")
    attempt("a link into the outside", os.link, INSIDE + "/plain", OUTSIDE + "/planted")
    attempt("a rename into the outside", os.rename, INSIDE + "/plain", OUTSIDE + "/moved")
"""

OPENS = ("dots from a descriptor", "dots after fchdir")
MOVES = ("a link of the secret", "a link into the outside", "a rename into the outside")
REFUSED: dict[str, Expected] = {
    "full": dict.fromkeys(OPENS + MOVES, "ENOENT"),
    "landlock": {**dict.fromkeys(OPENS, "EACCES"), **dict.fromkeys(MOVES, ("EACCES", "EXDEV"))},
}


def test_a_handle_of_the_secret_cannot_be_opened(ground: Ground, isolation: str) -> None:
    control = uncaged(program(HANDLE_OF, SECRET=str(ground.secret)))
    attack = program(OPEN_HANDLE, HANDLE=control["named"].value, INSIDE=str(ground.inside))

    report = caged(attack, policy(isolation, allow_write=[str(ground.inside)]))

    assert control["named"].errno is None, "the handle must be a real one"
    assert report.differs({"opened": "EPERM"}) == {}


@pytest.mark.root
def test_root_opens_the_handle_without_a_cage_and_not_in_one(ground: Ground) -> None:
    handle = uncaged(program(HANDLE_OF, SECRET=str(ground.secret)))["named"].value
    attack = program(OPEN_HANDLE, HANDLE=handle, INSIDE=str(ground.inside))

    assert uncaged(attack)["opened"].errno is None
    assert caged(attack, policy(run_as="root", allow_write=[str(ground.inside)]))["opened"].errno == "EPERM"


def test_links_and_descriptors_do_not_cross_the_edge(ground: Ground, isolation: str) -> None:
    attack = program(LINKS, INSIDE=str(ground.inside), OUTSIDE=str(ground.outside), SECRET=str(ground.secret))

    report = caged(attack, policy(isolation, allow_write=[str(ground.inside)]))

    assert report.differs(REFUSED[isolation]) == {}
    assert ground.unharmed


def test_the_same_links_work_uncaged(ground: Ground) -> None:
    attack = program(LINKS, INSIDE=str(ground.inside), OUTSIDE=str(ground.outside), SECRET=str(ground.secret))

    assert uncaged(attack).differs(dict.fromkeys(OPENS + MOVES)) == {}
