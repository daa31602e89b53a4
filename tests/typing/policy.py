"""What a type checker accepts of a Policy, and what it refuses: the lines that end in `# wrong`, or `# wrong for ONE:
REASON` (tools/typed_pages.py).

Nothing here is run by the suite; tests/unit/policy holds the same of the values.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pysandbox import Grant, HostRule, Policy, PolicyOptions

here: str = "/home/me"
paths: list[str] = [here]
places: tuple[Path, ...] = (Path(here),)

# ---- what the coercions take ---------------------------------------------------------------------------------------

Policy(allow_write=[here], allow=paths, deny=places, mask=[Grant("/x", optional=True), "/y", Path("/z")])
Policy(hosts=["pypi.org", {"domain": "example.com", "ports": [443]}, HostRule(domain="a.example")])
Policy(
    env={"CI": "1"}, env_passthrough=("LANG",), allow_execve=["/usr/bin/*"], ports=["8000"], allow_ips=["10.0.0.0/8"]
)
Policy(env=[("CI", "1")], host_loopback_ports=[8000], syscall_lists={"allow": ["read"]}, egress="proxy-only")
Policy(memory_mb=512, max_pids=None, walltime_sec=3, strict=True, run_as="self", bridge="br7")
Policy().narrow(memory_mb=64, deny=["/etc/x"]).merge(Policy(workdir="read"))


def mine(**options: Unpack[PolicyOptions]) -> Policy:
    return Policy(**options)


kept: tuple[Grant, ...] = mine(allow=[here]).allow
pairs: tuple[tuple[str, str], ...] = Policy(env={}).env
word: str = Policy().workdir

# ---- what they refuse ----------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    Policy(alow=[here])  # wrong
    Policy(allow=here)  # wrong
    Policy(allow=[1])  # wrong for pyright: mypy takes any list that is written out for a Listed
    Policy(allow={here})  # wrong
    Policy(hosts=["pypi.org"], workdir="writ")  # wrong
    Policy(hosts=[{"domian": "pypi.org"}])  # wrong
    Policy(hosts="pypi.org")  # wrong for nobody: a str is a Sequence[str]; refused where the Policy is made
    Policy(memory_mb="512 MiB")  # wrong
    Policy(env={"CI": 1})  # wrong
    Policy().narrow(memory=64)  # wrong
    mine(max_pid=1)  # wrong
