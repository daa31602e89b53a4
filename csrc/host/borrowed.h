/* Descriptors that are borrowed of caged processes, and given back without waiting.
 *
 * A close(2) of what a caged process has may take as long as it likes: the last one of a TCP socket waits for
 * SO_LINGER, that of a unix socket closes what is in its queue, that of a file asks its file system. So nobody closes
 * such a descriptor where a mutex is held: it is given back, and the thread of the cage's own loop closes it, when it
 * holds nothing. A place in that list is found before a descriptor is taken, so that giving back cannot fail.
 *
 * The files that work under the mutex have no close(2) at all (the pragma below): they end with give_back what is of a
 * cage, and with close_own what the supervisor has opened itself. */
#ifndef PSB_BORROWED_H
#define PSB_BORROWED_H

#include <stdint.h>
#include <unistd.h>

#include "guest.h"

struct place {
    int fd;
    struct place *next;
};

/* The caller holds the mutex of the guest whose it is, but for close_all. */
struct borrowed {
    struct pidfds pidfds;
    struct place *free, *returned; /* a free place for each descriptor that is out */
};

/* A duplicate of the caller's descriptor; -errno. */
int borrow_fd(struct borrowed *borrowed, int tid, int fd);
void give_back(struct borrowed *borrowed, int fd);
/* The same, and keeps the place for a descriptor of our own that is used in the stead of this one: 0 or -errno. */
int exchange_fd(struct borrowed *borrowed, int fd);
/* Takes away what was given back, for close_all. */
struct place *take_returned(struct borrowed *borrowed);
/* Closes them, and frees the list; a close that waits is interrupted. Whoever calls this holds no mutex. */
void close_all(struct place *returned);
/* With nothing out any more. */
void forget_borrowed(struct borrowed *borrowed);

/* Of a descriptor that the supervisor has opened: a pidfd, an O_PATH one, a socket that nobody has used. */
void close_own(int fd);

#ifndef MAY_CLOSE
#pragma GCC poison close
#endif

#endif
