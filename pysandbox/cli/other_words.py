"""Words that people bring along from docker, bwrap, firejail, deno and subprocess, and what says the same here.

What means the same is a flag (`add_docker_flags`); what does not is refused with the flag that does, and is never
guessed: a flag that was understood in another way would grant, or take away, something else. Imported for `run`, and
for a word that nobody knows.
"""

from __future__ import annotations

import argparse
import re

MIB = 1 << 20
UNITS = {"b": 1, "k": 1 << 10, "m": MIB, "g": 1 << 30, "t": 1 << 40}
_SIZE = r"(\d{1,12})(?:([bkmgt])(?:i?b)?)?"
_VOLUME = r"[^:]+:/[^:]*(?::[\w,]*)?"
LEAST_MEMORY = 6 * MIB  # docker's own

OF_ITSELF = "every cage has it so; leave it out"
EMPTY = "--mask PATH shows an empty directory there; /tmp is the cage's own"
JOINED = "pysandbox attach ID shows a detached command; in Python a Cage has many commands"
READ, WRITE, HIDE = "--allow PATH shows it, read-only", "--allow-write PATH grants it", "--deny PATH closes it"
NAMES = "nothing is reached but what is named with --host NAME; for nothing at all leave it out"
RESOLVED = "the host looks names up, of those that --host names"
EVERYTHING = "the host's own network is --egress direct --unsafe-direct; what is named alone: --host NAME"
RECIPE = "a policy is given with -r FILE"
WHO = "--run-as nobody, self or root is whom the command takes itself for"
AUTHORITY = "--allow CA.pem, and the variable that the program reads: --env GIT_SSL_CAINFO=CA.pem, SSL_CERT_FILE, ..."
A_PATH = "a path keeps its name in the cage: --allow-write PATH grants it, --allow PATH shows it read-only"
APART = "--cow PATH keeps what is written there apart until it is committed; --workdir cow for this directory"
INSIDE = (
    "the cage's root, /tmp and /scratch are its own; any other path keeps its name: --allow PATH, --allow-write PATH"
)
ITS_OWN = "a cage has one of its own, always; leave it out"
DEVICES = "a cage has /dev/null, /dev/zero, /dev/random and a terminal, and no other device"
PASSED = "--env-passthrough NAME passes one of your variables on"

