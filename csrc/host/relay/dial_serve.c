/* The relay's thread at the dialler: the reader's records, and connections that come to be. What makes no sense ends
 * the channel; so does its end. */
#include "dial_serve.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../notify/notify.h" /* psb_is_own */
#include "dial_relay.h"
#include "dialled.h"
#include "offered.h"
#include "reset.h"
#include "wakeup.h"

#define AT_ONCE 8 /* records in one round: what is relayed has its turn */
#define EVENTS 16
#define OWN_NS 1000000000ULL /* after which it is asked again whose an address is */

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static void finish(struct psb_relay *relay, struct dialled **place) {
    struct dialled *dialled = *place;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(dialled->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        forget_address(dialled->cage->known, dialled->address, dialled->port);
        fail_dialled(relay, place);
        return;
    }
    epoll_ctl(relay->dialler->epoll, EPOLL_CTL_DEL, dialled->fd, NULL);
    dialled->state = DIALLED_HELD;
    dialled->cage->allowed++;
    if (dialled->answer && !answer_offered(relay, place)) return;
    if (dialled->client >= 0)
        relay_at_once(relay, place);
    else
        tell_now(relay, place, OWED_DIALLED);
}

static int is_ready(int fd) {
    struct pollfd one = {fd, POLLOUT, 0};
    return poll(&one, 1, 0) != 0;
}

/* The socket, on its way; -1. Both may be ready at once, for a server nearby. */
static int begin(const struct known *known) {
    static const int on = 1;
    struct sockaddr_storage name;
    const socklen_t size = socket_name(known->address, known->port, &name);
    const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!connect(fd, (struct sockaddr *)&name, size) || errno == EINPROGRESS) return fd;
    close(fd);
    return -1;
}

/* Whose an address is may change while a name is known. */
static int is_as_judged(struct known *known, uint64_t now) {
    if (known->own < 0 || now < known->own_until) return 1;
    known->own_until = now + OWN_NS;
    return !psb_is_own(known->address) == !known->own;
}

/* On its way, to be gone on with (`go_on`); NULL where it cannot be. */
static struct dialled **new_dialled(struct psb_relay *relay, struct dial_cage *cage, const struct known *known,
                                    uint64_t call) {
    struct dialler *dialler = relay->dialler;
    struct dialled *made = calloc(1, sizeof *made), **place;
    if (!made) return NULL;
    made->client = -1;
    made->number = ++dialler->last_number | OF_DIALLER;
    made->call = call;
    made->name = known->name;
    made->port = known->port;
    memcpy(made->address, known->address, sizeof made->address);
    if ((made->fd = begin(known)) < 0) {
        free(made);
        return NULL;
    }
    made->cage = cage;
    cage->used++;
    place = find_dialled(dialler, made->number);
    *place = made;
    return place;
}

static void go_on(struct psb_relay *relay, struct dialled **place) {
    struct epoll_event event = {.events = EPOLLOUT, .data.u64 = (*place)->number};
    if (is_ready((*place)->fd))
        finish(relay, place);
    else if (epoll_ctl(relay->dialler->epoll, EPOLL_CTL_ADD, (*place)->fd, &event) < 0)
        fail_dialled(relay, place);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* A cage, what is asked for, a port. *place: the connection to it, NULL where that is not known. 0, or -EPROTO. */
static int dial_asked(struct psb_relay *relay, const struct dial_record *record, struct dialled ***place) {
    uint64_t number, port;
    struct dial_cage *cage;
    struct known *known = NULL;
    const uint64_t now = now_ns();
    *place = NULL;
    if (read_count(&record->fields[0], UINT32_MAX, &number) || read_count(&record->fields[2], 65536, &port))
        return -EPROTO;
    cage = find_dial_cage(relay->dialler, (uint32_t)number);
    if (cage && cage->used < cage->most && port < 65536)
        known = find_known(cage->known, record->fields[1].bytes, record->fields[1].size, (uint16_t)port, now);
    if (!known) return 0;
    if (is_as_judged(known, now)) *place = new_dialled(relay, cage, known, record->number);
    if (!*place) known->said.size = 0;
    return 0;
}

/* Who asks is in its last field, for refusals, and none is made here. */
static int dial(struct psb_relay *relay, const struct dial_record *record) {
    struct dialled **place;
    if (dial_asked(relay, record, &place)) return -EPROTO;
    if (place)
        go_on(relay, place);
    else
        miss_call(relay, record->number);
    return 0;
}

static int is_stream(int fd) {
    int type = 0, domain = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM) return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) return 0;
    return domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX;
}

