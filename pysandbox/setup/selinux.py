"""The SELinux policy, as text: a module of types (.te) and where they belong (.fc). Pure.

    pysandbox_t             the program that makes cages: unconfined, and allowed to make user namespaces
    pysandbox_exec_t        its file; executed by an unconfined user, it becomes pysandbox_t
    pysandbox_init_exec_t   the file of cage-init; executed by pysandbox_t, it becomes pysandbox_sandboxed_t
    pysandbox_sandboxed_t   everything in a cage: files and sockets, never a capability, mount, namespace or D-Bus

A module must declare every word it uses; the declarations are made from the rules. What differs between distributions
stands in `optional` blocks: a grant that the base policy has no word for is left out.
"""

from __future__ import annotations

from pysandbox.setup.target import InstallTarget
from pysandbox.shapes import NamedTuple

DIRECTORY = "/usr/share/selinux/packages/pysandbox"
NAME = "pysandbox"

HOST, HOST_FILE = "pysandbox_t", "pysandbox_exec_t"
CAGED, INIT_FILE = "pysandbox_sandboxed_t", "pysandbox_init_exec_t"

BECOME = "transition siginh rlimitinh noatsecure"
RUN = "getattr open read execute map"
LOOK = "getattr open read search"
USE = "append getattr ioctl lock read write"  # of something that is open already
FILE = f"{USE} create link open rename setattr unlink watch"
SOCKET = f"{USE} bind create getopt setattr setopt shutdown"
SIGNALS = "sigchld sigkill sigstop signal signull"
ROOTS = (
    "chown dac_override dac_read_search fowner fsetid kill net_admin net_bind_service net_raw setgid setpcap setuid "
    "sys_admin sys_chroot sys_nice sys_ptrace sys_resource"
)


class Rule(NamedTuple):
    source: str
    target: str
    kind: str  # the class of object
    may: str


RULES = (
    # An unconfined user starts the interpreter; root may do with it what root does with files and processes.
    Rule("unconfined_t", HOST, "process", BECOME),
    Rule("unconfined_t", HOST_FILE, "file", RUN),
    Rule(HOST, HOST_FILE, "file", f"{RUN} entrypoint execute_no_trans ioctl lock"),
    Rule(HOST, "unconfined_t", "process", "sigchld"),
    Rule(HOST, "self", "capability", ROOTS),
    Rule(HOST, "self", "process", "execheap execstack ptrace"),
    # It makes cages: power in a user namespace. cage-init is executed with no_new_privs set, hence nnp_transition.
    Rule(HOST, "self", "cap_userns", "net_admin setgid setpcap setuid sys_admin sys_ptrace"),
    Rule(HOST, INIT_FILE, "file", RUN),
    Rule(HOST, CAGED, "process", f"{BECOME} {SIGNALS} getattr getpgid getsched getsession ptrace"),
    Rule(HOST, CAGED, "process2", "nnp_transition"),
    Rule(HOST, CAGED, "dir", LOOK),
    Rule(HOST, CAGED, "file", "getattr open read write"),
    Rule(HOST, CAGED, "lnk_file", "getattr read"),
    Rule(CAGED, INIT_FILE, "file", f"{RUN} entrypoint"),
    # What a cage is handed by its host.
    Rule(CAGED, HOST, "process", "sigchld"),
    Rule(CAGED, "domain", "fd", "use"),
    *(
        Rule(CAGED, giver, kind, may)
        for giver in (HOST, "unconfined_t")
        for kind, may in (("fifo_file", USE), ("unix_stream_socket", f"{USE} connectto getopt setopt shutdown"))
    ),
    # Both, with what is their own.
    *(
        Rule(domain, "self", kind, may)
        for domain in (HOST, CAGED)
        for kind, may in (
            (
                "process",
                f"{SIGNALS} execmem fork getattr getcap getpgid getrlimit getsched getsession setpgid setrlimit",
            ),
            ("process", "setsched"),
            ("dir", LOOK),
            ("file", "getattr open read write"),
            ("lnk_file", "getattr read"),
            ("fifo_file", f"{USE} open"),
            ("unix_stream_socket", f"{SOCKET} accept connect connectto listen"),
            ("unix_dgram_socket", f"{SOCKET} connect sendto"),
            ("tcp_socket", f"{SOCKET} accept connect listen"),
            ("udp_socket", f"{SOCKET} connect"),
            ("netlink_route_socket", f"{SOCKET} nlmsg_read"),
        )
    ),
    # What is in a cage: the mounts, Landlock and the filter decide about files.
    Rule(CAGED, "file_type", "dir", f"{FILE} add_name remove_name reparent rmdir search"),
    Rule(CAGED, "file_type", "file", f"{FILE} execute execute_no_trans map"),
    Rule(CAGED, "file_type", "lnk_file", "create getattr link read rename setattr unlink"),
    Rule(CAGED, "file_type", "sock_file", FILE),
    Rule(CAGED, "file_type", "fifo_file", FILE),
    Rule(CAGED, "filesystem_type", "filesystem", "getattr"),
)

