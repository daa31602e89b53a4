/* The connections of the dialler: where they are kept, what the reader is told of them, how they end. */
#include "dialled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../spawn/passing.h"
#include "reset.h"
#include "wakeup.h"

struct dial_cage *find_dial_cage(struct dialler *dialler, uint32_t number) {
    struct dial_cage *cage = dialler->cages;
    while (cage && cage->number != number) cage = cage->next;
    return cage;
}

void keep_dial_cage(struct dialler *dialler, struct dial_cage *cage) {
    cage->next = dialler->cages;
    dialler->cages = cage;
}

struct dialled **find_dialled(struct dialler *dialler, uint64_t number) {
    struct dialled **place = &dialler->buckets[number % DIAL_BUCKETS];
    while (*place && (*place)->number != number) place = &(*place)->next;
    return place;
}

/* What it has still to be told, it may be told afterwards. */
static void release(struct psb_relay *relay, struct dialled *dialled) {
    if (dialled->fd >= 0) {
        /* The reader's duplicate could go on where nobody finds it any more; what was sent is still sent. */
        if (dialled->state == DIALLED_HELD) shutdown(dialled->fd, SHUT_RDWR);
        if (is_polled(dialled)) epoll_ctl(relay->dialler->epoll, EPOLL_CTL_DEL, dialled->fd, NULL);
        close(dialled->fd);
        dialled->fd = -1;
    }
    if (dialled->client >= 0) close(dialled->client); /* the reader has it still */
    dialled->client = -1;
    free(dialled->answer);
    free(dialled->said);
    dialled->answer = dialled->said = NULL;
    if (dialled->state == DIALLED_RELAYED) psb_relay_cut(relay, dialled->pair);
    dialled->state = DIALLED_OVER;
}

void drop_dialled(struct psb_relay *relay, struct dialled **place) {
    struct dialled *dialled = *place;
    release(relay, dialled);
    if (dialled->cage) dialled->cage->used--;
    *place = dialled->next;
    free(dialled);
}

/* ---- what the reader is told ---------------------------------------------------------------------------------------
 */

static void attach(struct msghdr *message, const int *fd) {
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof *fd);
    memcpy(CMSG_DATA(header), fd, sizeof *fd);
}

enum told {
    NOT_TOLD,    /* the reader has no room now: it is tried again */
    TOLD,        /* taken, or there is no reader who could be told anything */
    TOLD_WITHOUT /* not taken: others of this user have too many descriptors on their way for this one */
};

static enum told tell(struct psb_relay *relay, const struct dial_record *record, int fd) {
    struct dialler *dialler = relay->dialler;
    char bytes[1024];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {bytes, write_record(record, bytes, sizeof bytes)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (dialler->channel < 0) return TOLD;
    if (dialler->is_full) return NOT_TOLD;
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        attach(&message, &fd);
    }
    while (send_descriptors(dialler->channel, &message, MSG_DONTWAIT) < 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u64 = 0};
        if (errno == EINTR) continue;
        if (fd >= 0 && errno == ETOOMANYREFS) return TOLD_WITHOUT;
        if (errno != EAGAIN && !is_passing_shortage(errno)) {
            shutdown(dialler->channel, SHUT_RDWR); /* its end is read next */
            return TOLD;
        }
        dialler->is_full = 1; /* of what memory is short for, it is tried again in each round */
        epoll_ctl(dialler->epoll, EPOLL_CTL_MOD, dialler->channel, &event);
        return NOT_TOLD;
    }
    return TOLD;
}

static int tell_missed(struct psb_relay *relay, uint64_t call) {
    struct dial_record record = {.verb = VERB_FAILED, .number = call, .count = 4};
    record.fields[0] = record.fields[2] = (struct record_field){"0", 1};
    record.fields[1] = record.fields[3] = (struct record_field){"", 0};
    return tell(relay, &record, -1) != NOT_TOLD;
}

void miss_call(struct psb_relay *relay, uint64_t call) {
    struct dialler *dialler = relay->dialler;
    if (!dialler->n_missed && tell_missed(relay, call)) return;
    if (dialler->n_missed == MOST_MISSED) {
        end_channel(relay, 1);
        return;
    }
    dialler->missed[dialler->n_missed++] = call;
}

