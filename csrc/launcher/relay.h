/* Output on its way from a cage to a descriptor of the host that the cage must not hold, and input from a file
 * (pysandbox/launch/relay.py). Each is served by a thread of its own; an output's begins when something comes, which a
 * command that says nothing never pays for. */
#ifndef PSB_LAUNCHER_RELAY_H
#define PSB_LAUNCHER_RELAY_H

#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>

struct relay {
    int source, target;
    int is_pipe;
    int is_served; /* by its thread, which the lock is for */
    size_t piece;
    pthread_mutex_t lock;
    uint64_t passed;
    int failed;       /* errno: not all of it was passed on, and nobody but the host knows */
    const char *what; /* was lost then */
};

struct feed {
    int source, sink;
    int failed;
};

/* 0, or -errno. From now on `unserved_end` is to be polled for POLLIN, and `heed_relay` told what came of that. */
int open_relay(struct relay *relay, int source, int target, const struct stat *of_target);
/* -1 when nobody needs to poll it any more. */
int unserved_end(const struct relay *relay);
void heed_relay(struct relay *relay, short came);

/* 0, or -errno: it is served from now on. */
int serve_feed(struct feed *feed, int source, int sink);

/* Whether all that was written before is passed on; waits for so many milliseconds, as long as nothing moves. */
int is_flushed(struct relay *relay, int patience_ms);

int64_t now_ms(void);

#endif
