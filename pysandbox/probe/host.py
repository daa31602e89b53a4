"""The look at this host: what its kernel lets this caller do, as HostFacts."""

from __future__ import annotations

import os

from pysandbox.probe import cgroups, kernel
from pysandbox.probe.facts import HostFacts
from pysandbox.shapes import replace

# What a copy-on-write tree takes, with the probe for it.
OVERLAYS = (("overlayfs", "OVERLAY"), ("tmpfs_xattr", "TMPFS_XATTR"))


def host_facts() -> HostFacts:
    """Ask this kernel what this caller may do; under 2 ms.

    The probe FULL stands for all that a full cage needs: only where it fails is each part asked for by itself.
    """

    works = kernel.works
    full = works("FULL")
    user_notif = works("USER_NOTIF")
    return HostFacts(
        kernel=kernel.version(),
        machine=os.uname().machine,
        uid=os.geteuid(),
        gid=os.getegid(),
        landlock_abi=kernel.landlock_abi(),
        user_namespaces=full or works("USER_NS"),
        network_namespaces=full or works("NET_NS"),
        mount_setattr=full or works("MOUNT_SETATTR"),
        seccomp_filter=user_notif or works("SECCOMP_FILTER"),
        user_notif=user_notif,
        wait_killable=works("WAIT_KILLABLE"),
        proc_mountable=full or works("PROC"),
        env=dict(os.environ),
        cgroup=replace(cgroups.find_cgroup(), born_inside=works("CLONE_INTO_CGROUP")),
        root=("swapped" if full and kernel.id_swap() == 0 else "stays") if kernel.is_true_root() else "",
    )


def asked_for_redirects(host: HostFacts) -> HostFacts:
    """The given facts with `nf_tables`; what is known already is not asked again."""
    if host.nf_tables is not None:
        return host
    return replace(host, nf_tables=kernel.redirect() == 0)


def asked_for_overlays(host: HostFacts) -> HostFacts:
    """The given facts with `overlay`; what is known already is not asked again."""
    if host.overlay is not None:
        return host
    lacking = [name for name, probe in OVERLAYS if kernel.probe(probe)]
    return replace(host, overlay=lacking[0] if lacking else "")