# The interpreter runs any program's code: whatever the base policy gives to unconfined domains, it has.
UNCONFINED = (
    "unconfined_domain_type",
    "files_unconfined_type",
    "filesystem_unconfined_type",
    "kern_unconfined",
    "corenet_unconfined_type",
    "devices_unconfined_type",
    "storage_unconfined_type",
    "process_uncond_exempt",
)

# Attributes that a base policy may lack, and what a cage may do with what has them.
REACHED = (
    Rule(CAGED, "device_node", "chr_file", f"{USE} open"),
    Rule(CAGED, "ptynode", "chr_file", f"{USE} open"),
    Rule(CAGED, "proc_type", "dir", LOOK),
    Rule(CAGED, "proc_type", "file", "getattr open read"),
    Rule(CAGED, "proc_type", "lnk_file", "getattr read"),
    Rule(CAGED, "sysctl_type", "dir", LOOK),
    Rule(CAGED, "sysctl_type", "file", "getattr open read"),
    Rule(CAGED, "port_type", "tcp_socket", "name_bind name_connect"),
    Rule(CAGED, "port_type", "udp_socket", "name_bind"),
    Rule(CAGED, "node_type", "tcp_socket", "node_bind"),
    Rule(CAGED, "node_type", "udp_socket", "node_bind"),
)

HEAD = """\
# interpreter: {target.interpreter}
# cage-init: {target.init}
module {name} 1.0;

require {{
    role unconfined_r;
    type unconfined_t;
    attribute domain, file_type, exec_type, entry_type, filesystem_type;
{classes}
}}

type pysandbox_t, domain;
type pysandbox_sandboxed_t, domain;
type pysandbox_exec_t, file_type, exec_type, entry_type;
type pysandbox_init_exec_t, file_type, exec_type, entry_type;
role unconfined_r types {{ pysandbox_t pysandbox_sandboxed_t }};

type_transition unconfined_t pysandbox_exec_t:process pysandbox_t;
type_transition pysandbox_t pysandbox_init_exec_t:process pysandbox_sandboxed_t;
"""

# A class since Linux 6.1 and newer base policies; without it nothing restricts the creation.
USER_NAMESPACE = """\
optional {
    require { class user_namespace create; }
    allow pysandbox_t self:user_namespace create;
}"""


def types(target: InstallTarget) -> str:
    """The contents of pysandbox.te."""
    lines = [HEAD.format(target=target, name=NAME, classes=_classes())]
    lines += [_allow(rule) for rule in RULES]
    lines += ["", "# What a base policy may have no word for.", USER_NAMESPACE]
    lines += [_optional(name, f"typeattribute {HOST} {name};") for name in UNCONFINED]
    lines += [_optional(rule.target, _allow(rule)) for rule in REACHED]
    return "\n".join(lines) + "\n"


def contexts(target: InstallTarget) -> str:
    """The contents of pysandbox.fc: paths are regular expressions there."""
    files = ((target.interpreter, HOST_FILE), (target.init, INIT_FILE))
    return "".join(f"{_literal(path)} -- system_u:object_r:{label}:s0\n" for path, label in files)


def _classes() -> str:
    """A declaration of every class that a rule names, with every permission."""
    used: dict[str, set[str]] = {}
    for rule in (*RULES, *REACHED):
        used.setdefault(rule.kind, set()).update(rule.may.split())
    return "\n".join(f"    class {kind} {{ {' '.join(sorted(may))} }};" for kind, may in sorted(used.items()))


def _allow(rule: Rule) -> str:
    return f"allow {rule.source} {rule.target}:{rule.kind} {{ {' '.join(sorted(set(rule.may.split())))} }};"


def _optional(attribute: str, statement: str) -> str:
    return f"optional {{\n    require {{ attribute {attribute}; }}\n    {statement}\n}}"


def _literal(path: str) -> str:
    return "".join(f"\\{letter}" if letter in ".+" else letter for letter in path)
