"""The AppArmor policy, as text: two profiles. Pure.

The outer one is attached to the interpreter. It confines nothing (an interpreter runs any program's code, so there is
nothing to hold it to) and adds one right: to make user namespaces and to have power in them, which Ubuntu takes from
everything without a profile. `attach_disconnected` is what lets the inner one be found: cage-init is executed when the
host's file system has already been left, and its path would otherwise have no beginning.

The inner one is attached to cage-init, and everything in a cage inherits it. It allows what other walls decide about,
and denies what no program in a cage is ever to do. `mediate_deleted`: what covers a denied path is a nameless file.
"""

from __future__ import annotations

from pysandbox.setup.target import InstallTarget

FILE = "/etc/apparmor.d/pysandbox"
HOST, CAGED = "pysandbox", "pysandbox_sandboxed"
NEWEST = "4.0"  # the newest language used here; it is also the first in which `userns` can be said
ABIS = (NEWEST, "3.0")

# What a cage may ask for, the seccomp filter, Landlock and the mounts permitting; and since which language.
ALLOWED = (
    ("file,", "3.0"),
    ("network,", "3.0"),
    ("unix,", "3.0"),
    ("mqueue,", "4.0"),
    ("io_uring,", "4.0"),
    ("signal (receive),", "3.0"),
    (f"signal (send) peer={CAGED},", "3.0"),
    (f"ptrace (read, readby, trace, tracedby) peer={CAGED},", "3.0"),
    (f"ptrace (readby, tracedby) peer={HOST},", "3.0"),
    ("ptrace (readby, tracedby) peer=unconfined,", "3.0"),
)
# Said although nothing grants it: a denial outranks whatever local/pysandbox_sandboxed may add.
DENIED = (
    ("capability,", "3.0"),
    ("mount,", "3.0"),
    ("umount,", "3.0"),
    ("pivot_root,", "3.0"),
    ("userns,", "4.0"),
    ("dbus,", "3.0"),
)

TEMPLATE = """\
# Written by `pysandbox setup`, which replaces it. Put additions into local/{host} and local/{caged}.
# interpreter: {target.interpreter}
# cage-init: {target.init}
abi <abi/{abi}>,

# The program that makes cages: as free as without a profile, and allowed to make user namespaces.
profile {host} "{target.interpreter}" flags=(unconfined, attach_disconnected) {{
{granted}  include if exists <local/{host}>
}}

# Everything in a cage, from its first process on.
profile {caged} "{target.init}" flags=(attach_disconnected, mediate_deleted) {{
{rules}
  include if exists <local/{caged}>
}}
"""


def policy(target: InstallTarget, abi: str = NEWEST) -> str:
    """The contents of FILE, in the language of `abi`."""
    rules = [f"  {rule}" for rule, since in ALLOWED if since <= abi]
    rules += [f"  audit deny {rule}" for rule, since in DENIED if since <= abi]
    granted = "  userns,\n" if abi >= NEWEST else ""
    return TEMPLATE.format(host=HOST, caged=CAGED, target=target, abi=abi, granted=granted, rules="\n".join(rules))
