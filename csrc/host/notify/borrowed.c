/* The list of what is to be closed; see borrowed.h. */
#define MAY_CLOSE
#include "borrowed.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "eintr_timer.h"

#define SHARED                                                                                                         \
    4 /* messages may hold this part of the descriptors that the process may have; calls that wait, another */

static int carried; /* atomic: by messages of all cages, and not closed yet */
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

/* A forked copy of the process has no thread that would close them. */
static void in_child(void) {
    __atomic_store_n(&carried, 0, __ATOMIC_SEQ_CST);
}

static void prepare(void) {
    pthread_atfork(NULL, NULL, in_child);
}

void close_own(int fd) {
    close(fd);
}

int borrow_fd(struct borrowed *borrowed, const struct target *caller, int fd) {
    struct place *place = calloc(1, sizeof *place);
    const int taken = place ? take_fd(&borrowed->pidfds, caller, fd) : -ENOMEM;
    if (taken < 0) {
        free(place);
        return taken;
    }
    place->next = borrowed->free;
    borrowed->free = place;
    return taken;
}

int budget_for_messages(void) {
    struct rlimit most = {0, 0};
    getrlimit(RLIMIT_NOFILE, &most);
    return most.rlim_cur / SHARED > INT_MAX ? INT_MAX : (int)(most.rlim_cur / SHARED);
}

int borrow_for_message(struct borrowed *borrowed, const struct target *caller, int fd) {
    int taken = -EAGAIN;
    pthread_once(&prepared, prepare);
    if (__atomic_add_fetch(&carried, 1, __ATOMIC_SEQ_CST) <= budget_for_messages())
        taken = borrow_fd(borrowed, caller, fd);
    if (taken < 0)
        __atomic_sub_fetch(&carried, 1, __ATOMIC_SEQ_CST);
    else
        borrowed->free->counted = 1;
    return taken;
}

void give_back(struct borrowed *borrowed, int fd) {
    struct place *place = borrowed->free;
    borrowed->free = place->next;
    place->fd = fd;
    place->next = borrowed->returned;
    borrowed->returned = place;
}

int exchange_fd(struct borrowed *borrowed, int fd) {
    struct place *place = calloc(1, sizeof *place);
    if (!place) return -ENOMEM;
    give_back(borrowed, fd);
    place->next = borrowed->free;
    borrowed->free = place;
    return 0;
}

struct place *take_returned(struct borrowed *borrowed) {
    struct place *returned = borrowed->returned;
    borrowed->returned = NULL;
    return returned;
}

/* A caller may set SO_LINGER at any moment, so nobody asks for it. No caller needs that wait: it has closed its own
 * descriptor, or is dead. What was written is sent either way. */
void close_borrowed(int fd) {
    arm_eintr_timer();
    close(fd);
    end_interrupting();
}

void close_all(struct place *returned) {
    while (returned) {
        struct place *next = returned->next;
        close_borrowed(returned->fd);
        if (returned->counted) __atomic_sub_fetch(&carried, 1, __ATOMIC_SEQ_CST);
        free(returned);
        returned = next;
    }
}

struct borrowed detach_borrowed(struct borrowed *borrowed) {
    const struct borrowed left = {.pidfds = borrowed->pidfds, .returned = take_returned(borrowed)};
    memset(&borrowed->pidfds, 0, sizeof borrowed->pidfds);
    return left;
}

void forget_borrowed(struct borrowed *borrowed) {
    forget_pidfds(&borrowed->pidfds);
    close_all(take_returned(borrowed));
}