FLAGS = {
    # docker
    "--volume": A_PATH, "--mount": A_PATH, "--bind": A_PATH, "--volumes": A_PATH,
    "--read-only": "--workdir read leaves this directory as it is",
    "--network": NAMES, "--net": NAMES, "--allow-net": NAMES, "--internet": NAMES, "--allow-host": NAMES,
    "--domain": NAMES, "--user": WHO, "--uid": WHO, "--gid": WHO, "-u": WHO,
    "--env-file": "--env NAME=VALUE sets one, and a table of them is a recipe's: env in [process]",
    "--entrypoint": "the command itself is what follows --",
    "--privileged": "no cage has more rights than you; --no-sandbox is no cage at all",
    "--cap-add": "no cage holds a capability; for one system call: --allow-syscall NAME",
    "--cap-drop": OF_ITSELF, "--init": OF_ITSELF, "--security-opt": "--seccomp PROFILE chooses the filter",
    "--name": "a cage is known by its id: pysandbox ps", "--shm-size": "--tmp-mb MiB bounds what is written in memory",
    "--memory-swap": "--memory bounds what is swapped out, too", "--ulimit": "--open-files N, --file-size-gb GiB",
    "--publish": "--port PORT, or HOST:CAGE, as -p does", "--expose": "--port PORT publishes it",
    "--dns": RESOLVED, "--add-host": RESOLVED, "--gpus": DEVICES, "--device": DEVICES, "--ipc": ITS_OWN,
    "--pid": ITS_OWN,
    "--userns": ITS_OWN, "--uts": ITS_OWN, "--stop-timeout": "--grace S", "--pull": "there is no image: the host's own "
    "programs run", "--label": "a cage is known by its id: pysandbox ps",
    "--cpu-quota": "--cpu-percent %, or --cpus N", "--platform": "a cage runs programs of this machine",
    # bwrap
    "--ro-bind": READ, "--dev-bind": A_PATH, "--setenv": "--env NAME=VALUE", "--unsetenv": OF_ITSELF,
    "--clearenv": OF_ITSELF, "--chdir": "-w DIR is the command's directory", "--share-net": EVERYTHING,
    "--unshare-net": OF_ITSELF, "--unshare-all": OF_ITSELF, "--unshare-pid": OF_ITSELF, "--unshare-user": OF_ITSELF,
    "--die-with-parent": OF_ITSELF, "--new-session": OF_ITSELF, "--proc": OF_ITSELF, "--dev": OF_ITSELF,
    "--tmpfs": EMPTY,
    "--unshare-ipc": OF_ITSELF, "--unshare-uts": OF_ITSELF, "--unshare-cgroup": OF_ITSELF, "--as-pid-1": OF_ITSELF,
    "--hostname": ITS_OWN, "--dir": INSIDE, "--symlink": INSIDE, "--chroot": INSIDE, "--overlay": APART,
    "--overlay-src": APART, "--tmp-overlay": APART, "--ro-overlay": APART, "--overlay-tmpfs": APART,
    # firejail, deno, sandbox-exec and guesses
    "--private": "--workdir none hides this directory, too", "--whitelist": WRITE, "--blacklist": HIDE, "--hide": HIDE,
    "--noprofile": OF_ITSELF, "--noroot": OF_ITSELF, "--caps.drop": OF_ITSELF, "--nonewprivs": OF_ITSELF,
    "--rlimit-as": "--address-space-gb GiB", "--private-tmp": OF_ITSELF, "--no-network": OF_ITSELF,
    "--no-net": OF_ITSELF, "--offline": OF_ITSELF, "--isolate": OF_ITSELF,
    "--ro": READ, "--read": READ, "--allow-read": READ, "--readonly": READ, "--rw": WRITE, "--write": WRITE,
    "--path": READ, "--allow-run": "--allow-execve PATH, for each program", "--allow-exec": "--allow-execve PATH",
    "--allow-env": PASSED, "--keep-env": PASSED, "--preserve-env": PASSED, "-E": PASSED, "--pass-env": PASSED,
    "--allow-all": "--no-sandbox is no cage at all", "-A": "--no-sandbox is no cage at all",
    "--learn": "--monitor lets pass, and tells, what would be refused", "--audit": "pysandbox audit shows the trail",
    "--learning": "--monitor lets pass, and tells, what would be refused", "--trace": "--monitor tells what is refused",
    "--mem": "--memory 512m, or --memory-mb MiB", "--memory-limit": "--memory 512m, or --memory-mb MiB",
    "--cpu": "--cpus N, or --cpu-percent %", "--pids": "--max-pids N", "--procs": "--max-pids N",
    "--time": "--timeout S, or --walltime S", "--time-limit": "--timeout S, or --walltime S",
    "--scan": "--dlp scans what is sent for credentials", "--secrets": "--dlp scans what is sent for credentials",
    "--ca": AUTHORITY, "--cacert": AUTHORITY, "--ca-file": AUTHORITY, "--cafile": AUTHORITY,
    "--upstream-ca": f"upstream_ca of [proxy], in a recipe, for hosts with a contract; else {AUTHORITY}",
    "--policy": RECIPE, "--config": RECIPE,
    "-c": "run -- sh -c 'LINE' runs a line of a shell; " + RECIPE, "-f": RECIPE, "--file": RECIPE,
    "--profile": "--seccomp PROFILE chooses the filter; " + RECIPE,
    "--quiet": OF_ITSELF, "-q": OF_ITSELF,
    "--private-dev": OF_ITSELF, "--private-etc": OF_ITSELF, "--private-bin": "--allow-execve PATH, for each program",
    "--nogroups": OF_ITSELF, "--nosound": OF_ITSELF, "--no3d": OF_ITSELF, "--nodbus": OF_ITSELF,
    "--novideo": OF_ITSELF, "--noinput": OF_ITSELF, "--dbus-user": OF_ITSELF, "--x11": OF_ITSELF,
    "--noexec": "--allow-execve PATH, for each program that may run", "--netfilter": NAMES, "--join": JOINED,
    "--seccomp.drop": "--deny-syscall NAME", "--seccomp.keep": "--seccomp PROFILE, and --allow-syscall NAME",
    "--rlimit-nproc": "--max-pids N", "--rlimit-fsize": "--file-size-gb GiB", "--rlimit-nofile": "--open-files N",
    "--rlimit-cpu": "--walltime S",
    # nsjail, srt
    "--bindmount": WRITE, "-B": WRITE, "--bindmount_ro": READ, "-R": READ, "--tmpfsmount": EMPTY, "-T": EMPTY,
    "--group": WHO, "--time_limit": "--walltime S", "--rlimit_as": "--address-space-gb GiB",
    "--rlimit_fsize": "--file-size-gb GiB", "--rlimit_nofile": "--open-files N", "--rlimit_nproc": "--max-pids N",
    "--cgroup_mem_max": "--memory-mb MiB", "--cgroup_pids_max": "--max-pids N", "--keep_env": PASSED,
    "--cgroup_cpu_ms_per_sec": "--cpu-percent %", "--disable_clone_newnet": EVERYTHING,
    "--really_quiet": OF_ITSELF, "--settings": RECIPE, "--debug": "--verbose says more; --why says what was refused",
    "--allow-domain": NAMES, "--allow-domains": NAMES, "--allowed-domains": NAMES, "--allowed-hosts": NAMES,
    "--allow-hosts": NAMES, "--deny-read": HIDE, "--deny-write": "--allow-write PATH names what may be written; the "
    "rest is read-only, or not there",
    "--shell": "run -- sh -c 'LINE' runs a line of a shell", "--background": "--detach runs it on",
    "--interactive-shell": "run -- bash -i",
}  # fmt: skip

