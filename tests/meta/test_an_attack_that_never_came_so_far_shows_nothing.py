"""What counts as refused in tests/security is an errno of the kernel. An attack that ended before it had tried anything
passes no test, in whichever thread or child it ended; and whatever is tried at a door is tried without the cage too.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from security.harness import SILENCE, program, uncaged

SECURITY = Path(__file__).parent.parent / "security"

BROKEN = {
    "a path that no kernel was asked for": "import socket; attempt('x', socket.socket(1).connect, '/' + 'x' * 200)",
    "a name that cannot be encoded": "attempt('x', os.fsencode, chr(0xD800))",
    "a NUL in a path": "attempt('x', os.open, 'a' + chr(0), 0)",
    "an errno that no kernel has": "def slip(): raise OSError(-50593792, '')\nattempt('x', slip)",
    "an error without an errno": "def slip(): raise OSError('in short')\nattempt('x', slip)",
    "a slip before": "say('y')\nraise OSError(errno.EACCES, 'not taken')",
    "a thread": "import threading\nthread = threading.Thread(target=os.open, args=('/absent', 0))\n"
    "thread.start(), thread.join(), say('x', None, errno.EACCES)",
    "a child": "if not os.fork():\n    os.open('/absent', 0)\nos.wait(), say('x', None, errno.EACCES)",
}


@pytest.mark.parametrize("how", BROKEN)
def test_it_is_a_failure_of_the_test(how: str) -> None:
    with pytest.raises(AssertionError, match="broke off"):
        uncaged(program(BROKEN[how]))


def test_what_the_kernel_says_is_said_and_silence_is_no_refusal() -> None:
    report = uncaged(program("""
        import socket
        attempt("absent", os.open, "/absent", 0)
        attempt("there", os.open, "/", 0)
        def wait():
            a, b = socket.socketpair()
            a.settimeout(0.01)
            a.recv(1)
        attempt("nobody", wait)
    """))  # fmt: skip
    assert {name: each.errno for name, each in report.attempts.items()} == {
        "absent": "ENOENT", "there": None, "nobody": SILENCE,
    }  # fmt: skip


def at_doors() -> list[Path]:
    """The files whose attacks go through doors."""
    found = []
    for path in sorted(SECURITY.glob("test_*.py")):
        imported = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        if any(node.module == "network" and "attack" in {each.name for each in node.names} for node in imported):
            found.append(path)
    return found


@pytest.mark.parametrize("path", at_doors(), ids=lambda path: path.stem)
def test_each_attack_on_a_door_has_a_control(path: Path) -> None:
    """By `control`, or by a test that calls itself one."""
    tree = ast.parse(path.read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    told = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert "control" in called or any("control" in each.lower() for each in told)
