"""File systems by the magic number of statfs(2), and what copy-on-write directories ask of them: one row for each.

What has no row is taken for an ordinary one: the kernel is asked, and says no where it cannot.
"""

from __future__ import annotations

from pysandbox.shapes import NamedTuple


class FileSystem(NamedTuple):
    """`own_clock`: it stamps files by the clock of a server or a daemon. `no_ctime`: on its disk there are times of
    making, writing and reading alone, and what is read from there for ctime is one that utime(2) sets. `takes_layer`:
    overlayfs writes layers to it. `takes_overlay`: overlayfs can be laid over it; not where names that differ in case
    are the same. `keeps_case`: they are two there, but in a directory that is made to fold them.
    `multigrain`: from Linux 6.13 on, whoever has looked at a file sees its next change by another ctime.
    """

    name: str
    own_clock: bool = False
    takes_layer: bool = True
    takes_overlay: bool = True
    keeps_case: bool = False
    multigrain: bool = False
    no_ctime: bool = False


ORDINARY = FileSystem("")

FILE_SYSTEMS = {
    0xEF53: FileSystem("ext4", keeps_case=True, multigrain=True),
    0x58465342: FileSystem("XFS", keeps_case=True, multigrain=True),
    0x9123683E: FileSystem("Btrfs", keeps_case=True, multigrain=True),
    0x01021994: FileSystem("tmpfs", keeps_case=True, multigrain=True),
    0x794C7630: FileSystem("overlayfs", keeps_case=True, takes_layer=False),
    0xF2F52010: FileSystem("F2FS", keeps_case=True),
    0x6969: FileSystem("NFS", own_clock=True, takes_layer=False),
    0x65735546: FileSystem("FUSE", own_clock=True, takes_layer=False),
    0x01021997: FileSystem("9p", own_clock=True, takes_layer=False),
    0xFF534D42: FileSystem("CIFS", own_clock=True, takes_layer=False, takes_overlay=False),
    0xFE534D42: FileSystem("SMB", own_clock=True, takes_layer=False, takes_overlay=False),
    0x517B: FileSystem("SMB", own_clock=True, takes_layer=False, takes_overlay=False),
    0x564C: FileSystem("NCP", own_clock=True, takes_layer=False, takes_overlay=False),
    0x00C36400: FileSystem("Ceph", own_clock=True),
    0x5346414F: FileSystem("AFS", own_clock=True, takes_layer=False),
    0x73757245: FileSystem("Coda", own_clock=True),
    0x4D44: FileSystem("FAT", takes_layer=False, takes_overlay=False, no_ctime=True),
    0x2011BAB0: FileSystem("exFAT", takes_layer=False, takes_overlay=False, no_ctime=True),
    0x7366746E: FileSystem("NTFS", takes_layer=False, takes_overlay=False),
}  # fmt: skip


def of_magic(number: int) -> FileSystem:
    return FILE_SYSTEMS.get(number, ORDINARY)
