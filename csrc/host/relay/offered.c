/* A client that has asked for a connection in words of its own (SOCKS, CONNECT) is answered by the relay's thread, as
 * soon as there is one: the reader need not be woken for that. It has read what was asked, made the answer, and judges
 * what the client says next; until then nothing is passed on in either direction.
 *
 * Where the server speaks first, or what the client says has to be looked at further, the reader gets the connection as
 * one that it has dialled, and all goes on as with those. */
#include "offered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dial_relay.h"

int keep_words(const struct record_field *said, char **words, size_t *size) {
    char *copy = said->size > LONGEST_SAID ? NULL : malloc(said->size + 1);
    if (!copy) return 0;
    memcpy(copy, said->bytes, said->size);
    copy[said->size] = 0;
    free(*words);
    *words = copy;
    *size = said->size;
    return 1;
}

/* The reader has a duplicate of its client. */
static void leave_to_reader(struct dialled *dialled) {
    close(dialled->client);
    dialled->client = -1;
    dialled->is_passed = 0;
}

/* A client that takes no few bytes has been sent nothing else: it does not want them. */
int answer_offered(struct psb_relay *relay, struct dialled **place) {
    struct dialled *dialled = *place;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = dialled->number};
    const ssize_t sent = send(dialled->client, dialled->answer, dialled->answer_size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == (ssize_t)dialled->answer_size) {
        if (dialled->is_judged) return 1;
        if (dialled->is_fetched) {
            leave_to_reader(dialled);
            return 1;
        }
    }
    dialled->state = DIALLED_OFFERED;
    if (sent != (ssize_t)dialled->answer_size ||
        epoll_ctl(relay->dialler->epoll, EPOLL_CTL_ADD, dialled->fd, &event) < 0)
        cut_dialled(relay, dialled);
    return 0;
}

static void stop_waiting(struct psb_relay *relay, struct dialled *dialled) {
    epoll_ctl(relay->dialler->epoll, EPOLL_CTL_DEL, dialled->fd, NULL);
    dialled->state = DIALLED_HELD;
}

int go_offered(struct psb_relay *relay, struct dialled **place, const struct record_field *said) {
    struct dialled *dialled = place ? *place : NULL;
    if (said->size > LONGEST_SAID) return -EPROTO;
    if (!dialled || !dialled->is_passed || !is_polled(dialled)) return 0; /* it hears, or has heard */
    if (!dialled->answer || dialled->is_judged) return -EPROTO;
    if (!keep_words(said, &dialled->said, &dialled->said_size)) {
        cut_dialled(relay, dialled);
        return 0;
    }
    dialled->is_judged = 1;
    if (dialled->state == DIALLED_CONNECTING) return 0;
    stop_waiting(relay, dialled);
    relay_at_once(relay, place);
    return 0;
}

void fetch_offered(struct psb_relay *relay, struct dialled **place) {
    struct dialled *dialled = place ? *place : NULL;
    if (!dialled || !dialled->answer) return;
    dialled->is_fetched = 1;
    if (dialled->state != DIALLED_OFFERED) return;
    stop_waiting(relay, dialled);
    leave_to_reader(dialled);
    tell_now(relay, place, OWED_DIALLED);
}
