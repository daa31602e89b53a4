/* The three descriptors of the command (pysandbox/launch/stdio.py): it never holds an open file of the host's, nor a
 * pipe or a terminal, but something of its own in that place. */
#ifndef PSB_LAUNCHER_STREAMS_H
#define PSB_LAUNCHER_STREAMS_H

#include <poll.h>

#include "relay.h"

struct intake {
    int source, sink, stop, done, null;
};

struct relayed { /* until it is served */
    int source, target;
    struct stat of_target;
};

#define MOST_RELAYS 2

struct streams {
    int user;     /* whom the cage is outside, where root has started it as another; else 0 */
    int child[3]; /* the command's 0, 1, 2 */
    int given[4]; /* opened for the command: closed once it has them */
    int n_given;
    int terminal; /* the host's end of a terminal of the command's own, or -1 */
    int n_relays;
    struct relayed relayed[MOST_RELAYS];
    struct relay relays[MOST_RELAYS];
    int feeds, takes_in; /* what its input comes from, if from either */
    struct feed feed;
    struct intake intake;
};

/* 0, or -1 where only Python can tell why; what is open then closes at the next exec. */
int open_streams(struct streams *streams, int user);
void close_given(struct streams *streams);
/* The command runs: 0, or -errno. */
int serve_input(struct streams *streams);
int serve_output(struct streams *streams);
/* What is to be polled while it runs, MOST_RELAYS of it, and what came. */
void poll_streams(const struct streams *streams, struct pollfd *polled);
void heed_streams(struct streams *streams, const struct pollfd *polled);
/* The command has ended: what it has read is taken off the host's pipe, and nothing more. */
void end_input(struct streams *streams);

/* To the cage's user, what would be root's. */
int give_to_user(int fd, int user);

#endif
