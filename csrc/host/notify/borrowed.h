/* Duplicates of descriptors of caged processes, and how they are closed without waiting.
 *
 * A close(2) of what a caged process has may take as long as it likes: the last one of a TCP socket waits for
 * SO_LINGER, that of a unix socket closes what is in its queue, that of a file asks its file system. So no thread
 * closes such a descriptor while it holds a mutex: give_back puts it into a list, and the cage's own loop closes it
 * when it holds no mutex. A place in that list is made before a descriptor is taken, so that give_back cannot fail.
 *
 * The files that work under the mutex have no close(2) at all (the pragma below): they end with give_back what is of a
 * cage, and with close_own what the supervisor has opened itself. */
#ifndef PSB_BORROWED_H
#define PSB_BORROWED_H

#include <stdint.h>
#include <unistd.h>

#include "target.h"

struct place {
    int fd;
    int counted; /* in the budget for messages, until it is closed */
    struct place *next;
};

/* The caller holds the mutex of the cage whose it is, but for close_all. */
struct borrowed {
    struct pidfds pidfds;
    struct place *free, *returned; /* a free place for each descriptor that is out */
};

/* A duplicate of the caller's descriptor; -errno. */
int borrow_fd(struct borrowed *borrowed, const struct target *caller, int fd);
/* How many descriptors messages may carry at once. */
int budget_for_messages(void);
/* For as long as a message takes that carries it. One call borrows hundreds of these, from any number of cages at once,
 * so there is one budget for the whole process, of what is not closed yet: -EAGAIN when that is used up. */
int borrow_for_message(struct borrowed *borrowed, const struct target *caller, int fd);
void give_back(struct borrowed *borrowed, int fd);
/* Gives `fd` back and keeps its place for a descriptor of our own that is used instead: 0 or -errno. */
int exchange_fd(struct borrowed *borrowed, int fd);
/* Takes away what was given back, for close_all. */
struct place *take_returned(struct borrowed *borrowed);
/* Closes them, and frees the list; a close that waits is interrupted. Whoever calls this holds no mutex. */
void close_all(struct place *returned);
/* One that was never in the list; whoever calls this holds no mutex either. */
void close_borrowed(int fd);
/* Takes away all that can be closed without the mutex, for forget_borrowed; what is out keeps its place. */
struct borrowed detach_borrowed(struct borrowed *borrowed);
/* What was detached, or with nothing out and nobody else who has it: no mutex is held. */
void forget_borrowed(struct borrowed *borrowed);

/* Closes a descriptor that the supervisor has opened: a pidfd, an O_PATH one, a socket that nobody has used. */
void close_own(int fd);

#ifndef MAY_CLOSE
#pragma GCC poison close
#endif

#endif
