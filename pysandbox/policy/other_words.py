"""Keywords that people bring along from subprocess, docker, bwrap and firejail, and what says the same of a Policy.

Read only for a keyword or a key that no option has. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

HOSTS = 'what may be reached is named: hosts=["pypi.org"]'
RUN = "that is for run() and spawn(), not for a policy"
ALWAYS = "every cage has it so; leave it out"

# To the field that means the same, if only its name differs.
FIELDS: Mapping[str, str] = {
    "timeout": "walltime_sec", "time_limit": "walltime_sec", "timeout_sec": "walltime_sec", "max_time": "walltime_sec",
    "walltime": "walltime_sec", "wall_time": "walltime_sec", "timeout_seconds": "walltime_sec",
    "memory": "memory_mb", "mem": "memory_mb", "mem_limit": "memory_mb", "memory_limit": "memory_mb",
    "max_memory": "memory_mb", "max_memory_mb": "memory_mb", "memory_limit_mb": "memory_mb", "ram": "memory_mb",
    "ram_mb": "memory_mb", "cpu": "cpu_percent", "cpus": "cpu_percent", "cpu_limit": "cpu_percent",
    "cpu_quota": "cpu_percent", "nano_cpus": "cpu_percent", "pids": "max_pids", "pids_limit": "max_pids",
    "max_processes": "max_pids", "nproc": "max_pids", "procs": "max_pids", "processes": "max_pids",
    "read": "allow", "ro": "allow", "readable": "allow", "read_only": "allow", "readonly": "allow", "ro_bind": "allow",
    "allow_read": "allow", "read_paths": "allow", "paths": "allow", "allowed_paths": "allow", "whitelist": "allow",
    "write": "allow_write", "rw": "allow_write", "writable": "allow_write", "writeable": "allow_write",
    "write_paths": "allow_write", "bind": "allow_write", "binds": "allow_write", "mounts": "allow_write",
    "volumes": "allow_write", "hide": "deny", "blacklist": "deny", "deny_read": "deny", "denied_paths": "deny",
    "tmpfs": "mask", "host": "hosts", "domains": "hosts", "allow_hosts": "hosts", "allowed_hosts": "hosts",
    "allow_domains": "hosts", "allowed_domains": "hosts", "allow_net": "hosts", "allow_network": "hosts",
    "ip": "allow_ips", "ips": "allow_ips", "allow_ip": "allow_ips", "port": "ports", "publish": "ports",
    "environ": "env", "environment": "env", "variables": "env", "env_vars": "env", "pass_env": "env_passthrough",
    "keep_env": "env_passthrough", "inherit_env": "env_passthrough", "allow_env": "env_passthrough",
    "executables": "allow_execve", "programs": "allow_execve", "allow_exec": "allow_execve",
    "allow_run": "allow_execve", "user": "run_as", "uid": "run_as", "username": "run_as",
    "fs_readable": "allow", "fs_writable": "allow_write", "fs_denied": "deny", "net_allow": "hosts",
    "http_allow": "hosts", "max_cpu": "cpu_percent", "max_disk": "cow_mb",
    "syscalls": "allow_syscalls", "allow_syscall": "allow_syscalls", "deny_syscall": "deny_syscalls",
    "seccomp_profile": "seccomp", "profile": "seccomp", "ulimit_nofile": "open_files", "nofile": "open_files",
    "max_open_files": "open_files", "max_output": "output_mb", "max_output_mb": "output_mb", "shm_size": "tmp_mb",
    "tmp_size": "tmp_mb", "learn": "monitor", "learning": "monitor", "sandbox": "caged", "mode": "isolation",
}  # fmt: skip

# To a sentence, where nothing is as near as a field.
SENTENCES: Mapping[str, str] = {
    "network": HOSTS, "net": HOSTS, "internet": HOSTS, "network_mode": HOSTS, "network_enabled": HOSTS,
    "network_disabled": ALWAYS, "unshare_net": ALWAYS, "unshare_all": ALWAYS, "die_with_parent": ALWAYS,
    "clean_env": ALWAYS, "isolate_ipc": ALWAYS, "isolate_pids": ALWAYS, "isolate_signals": ALWAYS,
    "net_allow_bind": 'its loopback is the cage\'s own, with every port; ports=["8080"] publishes one',
    "fs_mount": "a path keeps its name in the cage: allow, or allow_write",
    "dry_run": 'on_exit="abort" forgets what was written to cow directories',
    "cap_drop": ALWAYS, "noroot": ALWAYS, "close_fds": ALWAYS, "private_tmp": ALWAYS,
    "privileged": "caged=False is no cage at all", "cwd": 'it is the cage\'s: Cage(policy, cwd="...")',
    "working_dir": 'it is the cage\'s: Cage(policy, cwd="...")', "chdir": 'it is the cage\'s: Cage(policy, cwd="...")',
    "recipe": 'Policy.load("python") loads one', "recipes": 'Policy.load("python", "git") loads them',
    "name": 'Policy.load("python") loads a recipe', "policy_fn": "it is the cage's: Cage(policy, policy_fn=...)",
    "leak_fn": "it is the cage's: Cage(policy, leak_fn=...)",
    "watch": "it is the cage's: Cage(policy, watch=...)", "session": "it is the cage's: Cage(policy, session=...)",
    "input": RUN, "stdin": RUN, "stdout": RUN, "stderr": RUN, "capture_output": RUN, "text": RUN, "encoding": RUN,
    "shell": RUN, "check": RUN, "pass_fds": RUN, "pty": RUN,
}  # fmt: skip


# Keys and sections of a recipe, by what they are called first.
HOST_TABLE = 'a host is a table of its own: [[host]], and below it domain = "pypi.org"'
OF_NETWORK = frozenset({"allow", "allowed", "enabled", "enable", "access", "outbound"})  # in [network] alone
SECTIONS: Mapping[str, str] = {
    "fs": "filesystem", "file": "filesystem", "files": "filesystem", "file_system": "filesystem",
    "limits": "resources", "limit": "resources", "resource": "resources", "rlimits": "resources", "net": "network",
    "networking": "network", "exec": "process", "proc": "process", "processes": "process", "seccomp": "syscalls",
    "dlp": "network.dlp",
}  # fmt: skip
# TOML has what stands below [[host]] in the table of that host.
OF_NETWORK_ALONE = frozenset({"egress", "allow_ips", "unsafe", "allow_host_loopback", "backend"})
HOST_KEYS: Mapping[str, str] = {
    "name": "domain", "host": "domain", "hostname": "domain", "url": "domain", "port": "ports", "method": "methods",
    "path": "paths", "subdomains": "include_subdomains", "addresses": "private_addresses", "ips": "private_addresses",
    "private": "private_addresses", "allow_private": "private_addresses", "private_networks": "private_addresses",
}  # fmt: skip


def of_hosts(section: str, word: str) -> str | None:
    """For a key that means hosts, wherever it was written."""
    is_meant = word == "hosts" or FIELDS.get(word) == "hosts" or (section == "network" and word in OF_NETWORK)
    return HOST_TABLE if is_meant else None


def in_a_recipe(section: str, word: str, placed: Callable[[str], str | None]) -> str | None:
    """`placed` says where a recipe has a field of Policy."""
    if not section and word in SECTIONS:
        return f"write [{SECTIONS[word]}]"
    return placed(FIELDS[word]) if word in FIELDS else None


def suggestion_for(word: str, spelled: Callable[[str], str]) -> str | None:
    """`spelled` is how the place that the word stands in writes a field."""
    if word in FIELDS:
        return f'did you mean "{spelled(FIELDS[word])}"?'
    return SENTENCES.get(word)
