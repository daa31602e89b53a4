"""What a refusal is told with is proved by the next run: each kind of refusal, each way to write it down."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.cli.apply import Proposal
from pysandbox.denial import Denial
from pysandbox.policy.manifest import parse_manifest

PYTHON = ("/usr/bin/python3", "-c")
NAME = "import socket\ntry: socket.gethostbyname('pypi.org')\nexcept OSError: pass"
ADDRESS = "import socket\ntry: socket.create_connection(('203.0.113.9', 9), timeout=0.2)\nexcept OSError: pass"
DATAGRAM = "import socket\nsocket.socket(2, 2).sendto(b'x', ('203.0.113.9', 9))"
ALIAS = "import socket\ntry: socket.gethostbyname('host.pysandbox.internal')\nexcept OSError: pass"
PORT = (
    "import socket, urllib.request\ntry: urllib.request.urlopen('http://files.example:81/', timeout=1)\n"
    "except OSError: pass"
)
EXEC = "import os\ntry: os.execv('/usr/bin/id', ['id', '-u'])\nexcept OSError: pass"
SYSCALL = "import ctypes, os\nctypes.CDLL(None).syscall(312 if os.uname().machine == 'x86_64' else 272, 0, 0, 0, 0, 0)"

ASKS: dict[str, tuple[str, str]] = {
    "a name": ("[[host]]\ndomain = 'files.example'", NAME),
    "a name, beside a list": ("host = [{ domain = 'files.example' }]", NAME),
    "an address": ("[[host]]\ndomain = 'files.example'", ADDRESS),
    "an address, beside a list": ("network.allow_ips = ['192.0.2.7']\n[process]\nmax_pids = 99", ADDRESS),
    "an address by Landlock": (
        "isolation = 'landlock'\nnetwork.allow_ips = ['192.0.2.7:1/tcp']\nprocess.run_as = 'self'", ADDRESS
    ),
    "a datagram": ("[[host]]\ndomain = 'files.example'", DATAGRAM),
    "the host's loopback": ("[[host]]\ndomain = 'files.example'", ALIAS),
    "a port": ("[[host]]\ndomain = 'files.example'\nports = [80]", PORT),
    "a program": ("[process]\nallow_execve = ['/usr/bin/python3']", EXEC),
    "a program, in a table": ("process = { allow_execve = ['/usr/bin/python3'] }", EXEC),
    "a system call": ("monitor = true\n[syscalls]\nprofile = 'baseline'", SYSCALL),
}  # fmt: skip


def denied(policy: Policy, code: str) -> tuple[Denial, ...]:
    return Cage(policy).run([*PYTHON, code]).denials


@pytest.mark.parametrize("what", ASKS)
def test_whichever_way_it_is_written_down(what: str, tmp_path: Path) -> None:
    text, code = ASKS[what]
    policy = Policy.parse(text)
    found = denied(policy, code)
    assert found and all(each.fix and each.flag and each.python for each in found), found
    (tmp_path / "r.toml").write_text(text)
    flags = " ".join(dict.fromkeys(each.flag for each in found))
    tables = "\n\n".join(dict.fromkeys(each.fix for each in found))

    assert denied(Policy.parse(f"{text}\n{tables}\n"), code) == ()
    proposal = Proposal.of(str(tmp_path / "r.toml"), [each.fix for each in found])
    assert denied(Policy.parse(proposal.after), code) == ()
    for each in found:
        policy = eval(each.python, {"policy": policy, "Policy": Policy, "dataclasses": dataclasses})
    assert denied(policy, code) == ()
    line = f"'{sys.executable}' -m pysandbox run --json -r r.toml {flags} -- /usr/bin/python3 -c \"$CODE\""
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env={"CODE": code, "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["denials"] == []


@pytest.mark.parametrize("what", ["a name", "an address"])
def test_in_a_manifest(what: str, tmp_path: Path) -> None:
    text, code = ASKS[what]
    (fix, *_) = {each.fix for each in denied(Policy.parse(text), code)}
    base = "[sandbox]\na = { recipes = ['base'], command = 'x' }\nb = { recipes = ['base'], command = 'y' }\n"
    for sandbox in parse_manifest(f"{base}\n{fix}\n").sandboxes.values():
        assert denied(Policy(**sandbox.overrides), code) == ()


@pytest.mark.parametrize(("policy", "code"), [
    (Policy(monitor=True, deny_syscalls=["getpriority"]), "import ctypes\nctypes.CDLL(None).getpriority(0, 0)"),
    (Policy(allow_execve=["/usr/bin/python3"], mask=["/usr/bin/id"]), EXEC),
    (Policy(allow_execve=["/usr/bin/python3"]), EXEC.replace("/usr/bin/id", "/tmp/x").replace(
        "try", "open('/tmp/x', 'w').close(); os.chmod('/tmp/x', 0o755)\ntry")),
])  # fmt: skip
def test_what_the_next_run_would_refuse_all_the_same_is_not_shown(policy: Policy, code: str) -> None:
    found = denied(policy, code)
    assert found and all(each.fix == each.flag == each.python == "" for each in found), found
