"""The SELinux policy, as text: a module of types (.te) and where they belong (.fc). Pure.

    pysandbox_t             the program that makes cages: unconfined, and allowed to make user namespaces
    pysandbox_exec_t        its file; executed by an unconfined user, it becomes pysandbox_t
    pysandbox_init_exec_t   the file of cage-init; executed by pysandbox_t, it becomes pysandbox_sandboxed_t
    pysandbox_sandboxed_t   everything in a cage: files and sockets, never a capability, mount, namespace or D-Bus

What differs between distributions stands in `optional` blocks: a grant that the base policy has no word for is left out.
"""

from __future__ import annotations

from pysandbox.setup.target import Target

DIRECTORY = "/usr/share/selinux/packages/pysandbox"
NAME = "pysandbox"

TYPES = """\
module pysandbox 1.0;

require {
    role unconfined_r;
    type unconfined_t;
    attribute domain, file_type, exec_type, entry_type, filesystem_type;
    class process { fork transition sigchld sigkill sigstop signal signull getsched setsched getsession getpgid setpgid \
getcap getattr getrlimit setrlimit noatsecure siginh rlimitinh execmem execstack execheap ptrace };
    class process2 nnp_transition;
    class capability { chown dac_override dac_read_search fowner fsetid kill net_admin net_bind_service net_raw setgid \
setpcap setuid sys_admin sys_chroot sys_nice sys_ptrace sys_resource };
    class cap_userns { net_admin setgid setpcap setuid sys_admin sys_ptrace };
    class fd use;
    class dir { add_name create getattr ioctl link lock open read remove_name rename reparent rmdir search setattr \
unlink watch watch_reads write };
    class file { append create entrypoint execute execute_no_trans getattr ioctl link lock map open read rename setattr \
unlink watch write };
    class lnk_file { create getattr link read rename setattr unlink };
    class sock_file { append create getattr link open read rename setattr unlink write };
    class fifo_file { append create getattr ioctl link lock open read rename setattr unlink write };
    class chr_file { append getattr ioctl lock open read write };
    class filesystem { associate getattr };
    class unix_stream_socket { accept append bind connect connectto create getattr getopt ioctl listen lock read \
setattr setopt shutdown write };
    class unix_dgram_socket { append bind connect create getattr getopt ioctl lock read sendto setattr setopt \
shutdown write };
    class tcp_socket { accept append bind connect create getattr getopt ioctl listen lock name_bind name_connect \
node_bind read setattr setopt shutdown write };
    class udp_socket { append bind connect create getattr getopt ioctl lock name_bind node_bind read setattr setopt \
shutdown write };
    class netlink_route_socket { append bind connect create getattr getopt ioctl nlmsg_read read setattr setopt \
shutdown write };
}

type pysandbox_t, domain;
type pysandbox_sandboxed_t, domain;
type pysandbox_exec_t, file_type, exec_type, entry_type;
type pysandbox_init_exec_t, file_type, exec_type, entry_type;
role unconfined_r types { pysandbox_t pysandbox_sandboxed_t };

# An unconfined user starts the interpreter.
type_transition unconfined_t pysandbox_exec_t:process pysandbox_t;
allow unconfined_t pysandbox_t:process { transition siginh rlimitinh noatsecure };
allow unconfined_t pysandbox_exec_t:file { getattr open read execute map };
allow pysandbox_t pysandbox_exec_t:file { entrypoint getattr open read execute execute_no_trans map ioctl lock };
allow pysandbox_t unconfined_t:process sigchld;
allow pysandbox_t unconfined_t:fd use;
"""

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

