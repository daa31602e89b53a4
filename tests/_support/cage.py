"""Attack scripts: the same few lines of Python, uncaged as the control and caged as the attack.

A script calls `report(value)` once; the value comes back through JSON. `attempt(call, *args)` gives "ok" or the name
of the errno, which is what most claims are about:

    assert uncaged_python("report(attempt(os.listdir, '/root'))", ...) == "ok"        # control
    assert cage_python(Policy(), "report(attempt(os.listdir, '/root'))") == "ENOENT"    # attack
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox import Cage, Policy, Result

PYTHON = "/usr/bin/python3"
PRELUDE = """\
import errno, json, os, sys

def report(value):
    print("\\n" + json.dumps(value), flush=True)

def attempt(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "ok"

"""


def script(source: str, *arguments: str) -> list[str]:
    """The argv that runs `source` after the prelude; `arguments` are its sys.argv[1:]."""
    return [PYTHON, "-I", "-S", "-c", PRELUDE + source, *arguments]


def cage_python(policy: Policy | Cage | None, source: str, *arguments: str, timeout: float = 30, **run: Any) -> Any:
    """Runs the script in a cage of `policy`, or as a further command of an open Cage; what it reported."""
    result = cage_script(policy, source, *arguments, timeout=timeout, **run)
    return reported(result.stdout, f"exit code {result.exit_code} ({result.reason}), stderr:\n{result.stderr}")


def cage_script(policy: Policy | Cage | None, source: str, *arguments: str, timeout: float = 30, **run: Any) -> Result:
    """Runs a script as `cage_python` does and returns the Result: for scripts that are expected to be killed."""
    from pysandbox import Cage

    cage = policy if isinstance(policy, Cage) else Cage(policy)
    return cage.run(script(source, *arguments), timeout=timeout, **run)


def uncaged_python(source: str, *arguments: str, timeout: float = 30, **run: Any) -> Any:
    """The control: the same script with no cage at all."""
    done = subprocess.run(script(source, *arguments), capture_output=True, text=True, timeout=timeout, **run)
    return reported(done.stdout, f"exit code {done.returncode}, stderr:\n{done.stderr}")


def reported(stdout: str, otherwise: str) -> Any:
    """The last line of the output as JSON; a script that never reported is an error of the test."""
    lines = stdout.strip().splitlines()
    if not lines:
        raise AssertionError(f"the script reported nothing: {otherwise}")
    try:
        return json.loads(lines[-1])
    except ValueError:
        raise AssertionError(f"the script's last line is no report: {lines[-1]!r}: {otherwise}") from None
