/* The begin and the end of a dialler. Its epoll set has the channel (0), what wakes it (1), and each connection that is
 * under way, by its number. */
#include "dialler.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "dial.h"
#include "wakeup.h"

static int watch_wakeup(struct dialler *dialler) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1};
    return epoll_ctl(dialler->epoll, EPOLL_CTL_ADD, dialler->wake, &event);
}

struct dialler *new_dialler(void) {
    struct dialler *dialler = calloc(1, sizeof *dialler);
    if (!dialler) return NULL;
    pthread_mutex_init(&dialler->lock, NULL);
    dialler->channel = -1;
    dialler->record = malloc(LONGEST_RECORD);
    dialler->epoll = epoll_create1(EPOLL_CLOEXEC);
    dialler->wake = new_wakeup();
    if (dialler->record && dialler->epoll >= 0 && dialler->wake >= 0 && !watch_wakeup(dialler)) return dialler;
    if (dialler->epoll >= 0) close(dialler->epoll);
    if (dialler->wake >= 0) close(dialler->wake);
    pthread_mutex_destroy(&dialler->lock);
    free(dialler->record);
    free(dialler);
    return NULL;
}

int watch_dialler(struct psb_relay *relay) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = relay->dialler};
    return epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->dialler->epoll, &event);
}

void free_dialler(struct psb_relay *relay) {
    struct dialler *dialler = relay->dialler;
    if (!dialler) return;
    psb_dial_close(relay);
    while (dialler->cages) psb_dial_leave(relay, dialler->cages->number);
    close(dialler->epoll);
    close(dialler->wake);
    pthread_mutex_destroy(&dialler->lock);
    free(dialler->record);
    free(dialler);
    relay->dialler = NULL;
}