/* A client that was judged already comes with what was read of it: it is relayed as soon as its server is there. One
 * that has only asked for it comes with the answer (offered.c). The reader has a duplicate, and hears when it is over,
 * or not to be had here. */
static int pass(struct psb_relay *relay, const struct dial_record *record, int client) {
    const struct record_field *said = &record->fields[3];
    struct dialled **place;
    if (!is_stream(client) || said->size > LONGEST_SAID || dial_asked(relay, record, &place)) return -EPROTO;
    if (place && (record->verb == VERB_OFFER ? keep_words(said, &(*place)->answer, &(*place)->answer_size)
                                             : keep_words(said, &(*place)->said, &(*place)->said_size))) {
        (*place)->client = client;
        (*place)->is_passed = 1;
        go_on(relay, place);
        return 0;
    }
    if (place) drop_dialled(relay, place);
    close(client);
    miss_call(relay, record->number);
    return 0;
}

/* The connection that a call has asked for, of those that the reader knows by nothing else. */
static struct dialled **find_call(struct dialler *dialler, uint64_t call) {
    size_t i;
    for (i = 0; i < DIAL_BUCKETS; i++) {
        struct dialled **place = &dialler->buckets[i];
        while (*place && ((*place)->call != call || !((*place)->is_passed || (*place)->state == DIALLED_CONNECTING)))
            place = &(*place)->next;
        if (*place) return place;
    }
    return NULL;
}

/* It takes too long: the host program tries other addresses beside it. */
static int give_up(struct psb_relay *relay, const struct dial_record *record) {
    struct dialled **place = find_call(relay->dialler, record->number);
    if (!place || (*place)->state != DIALLED_CONNECTING) return 0;
    if ((*place)->cage) forget_address((*place)->cage->known, (*place)->address, (*place)->port);
    fail_dialled(relay, place);
    return 0;
}

static void refuse(int client) {
    reset_hard(client);
    close(client);
}

/* One that the reader has given up for a client that is not relayed. */
static void end_held(struct psb_relay *relay, struct dialled **place) {
    close((*place)->fd);
    (*place)->fd = -1;
    (*place)->state = DIALLED_OVER;
    tell_now(relay, place, OWED_OVER);
}

/* Takes the client over, unless it returns an error. */
static int splice(struct psb_relay *relay, const struct dial_record *record, int client) {
    struct dialled **place = find_dialled(relay->dialler, record->number), *dialled = *place;
    const struct record_field *said = &record->fields[1];
    uint64_t hold;
    if (!is_stream(client) || read_count(&record->fields[0], 1, &hold) || said->size > LONGEST_SAID) return -EPROTO;
    if (!dialled) {
        refuse(client); /* it was cut meanwhile, with its cage */
        return 0;
    }
    if (dialled->state != DIALLED_HELD) return -EPROTO;
    if (!dialled->is_cut && dialled->cage) {
        relay_held(relay, dialled, client, hold ? PSB_RELAY_HOLD : 0, said->bytes, said->size);
        if (dialled->state == DIALLED_RELAYED) return 0;
        tell_now(relay, place, OWED_OVER);
    } else {
        refuse(client);
        end_held(relay, place);
    }
    return 0;
}

/* What a call has passed is ended, and answered; of a connection that the reader holds nothing more is said. */
static int let_go(struct psb_relay *relay, const struct dial_record *record) {
    struct dialled **place = record->number & OF_DIALLER ? find_dialled(relay->dialler, record->number)
                                                         : find_call(relay->dialler, record->number);
    if (!place || !*place) return 0;
    if ((*place)->is_passed)
        cut_dialled(relay, *place);
    else if ((*place)->state != DIALLED_CONNECTING)
        drop_dialled(relay, place);
    return 0;
}

static int pass_on(struct psb_relay *relay, const struct dial_record *record) {
    const struct dialled *dialled = *find_dialled(relay->dialler, record->number);
    const struct record_field *said = &record->fields[0];
    if (said->size > LONGEST_SAID) return -EPROTO;
    if (!dialled || dialled->state == DIALLED_OVER) return 0;
    if (dialled->state != DIALLED_RELAYED) return -EPROTO;
    return record->verb == VERB_SAY ? psb_relay_say(relay, dialled->pair, said->bytes, said->size)
                                    : psb_relay_release(relay, dialled->pair, said->bytes, said->size);
}

