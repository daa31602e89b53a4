"""`bash tools/matrix`: the marked part of the suite on kernels that this machine does not run, under QEMU.

kernels.py      which kernels, and where they come from (Debian's packages, downloaded by apt, never installed)
initramfs.py    the guest's first file system: busybox, the modules that reach the shared root, `init`
share.py        this machine's files as the guest sees them: read-only, by virtiofs
machine.py      one virtual machine: started, watched, ended at its deadline
report.py       what came back over the second serial line, and the table
init, inside    what runs in the guest: the first process before and after the real root
"""