/* Where no descriptor can be passed on, the host program decides anew, unless its client was answered. */
static int tell_dialled(struct psb_relay *relay, struct dialled *dialled) {
    char number[24], port[8];
    enum told told;
    struct dial_record record = {.verb = VERB_DIALLED, .number = dialled->call, .count = 4};
    record.fields[0] = (struct record_field){
        number, (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)dialled->number)};
    record.fields[1] = (struct record_field){dialled->name.text, dialled->name.size};
    record.fields[2] = (struct record_field){port, (size_t)snprintf(port, sizeof port, "%u", dialled->port)};
    record.fields[3] = (struct record_field){"1", 1};
    told = tell(relay, &record, dialled->fd);
    if (told != TOLD_WITHOUT) return told == TOLD;
    dialled->is_passed = dialled->answer != NULL;
    dialled->owed = dialled->is_passed ? OWED_OVER : OWED_MISSED;
    release(relay, dialled);
    return 1;
}

/* Whether it was told everything. */
static int tell_of(struct psb_relay *relay, struct dialled *dialled) {
    struct dial_record cut = {.verb = VERB_CUT, .number = dialled->number};
    struct dial_record over = {.verb = VERB_OVER, .count = 1, .fields = {{"0", 1}}};
    if (dialled->owed & OWED_DIALLED && !tell_dialled(relay, dialled)) return 0;
    dialled->owed &= ~(unsigned)OWED_DIALLED;
    if (dialled->owed & OWED_MISSED && !tell_missed(relay, dialled->call)) return 0;
    dialled->owed &= ~(unsigned)OWED_MISSED;
    if (dialled->owed & OWED_CUT && !tell(relay, &cut, -1)) return 0;
    dialled->owed &= ~(unsigned)OWED_CUT;
    over.number = dialled->is_passed ? dialled->call : dialled->number;
    if (dialled->owed & OWED_OVER && !tell(relay, &over, -1)) return 0;
    dialled->owed &= ~(unsigned)OWED_OVER;
    return 1;
}

void tell_owed(struct psb_relay *relay) {
    struct dialler *dialler = relay->dialler;
    size_t i, told = 0;
    while (told < dialler->n_missed && tell_missed(relay, dialler->missed[told])) told++;
    dialler->n_missed -= told;
    memmove(dialler->missed, dialler->missed + told, dialler->n_missed * sizeof *dialler->missed);
    for (i = 0; i < DIAL_BUCKETS; i++) {
        struct dialled **place = &dialler->buckets[i];
        while (*place) {
            if ((*place)->owed && !tell_of(relay, *place)) return;
            if ((*place)->state == DIALLED_OVER)
                drop_dialled(relay, place);
            else
                place = &(*place)->next;
        }
    }
}

void tell_now(struct psb_relay *relay, struct dialled **place, unsigned owed) {
    (*place)->owed |= owed;
    if (tell_of(relay, *place) && (*place)->state == DIALLED_OVER) drop_dialled(relay, place);
}

/* One that the reader waits for is none: the host program decides anew, unless its client was answered. The reader
 * keeps a duplicate of one that it holds, of which nothing comes any more. */
void cut_dialled(struct psb_relay *relay, struct dialled *dialled) {
    dialled->is_cut = 1;
    if (dialled->state == DIALLED_OVER) return;
    if (dialled->state == DIALLED_RELAYED) {
        psb_relay_cut(relay, dialled->pair);
        return;
    }
    reset_hard(dialled->fd);
    if (dialled->state == DIALLED_OFFERED) {
        reset_hard(dialled->client);
        release(relay, dialled);
        dialled->owed = OWED_OVER;
    } else if (dialled->state == DIALLED_CONNECTING || (dialled->owed & OWED_DIALLED && !dialled->answer)) {
        release(relay, dialled);
        dialled->owed = OWED_MISSED;
    } else {
        dialled->owed |= OWED_CUT;
    }
    wake_loop(relay->dialler->wake);
}

void fail_dialled(struct psb_relay *relay, struct dialled **place) {
    release(relay, *place);
    tell_now(relay, place, OWED_MISSED);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

void end_channel(struct psb_relay *relay, int failed) {
    struct dialler *dialler = relay->dialler;
    size_t i;
    if (dialler->channel < 0) return;
    for (i = 0; i < DIAL_BUCKETS; i++)
        while (dialler->buckets[i]) drop_dialled(relay, &dialler->buckets[i]);
    epoll_ctl(dialler->epoll, EPOLL_CTL_DEL, dialler->channel, NULL);
    close(dialler->channel);
    dialler->channel = -1;
    dialler->n_missed = 0;
    dialler->is_full = 0;
    dialler->failed = failed;
    if (failed) wake_loop(relay->ended);
}

void dialled_pair_ended(struct psb_relay *relay, uint64_t number) {
    struct dialler *dialler = relay->dialler;
    struct dialled **place;
    pthread_mutex_lock(&dialler->lock);
    place = find_dialled(dialler, number);
    if (*place) {
        (*place)->state = DIALLED_OVER;
        tell_now(relay, place, OWED_OVER);
    }
    pthread_mutex_unlock(&dialler->lock);
}
