"""Pretend hosts: kernels that the suite does not run on, and a tree of files that no machine has.

`HOSTS` holds HostFacts by name, one of a host that forbids user namespaces; `TREE` the paths of the pretend host, where
a directory ends in "/", a socket in "=", and a link reads "name -> target"; `look` answers from it what
`probe.paths.look` would.
"""

from __future__ import annotations

from dataclasses import replace

from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.filters import Filters
from pysandbox.compile.plan import Plan
from pysandbox.policy.guarded import GIT, WORDS, Guard, hidden, named, of_repository
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import guarded_trees, hidden_patterns, wanted_paths, writable_trees
from pysandbox.policy.patterns import covers_path
from pysandbox.probe.executables import needed
from pysandbox.probe.facts import STAGING_CANDIDATES, Executable, HostFacts, Matched, PathFact, PathFacts

MODERN = HostFacts(
    kernel=(6, 18), machine="x86_64", uid=1000, gid=1000, landlock_abi=7, user_namespaces=True,
    network_namespaces=True, mount_setattr=True, seccomp_filter=True, user_notif=True, wait_killable=True,
    proc_mountable=True, nf_tables=True,
    env={"HOME": "/home/ann", "LANG": "C.UTF-8", "PATH": "/home/ann/bin:/usr/bin", "TERM": "xterm", "TOKEN": "secret"},
)  # fmt: skip
HOSTS = {
    "6.1": replace(MODERN, kernel=(6, 1), landlock_abi=2, nf_tables=False),
    "6.12": replace(MODERN, kernel=(6, 12), landlock_abi=6),
    "6.18": MODERN,
    "forbids-user-namespaces": replace(MODERN, user_namespaces=False, network_namespaces=False, mount_setattr=False,
                                       proc_mountable=False),
}  # fmt: skip

HOME = "/home/ann"
PROJECT = "/home/ann/project"
TREE = """
/bin -> usr/bin
/sbin -> usr/sbin
/lib -> usr/lib
/lib64 -> usr/lib64
/dev/
/dev/null
/dev/kvm
/proc/
/proc/meminfo
/proc/self -> 4711
/proc/4711/
/proc/4711/mounts
/sys/
/mnt/
/media/
/srv/
/opt/
/opt/tool/
/opt/tool/bin/
/run/
/tmp/
/tmp/work/
/tmp/shortcut -> /data/set
/var/tmp/
/usr/bin/
/usr/bin/env
/usr/lib/
/usr/lib64/
/usr/sbin/
/usr/share/zoneinfo/UTC
/etc/alternatives/
/etc/group
/etc/hosts
/etc/ld.so.cache
/etc/localtime -> /usr/share/zoneinfo/UTC
/etc/mtab -> ../proc/self/mounts
/etc/nsswitch.conf
/etc/passwd
/etc/resolv.conf -> ../run/resolved/stub.conf
/etc/shadow
/etc/ssl/certs/
/etc/ssl/openssl.cnf
/etc/ssl/private/
/run/resolved/stub.conf
/home/ann/.pyenv/
/home/ann/.nvm/
/home/ann/.ssh/id
/home/ann/way -> /data
/home/ann/project/.git/config
/home/ann/project/.git/hooks/
/home/ann/project/.env
/home/ann/project/pysandbox.toml
/home/ann/project/src/main.py
/home/ann/project/src/deep/er/key
/home/ann/project/out/
/home/ann/empty/
/home/ann/linked/.git/hooks -> /opt/tool
/home/ann/worktree/.git
/data/set/a
/data/set/private/
"""

# More files, for policies with a list of executables, and what each needs to be started.
PROGRAMS = """
/usr/bin/python3 -> python3.11
/usr/bin/python3.11
/usr/bin/static
/usr/lib/tool/helper
/usr/lib/ld-linux-x86-64.so.2
/usr/lib64/ld-linux-x86-64.so.2 -> ../lib/ld-linux-x86-64.so.2
/usr/local/lib/
/opt/tool/bin/run
/opt/tool/lib/
/opt/linker.so
/opt/other/bin/run
/opt/other/lib -> /usr/bin
/home/ann/project/build/tool
/home/ann/project/venv/bin/python -> /usr/bin/python3
/home/ann/project/venv/lib/
"""
LINKER = "/lib64/ld-linux-x86-64.so.2"
EXECUTABLES = {
    "/usr/bin/env": Executable("elf", LINKER),
    "/usr/bin/python3.11": Executable("elf", LINKER),
    "/usr/bin/static": Executable("elf"),
    "/opt/other/bin/run": Executable("elf", LINKER),
    "/opt/tool/bin/run": Executable("script", "/usr/bin/env"),
    "/home/ann/project/build/tool": Executable("elf", "/opt/linker.so"),
}

