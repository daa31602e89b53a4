/* The list of what is to be closed; see borrowed.h. */
#define MAY_CLOSE
#include "borrowed.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "eintr_timer.h"

void close_own(int fd) {
    close(fd);
}

int borrow_fd(struct borrowed *borrowed, int tid, int fd) {
    struct place *place = malloc(sizeof *place);
    const int taken = place ? take_fd(&borrowed->pidfds, tid, fd) : -ENOMEM;
    if (taken < 0) {
        free(place);
        return taken;
    }
    place->next = borrowed->free;
    borrowed->free = place;
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
    struct place *place = malloc(sizeof *place);
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

/* Whether a close may block because of SO_LINGER. No caller needs that wait: it has closed its own descriptor, or is
 * dead. What was written is sent either way. */
static int may_wait(int fd) {
    struct linger linger = {0, 0};
    socklen_t size = sizeof linger;
    return getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size) < 0 || (linger.l_onoff && linger.l_linger);
}

void close_borrowed(int fd) {
    const int interrupted = may_wait(fd);
    if (interrupted) arm_eintr_timer();
    close(fd);
    if (interrupted) end_interrupting();
}

void close_all(struct place *returned) {
    while (returned) {
        struct place *next = returned->next;
        close_borrowed(returned->fd);
        free(returned);
        returned = next;
    }
}

void forget_borrowed(struct borrowed *borrowed) {
    forget_pidfds(&borrowed->pidfds);
    close_all(take_returned(borrowed));
}