VERSION = frozenset({"-V", "--version"})  # asked for behind a command

# Flags that one command alone is asked for.
OF_COMMANDS = {
    "pysandbox setup": {"--pasta-path": "no cage needs pasta, or another program, for its network; leave it out"},
    "pysandbox up": {"-m": "--monitor is written out"},
    "pysandbox explain": {"-m": "--memory-mb MiB; --monitor is written out"},
    "pysandbox commit": {"--force": "--on-conflict force writes over what was changed meanwhile"},
}

COMMANDS = {
    "shell": "run -- bash -i", "sh": "run -- sh", "bash": "run -- bash -i", "exec": "run -- PROGRAM",
    "start": "run -- PROGRAM", "spawn": "run -- PROGRAM", "learn": "run --monitor -- PROGRAM",
    "monitor": "run --monitor -- PROGRAM", "trace": "run --monitor -- PROGRAM", "list": "ps",
    "stop": "kill ID", "rm": "kill ID", "log": "logs ID", "stats": "top", "doctor": "check", "status": "check",
    "info": "check", "install": "setup", "version": "--version", "recipes": "recipe list", "policy": "explain",
    "policies": "recipe list", "why": "explain --last", "report": "audit", "prune": "orphans --remove",
    "trust": "recipe trust", "show": "explain",
}  # fmt: skip


def add_docker_flags(parser: argparse.ArgumentParser) -> None:
    """What docker run spells in another way, and means the same by."""
    add = parser.add_argument_group("as docker spells it").add_argument
    add("-m", "--memory", dest="memory_mb", type=_memory, metavar="SIZE", default=None,
        help="As --memory-mb, with a unit: 512m, 2g.")  # fmt: skip
    add("--cpus", dest="cpu_percent", type=_cpus, metavar="N", default=None, help="As --cpu-percent: 1.5 is 150.")
    add("--pids-limit", dest="max_pids", type=int, metavar="N", default=None, help="As --max-pids.")
    add("-w", "--cwd", dest="cwd", metavar="DIR", default=None, help="The command's directory, in the cage.")
    add("-t", "--tty", dest="pty", action="store_true", default=None, help="As --pty.")
    add("-i", "--interactive", action="store_true", help="Nothing: a command always reads what you type.")
    add("--rm", action="store_true", help="Nothing: a cage is always gone with its command.")


def _memory(text: str) -> int:
    """MiB."""
    found = re.fullmatch(_SIZE, text, re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512m or 2g")
    size = int(found[1]) * UNITS[(found[2] or "b").lower()]
    if size < LEAST_MEMORY:
        meant = f"; did you mean {found[1]}m?" if found[2] is None and int(found[1]) >= LEAST_MEMORY // MIB else ""
        raise argparse.ArgumentTypeError(f"{text} is {size} bytes, in which no program runs{meant}")
    return size // MIB


def _cpus(text: str) -> int:
    try:
        percent = round(float(text) * 100)
    except (ValueError, OverflowError):
        percent = 0
    if percent <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processors, such as 1.5")
    return percent


def volume(word: str) -> str | None:
    """What to say of `-v SOURCE:TARGET`, whose -v is --verbose here; None for what is no volume."""
    if not re.fullmatch(_VOLUME, word):
        return None
    source, _, rest = word.partition(":")
    flag = "--allow" if rest.partition(":")[2].startswith("ro") else "--allow-write"
    return f"-v is --verbose here, and {word!r} is no command; a path keeps its name in the cage: {flag} {source}"