CAGE = """
# Started by root, it may what root may do with files and processes.
allow pysandbox_t self:capability { chown dac_override dac_read_search fowner fsetid kill net_admin net_bind_service \
net_raw setgid setpcap setuid sys_admin sys_chroot sys_nice sys_ptrace sys_resource };
allow pysandbox_t self:process { execstack execheap ptrace };

# It makes cages: a user namespace, and power in that one only.
allow pysandbox_t self:cap_userns { net_admin setgid setpcap setuid sys_admin sys_ptrace };
optional {
    require { class user_namespace create; }
    allow pysandbox_t self:user_namespace create;
}

# cage-init is executed with no_new_privs set, hence nnp_transition.
type_transition pysandbox_t pysandbox_init_exec_t:process pysandbox_sandboxed_t;
allow pysandbox_t pysandbox_sandboxed_t:process { transition siginh rlimitinh noatsecure sigkill sigstop signal signull \
getattr getsched getpgid getsession ptrace };
allow pysandbox_t pysandbox_sandboxed_t:process2 nnp_transition;
allow pysandbox_t pysandbox_init_exec_t:file { getattr open read execute map };
allow pysandbox_sandboxed_t pysandbox_init_exec_t:file { entrypoint getattr open read execute map };
allow pysandbox_sandboxed_t pysandbox_t:process sigchld;
allow pysandbox_sandboxed_t domain:fd use;
allow pysandbox_sandboxed_t { unconfined_t pysandbox_t }:fifo_file { append getattr ioctl lock read write };
allow pysandbox_sandboxed_t { unconfined_t pysandbox_t }:unix_stream_socket { append connectto getattr getopt ioctl read \
setopt shutdown write };
allow pysandbox_t pysandbox_sandboxed_t:dir { getattr open read search };
allow pysandbox_t pysandbox_sandboxed_t:file { getattr open read write };
allow pysandbox_t pysandbox_sandboxed_t:lnk_file { getattr read };

# Both, of what is their own.
allow { pysandbox_t pysandbox_sandboxed_t } self:process { fork sigchld sigkill sigstop signal signull getsched setsched getsession getpgid \
setpgid getcap getattr getrlimit setrlimit execmem };
allow { pysandbox_t pysandbox_sandboxed_t } self:dir { getattr open read search };
allow { pysandbox_t pysandbox_sandboxed_t } self:file { getattr open read write };
allow { pysandbox_t pysandbox_sandboxed_t } self:lnk_file { getattr read };
allow { pysandbox_t pysandbox_sandboxed_t } self:fifo_file { append getattr ioctl lock open read write };
allow { pysandbox_t pysandbox_sandboxed_t } self:unix_stream_socket { accept append bind connect connectto create getattr getopt ioctl \
listen lock read setattr setopt shutdown write };
allow { pysandbox_t pysandbox_sandboxed_t } self:unix_dgram_socket { append bind connect create getattr getopt ioctl lock read sendto \
setattr setopt shutdown write };
allow { pysandbox_t pysandbox_sandboxed_t } self:tcp_socket { accept append bind connect create getattr getopt ioctl listen lock read \
setattr setopt shutdown write };
allow { pysandbox_t pysandbox_sandboxed_t } self:udp_socket { append bind connect create getattr getopt ioctl lock read setattr setopt \
shutdown write };
allow { pysandbox_t pysandbox_sandboxed_t } self:netlink_route_socket { append bind connect create getattr getopt ioctl nlmsg_read read \
setattr setopt shutdown write };

# What is in a cage: the mounts, Landlock and the filter decide about files and sockets.
allow pysandbox_sandboxed_t file_type:dir { add_name create getattr ioctl link lock open read remove_name rename reparent \
rmdir search setattr unlink watch watch_reads write };
allow pysandbox_sandboxed_t file_type:file { append create execute execute_no_trans getattr ioctl link lock map open read \
rename setattr unlink watch write };
allow pysandbox_sandboxed_t file_type:lnk_file { create getattr link read rename setattr unlink };
allow pysandbox_sandboxed_t file_type:sock_file { append create getattr link open read rename setattr unlink write };
allow pysandbox_sandboxed_t file_type:fifo_file { append create getattr ioctl link lock open read rename setattr unlink \
write };
allow pysandbox_sandboxed_t filesystem_type:filesystem getattr;
"""

# Attributes of the base policy, and what a cage may do with what has them.
REACHED = (
    ("device_node", "chr_file { append getattr ioctl lock open read write }"),
    ("ptynode", "chr_file { append getattr ioctl lock open read write }"),
    ("proc_type", "dir { getattr open read search }"),
    ("proc_type", "file { getattr open read }"),
    ("proc_type", "lnk_file { getattr read }"),
    ("sysctl_type", "dir { getattr open read search }"),
    ("sysctl_type", "file { getattr open read }"),
    ("port_type", "tcp_socket { name_bind name_connect }"),
    ("port_type", "udp_socket name_bind"),
    ("node_type", "tcp_socket node_bind"),
    ("node_type", "udp_socket node_bind"),
)


def types(target: Target) -> str:
    """The contents of pysandbox.te."""
    blocks = [f"# interpreter: {target.interpreter}\n# cage-init: {target.init}\n{TYPES}"]
    blocks += [_optional(name, f"typeattribute pysandbox_t {name};") for name in UNCONFINED]
    blocks.append(CAGE)
    blocks += [_optional(name, f"allow pysandbox_sandboxed_t {name}:{rule};") for name, rule in REACHED]
    return "\n".join(blocks)


def _optional(attribute: str, statement: str) -> str:
    return f"optional {{\n    require {{ attribute {attribute}; }}\n    {statement}\n}}"


def contexts(target: Target) -> str:
    """The contents of pysandbox.fc: paths are regular expressions there."""
    files = ((target.interpreter, "pysandbox_exec_t"), (target.init, "pysandbox_init_exec_t"))
    return "".join(f"{_literal(path)} -- system_u:object_r:{label}:s0\n" for path, label in files)


def _literal(path: str) -> str:
    return "".join(f"\\{letter}" if letter in ".+" else letter for letter in path)