static int obey(struct psb_relay *relay, const struct dial_record *record, int client) {
    switch (record->verb) {
    case VERB_DIAL: return dial(relay, record);
    case VERB_PASS:
    case VERB_OFFER: return pass(relay, record, client);
    case VERB_GO: return go_offered(relay, find_call(relay->dialler, record->number), &record->fields[0]);
    case VERB_FETCH: fetch_offered(relay, find_call(relay->dialler, record->number)); return 0;
    case VERB_GIVE_UP: return give_up(relay, record);
    case VERB_SPLICE: return splice(relay, record, client);
    case VERB_SAY:
    case VERB_RELEASE: return pass_on(relay, record);
    case VERB_LET_GO: return let_go(relay, record);
    default: return -EPROTO;
    }
}

/* ---- the channel ------------------------------------------------------------------------------------------------- */

/* The descriptors of a message: how many there are; the first is kept, the others are closed. */
static int take_descriptors(struct msghdr *message, int *first) {
    struct cmsghdr *header;
    int count = 0, fd;
    *first = -1;
    for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        size_t at;
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        for (at = CMSG_LEN(0); at + sizeof fd <= header->cmsg_len; at += sizeof fd) {
            memcpy(&fd, (char *)header + at, sizeof fd);
            if (count++)
                close(fd);
            else
                *first = fd;
        }
    }
    return count;
}

/* Its client did not arrive, because nobody could open a descriptor here: that call alone comes to nothing. */
static int go_without(struct psb_relay *relay, const struct dial_record *record) {
    struct dialled **place;
    if (record->verb != VERB_SPLICE) {
        miss_call(relay, record->number);
        return 0;
    }
    place = find_dialled(relay->dialler, record->number);
    if (!*place) return 0;
    if ((*place)->state != DIALLED_HELD) return -EPROTO;
    end_held(relay, place);
    return 0;
}

/* Reads one record and does as it says: 1, 0 where there is none, or -errno. */
static int serve_record(struct psb_relay *relay) {
    struct dialler *dialler = relay->dialler;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec part = {dialler->record, LONGEST_RECORD};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct dial_record record;
    int client, count, result, is_cut_off;
    const ssize_t size = recvmsg(dialler->channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    count = take_descriptors(&message, &client);
    is_cut_off = !!(message.msg_flags & MSG_CTRUNC);
    result = message.msg_flags & MSG_TRUNC ? -EPROTO : read_record(dialler->record, (size_t)size, &record);
    if (!result && count + is_cut_off != record.has_socket) result = -EPROTO;
    if (!result) result = is_cut_off ? go_without(relay, &record) : obey(relay, &record, client);
    if (result && client >= 0) close(client);
    return result ? result : 1;
}

static void serve_channel(struct psb_relay *relay, uint32_t events) {
    struct dialler *dialler = relay->dialler;
    int turn, result = 1;
    if (events & EPOLLOUT) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
        dialler->is_full = 0;
        epoll_ctl(dialler->epoll, EPOLL_CTL_MOD, dialler->channel, &event);
        tell_owed(relay);
    }
    if (!(events & ~(uint32_t)EPOLLOUT)) return;
    for (turn = 0; turn < AT_ONCE && result > 0 && dialler->channel >= 0; turn++) result = serve_record(relay);
    if (result < 0) end_channel(relay, 1);
}

static void serve_event(struct psb_relay *relay, const struct epoll_event *event) {
    struct dialler *dialler = relay->dialler;
    struct dialled **place;
    if (event->data.u64 == 0) {
        if (dialler->channel >= 0) serve_channel(relay, event->events);
    } else if (event->data.u64 == 1) {
        clear_wakeup(dialler->wake);
        tell_owed(relay);
    } else {
        place = find_dialled(dialler, event->data.u64);
        if (*place && (*place)->state == DIALLED_CONNECTING)
            finish(relay, place);
        else
            fetch_offered(relay, place);
    }
}

void serve_dialler(struct psb_relay *relay) {
    struct dialler *dialler = relay->dialler;
    struct epoll_event events[EVENTS];
    int i, n;
    pthread_mutex_lock(&dialler->lock);
    n = epoll_wait(dialler->epoll, events, EVENTS, 0);
    for (i = 0; i < n; i++) serve_event(relay, &events[i]);
    pthread_mutex_unlock(&dialler->lock);
}
