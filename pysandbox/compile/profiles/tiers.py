"""The two closed tiers.

NEVER holds in every profile and mode, and no policy can lift it: calls that make or enter namespaces, change mounts,
act on the whole machine, reach what no namespace bounds. A profile may leave one open only where a rule of
`arguments` takes the tier's place (unshare without namespace flags).

OFF is refused in every profile and mode as well, until a policy names the call in allow_extra or a profile opens it.
"""

from __future__ import annotations

from pysandbox.compile.profiles import group

NEVER = (
    group("namespaces: a cage neither makes nor joins any", "unshare setns"),
    group(
        "the mount tree, by the old calls and the new; the root is a mount too",
        """mount umount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
        mount_setattr""",
    ),
    group("another kernel, or code in this one", "kexec_load kexec_file_load init_module finit_module delete_module"),
    group("power, swap, accounting, quotas, terminals", "reboot swapon swapoff acct quotactl quotactl_fd vhangup"),
    group("the machine's clock: no time namespace covers it", "settimeofday clock_settime stime"),
    group("the kernel's log names what the host does", "syslog"),
    group("names that belong to whoever made the UTS namespace", "sethostname setdomainname"),
    group("x86 I/O ports", "iopl ioperm"),
    group("files by handle: past every mount and every path rule", "open_by_handle_at"),
    group("keyrings: inherited from the host, filled by helpers outside", "add_key request_key keyctl"),
    group("removed from kernels, present in old ones, with a history of holes", "nfsservctl lookup_dcookie"),
)  # fmt: skip

OFF = (
    group("a ring submits calls that no filter sees: sockets, modes and paths go past every rule here",
          "io_uring_setup io_uring_enter io_uring_register"),
    group("another process's memory, registers and descriptors",
          "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"),
    group("kernel machinery with a history of holes", "userfaultfd bpf perf_event_open"),
    group("executables that never were a file", "memfd_create memfd_secret execveat"),
    group("page tricks with a history of holes", "vmsplice migrate_pages move_pages"),
    group("names for what open_by_handle_at would open", "name_to_handle_at"),
    group("host paths behind the mounts, which /proc hides as well", "statmount listmount"),
)  # fmt: skip