SYSTEM = tuple(
    Grant(path, optional=True)
    for path in ("/usr", "/bin", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/hosts", "/etc/resolv.conf",
                 "/etc/localtime", "/etc/passwd")
)  # fmt: skip


def _entries(lines: str) -> dict[str, tuple[str, str]]:
    """{path: (kind or "link", target)}, with every directory on the way."""
    entries = {"/": ("dir", "")}
    for line in lines.split("\n"):
        path, _, target = line.partition(" -> ")
        name, kind = path.rstrip("/="), {"/": "dir", "=": "socket"}.get(path[-1:], "file")
        if name:
            entries[name] = ("link", target) if target else (kind, "")
            while name := name.rpartition("/")[0]:
                entries.setdefault(name, ("dir", ""))
    for device in ("/dev/null", "/dev/kvm"):
        if device in entries:
            entries[device] = ("other", "")
    return entries


def look(policy: Policy, *, cwd: str = PROJECT, home: str = HOME, tree: str = TREE) -> PathFacts:
    entries = _entries(tree)
    inodes = {path: number for number, path in enumerate(sorted(entries), start=100)}
    if policy.allow_execve:
        entries = _entries(tree + PROGRAMS)
        inodes |= {path: number for number, path in enumerate(sorted(entries.keys() - inodes.keys()), start=1000)}
    wanted = (*wanted_paths(policy, cwd), cwd, home, *STAGING_CANDIDATES)
    seen = PathFacts(cwd, home, {path: _walk(path, entries, inodes) for path in wanted})
    matched = {
        pattern: Matched(key, (), tuple(path for path in entries if covers_path(pattern, path)), ())
        for key, _, pattern in hidden_patterns(policy, cwd)
    }
    more = {path: _walk(path, entries, inodes) for each in matched.values() for path in each.paths}
    seen = replace(seen, patterns=matched, facts={**more, **seen.facts})
    guards = _guards(policy, seen, home)
    seen = replace(seen, guards=guards, facts={
        **{guard.path: _walk(guard.path, entries, inodes) for guard in guards}, **seen.facts,
    })  # fmt: skip
    needs = needed(policy, seen, EXECUTABLES) if policy.allow_execve else ()
    facts = {**seen.facts, **{path: _walk(path, entries, inodes) for path in needs}}
    return replace(seen, facts=facts, executables=EXECUTABLES)


def _guards(policy: Policy, seen: PathFacts, home: str) -> tuple[Guard, ...]:
    """As `probe.guards` finds them, in the repository at the top of each grant."""
    closed = [word for word in WORDS if word not in policy.unguarded]
    found = [guard for path in guarded_trees(policy, seen.cwd) for guard in hidden(seen[path].real)]
    for path in writable_trees(policy, seen.cwd):
        tree = seen[path].real
        found += named(tree, home, closed)
        found += of_repository(f"{tree}/.git", tree) if GIT in closed else ()
    return tuple({guard.path: guard for guard in reversed(found)}.values())[::-1]


def _walk(path: str, entries: dict[str, tuple[str, str]], inodes: dict[str, int]) -> PathFact:
    real, links, ahead = "", [], [part for part in path.split("/") if part]
    while ahead:
        name = ahead.pop(0)
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        here = f"{real}/{name}"
        kind, target = entries.get(here, ("missing", ""))
        if kind == "link":
            links.append((here, target))
            ahead = [part for part in target.split("/") if part] + ahead
            real = "" if target.startswith("/") else real
        elif kind == "missing":
            return PathFact(path, here, "missing", tuple(links), loose=_loose(links))
        elif kind != "dir" and ahead:
            return PathFact(path, f"{here}/{ahead[0]}", "missing", tuple(links), loose=_loose(links))
        else:
            real = here
    return PathFact(path, real or "/", entries[real or "/"][0], tuple(links), dev=1, ino=inodes[real or "/"],
                    loose=_loose(links))  # fmt: skip


def _loose(links: list[tuple[str, str]]) -> tuple[str, ...]:
    """The links that are ann's to replace."""
    return tuple(link for link, _ in links if link.startswith((f"{HOME}/", "/tmp/", "/data/")))


def grants(*paths: str) -> tuple[Grant, ...]:
    return tuple(Grant(path) for path in paths)


def no_filter(policy: Policy, machine: str, notify: object) -> Filters:
    return Filters(b"")


def plan_of(policy: Policy, host: HostFacts = MODERN, **where: str) -> Plan:
    """The Plan on a pretend host, in the pretend tree, without a seccomp filter."""
    return compile_plan(policy, host, look(policy, **where), compile_filter=no_filter)


def paths_of(plan: Plan, kind: str) -> list[str]:
    """The targets of every step of a kind, in order."""
    return [step.target for step in plan.mounts if step.kind.value == kind]


def notes_of(plan: Plan, event: str) -> list[str]:
    return [note.message for note in plan.notes if note.event == event]
