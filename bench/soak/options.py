"""Operations on cages that are not plain: every option alone and with another, each under attack, and what they cost
a neighbour.

ROWS are options as a user writes them. Two are drawn and put together, sometimes under `strict` or in landlock
isolation: the pair either is refused by name, or runs and holds. `neighbour` asks how long a cage waits for its own
command while the others go on.
"""

from __future__ import annotations

import time
from typing import Any

from bench.soak.canary import BASH, TRY
from bench.soak.operations import PATIENCE, Operation, World, Wrong, demand
from pysandbox import Cage, Policy
from pysandbox.errors import CageError, PolicyError, UnsupportedError
from pysandbox.supervise.context import Context
from pysandbox.supervise.policy_fn import CallEvent

STALL = 1.0  # seconds of its own time a cage may lose to the others (what the machine is busy with comes off)
ROWS: tuple[dict[str, Any], ...] = (
    {"allow_ips": ("203.0.113.7:443/tcp",)},
    {"allow_ips": ("203.0.113.0/24",)},
    {"hosts": ("allowed.invalid:443",)},
    {"allow_host_loopback": True, "host_loopback_ports": (9,)},
    {"scm_rights": "deny"},
    {"notifier": True},
    {"allow_execve": ("/bin/*", "/usr/bin/*")},
    {"memory_mb": 512},
    {"cpu_percent": 100},
    {"max_pids": 64},
    {"walltime_sec": 60},
    {"tmp_mb": 16, "open_files": 256},
    {"output_mb": 1},
    {"state": "scratch"},
    {"run_as": "root"},
    {"run_as": "self"},
    {"egress": "none"},
    {"seccomp": "seed-187"},
    {"seccomp": "relaxed"},
    {"seccomp_mode": "deny-list"},
    {"deny_syscalls": ("ppoll", "clock_gettime", "kill")},
    {"mask": ("/etc/passwd",)},
    {"deny": ("/etc/hostname",)},
    {"workdir": "read"},
    {"base": True, "env": {"A": "b"}},
)  # fmt: skip
ONE_HOST: dict[str, Any] = {"hosts": ("allowed.invalid",)}
LANDLOCK: dict[str, Any] = {"isolation": "landlock", "run_as": "self"}
MODES: tuple[dict[str, Any], ...] = ({}, {}, {"strict": True}, LANDLOCK, {"monitor": True})


def options_in_pairs(world: World) -> None:
    first, second = world.rng.sample(ROWS, 2)
    asked = {**first, **second, **world.rng.choice(MODES)}
    try:
        with Cage(Policy(**asked)) as cage:
            own_pids = asked.get("isolation") != "landlock"
            result = cage.run([BASH, "-c", TRY], env=world.canary.environment(own_pids=own_pids))
            demand(world.secret not in result.stdout, f"escape: {asked} has read the canary's secret")
            if not asked.get("strict"):  # there the first refused call is the last
                demand(cage.run([BASH, "-c", "echo done"]).stdout == "done\n", f"{asked}: a session has lost its shell")
    except (PolicyError, UnsupportedError):
        return  # refused by name


def supervised(world: World) -> None:
    """A callback that refuses one program, fails at another and lets the rest go on; then the network goes."""

    def decide(event: CallEvent, _: Context) -> bool | None:
        name = (event.argv or ("",))[0]
        if name.endswith("false"):
            raise Wrong("a callback that fails")
        return True if name.endswith("id") else None

    with Cage(Policy(**ONE_HOST), policy_fn=decide, deadline=PATIENCE) as cage:
        said = cage.run([BASH, "-c", "/usr/bin/id; /bin/false; (exec 3<>/dev/tcp/198.51.100.1/9); echo done"])
        demand(said.stdout == "done\n", f"a refused program has run: {said.stdout!r}")
        cage.restrict_network([])
        demand(cage.run(["/bin/true"]).ok, "nothing runs after the network was taken away")


def neighbour(world: World) -> None:
    """What a command of a supervised cage waits for, less what the same takes where nothing is shared."""
    with Cage(Policy(allow_ips=("203.0.113.7:443/tcp",))) as cage:
        connect = [BASH, "-c", "(exec 3<>/dev/tcp/127.0.0.1/1) 2>/dev/null; true"]
        cage.run(connect)
        plain, supervised_time = _took(Cage(), connect), _took(cage, connect)
    demand(supervised_time - plain < STALL, f"a cage waited {supervised_time:.1f} s, alone it would be {plain:.1f} s")


def _took(cage: Cage, argv: list[str]) -> float:
    began = time.monotonic()
    try:
        cage.run(argv)
    except CageError as error:
        raise Wrong(f"a neighbour's command failed: {error}") from error
    return time.monotonic() - began


WITH_OPTIONS: dict[Operation, int] = {options_in_pairs: 30, supervised: 6, neighbour: 4}
