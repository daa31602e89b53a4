/* What serves a cage beside its command: who decides its calls, its doors, the watch over its memory. Most commands
 * never call on any of these. So the launcher only holds the descriptors, and starts Python for them
 * (pysandbox/cli/beside.py) at the first call, the first connection, or when the memory must be looked at more closely.
 * Until Python has them, who has called waits in the kernel; and what Python is to judge of the memory is stopped.
 *
 * From then on Python also writes the records of the end, as of a run that it started itself: it knows what was
 * refused. */
#ifndef PSB_LAUNCHER_SERVICES_H
#define PSB_LAUNCHER_SERVICES_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#include "../host/net/netns.h"
#include "cgroup.h"
#include "host.h"
#include "trail.h"
#include "watch.h"

#define MOST_POLLED (PSB_KEPT_MOST_DOORS + 3)

/* What Python hears with the last report, as four 32-bit numbers: why the command was ended by us (enum blame, enum
 * kill_reason), the exit code for that or NO_CAUSE, whether we insisted, and whether not all of its input or output
 * arrived. */
struct ending {
    int32_t blame, cause, insisted, lost;
};

struct services {
    char **arguments; /* of this program, from the word "run" on */
    const char *self; /* where it lies */
    int user;
    const struct kept *kept;
    const struct psb_opened *cage;
    const struct trail *trail;
    const struct cgroup *cgroup;
    int listener;
    struct psb_socket doors[PSB_KEPT_MOST_DOORS];
    size_t n_doors;
    struct watch watch;
    /* of Python, once it was started: */
    pid_t python;              /* 0: it was not */
    int channel;               /* it says when it serves, and hears of the end */
    int report;                /* what cage-init has reported is passed on */
    struct psb_report started; /* what was reported before */
    int serves;                /* it has all of the descriptors */
    int stopped;               /* the cage is, until it serves */
    int broken;                /* it cannot serve, or does not any more: the cage was killed */
};

/* Before the first order of a cage that is set up: 0, or -1 where only Python can tell why. */
int open_services(struct services *services);
/* The order is about to be sent: 0, or -1. */
int begin_services(struct services *services);
/* Nothing of them runs any more, but for Python. */
void end_services(struct services *services);

/* Fills in what is to be polled: how many. */
nfds_t poll_services(const struct services *services, struct pollfd *polled);
/* Looks at what has come of it. -1: somebody waits and nobody serves, so the cage was killed. */
int heed_services(struct services *services, const struct pollfd *polled, nfds_t count);
/* Python is to tell of the end, also where nobody has called. */
void call_python(struct services *services);
/* Whether the cage is stopped for us, and not by whoever uses us. */
int is_held(const struct services *services);

/* Python's word on how it ended, which is the exit code; -1 where it never served, or did not live to say it. `last`
 * NULL: cage-init died with the command. */
int let_python_end(struct services *services, const struct ending *ending, const struct psb_report *last);

#endif
