/* The kernel's numbers, for what has no libc: cage-init and setup. They come from the kernel's own headers, which
 * differ between architectures where the numbers do; what no such header has, or only a newer one, is here and nowhere
 * else.
 *
 * Not for csrc/host: libc's headers and these define the same names. */
#ifndef PSB_UAPI_H
#define PSB_UAPI_H

#include <asm/ioctls.h>
#include <asm/socket.h>
#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/signalfd.h>
#include <linux/stat.h>
#include <linux/time.h>
#include <linux/wait.h>

/* From the kernel's own <linux/socket.h>, which it does not export. */
#define SCM_RIGHTS 1
#define MSG_CTRUNC 8
#define MSG_TRUNC 0x20
#define MSG_CMSG_CLOEXEC 0x40000000

/* The kernel's header holds this back where there is a libc. */
#ifndef S_IFMT
#define S_IFMT 0170000
#define S_IFDIR 0040000
#endif

#define MNT_DETACH 2 /* umount2(2) */

/* Newer than some headers that we are built with. */
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13) /* Linux 5.19 */
#endif
#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1) /* Linux 6.12 */
#endif

#endif
