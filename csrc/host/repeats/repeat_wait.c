/* One wait for all: what is Python's is told to it, the rest is served. A door has TURNS in each round, and Python its
 * own as soon as there is something for it, so a cage that never rests here holds up nobody for longer than that. */
#include "repeat_wait.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../emulate/clock.h"
#include "../relay/dial_records.h"
#include "repeat_clients.h"
#include "repeat_fds.h"

#define EVENTS 256
#define RECORD_HEAD 10
#define ENDS 32 /* of clients in one round, as many records as Python reads at once (gate/reading/host_end.py) */

/* The ends of clients' connections are for here. Whatever else there is Python reads, which asks whose it is, and in
 * this round: what is behind many ends may be another cage's. */
static int serve_records(struct psb_repeats *repeats) {
    char head[64];
    int i;
    for (i = 0; i < ENDS; i++) {
        const ssize_t got = recv(repeats->channel, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return 1;
        if (got < RECORD_HEAD || head[0] != VERB_OVER || !psb_repeat_over(repeats, number_at(head + 1, 8))) return 0;
        if (recv(repeats->channel, head, sizeof head, MSG_DONTWAIT) <= 0) return 0;
    }
    return 1;
}

static int has_turn(struct psb_repeats *repeats, struct repeat_door *door) {
    if (door->round != repeats->round) {
        door->round = repeats->round;
        door->turns = 0;
    }
    return door->turns++ < TURNS;
}

/* Whether it was for here. Who has no turn is told of again.
 *
 * An event has no more than a number, and whose that is may have changed since the round began: an end closes the
 * client's descriptor, and the next one who is accepted gets it. One who is not watched is the relay's, and nothing of
 * his is read here; from one who is watched it is tried in vain. Listeners, the channel and what is Python's are closed
 * by Python alone, which runs between rounds, so their events are their own. */
static int serve(struct psb_repeats *repeats, int fd) {
    const struct repeat_fd who = who_has(repeats, fd);
    switch (who.kind) {
    case REPEAT_CHANNEL: return serve_records(repeats);
    case REPEAT_DOOR:
        if (who.door->places <= who.door->used) return 0;
        return !has_turn(repeats, who.door) || accept_repeat(repeats, who.door);
    case REPEAT_CLIENT:
        if (!who.client->is_watched) return 1;
        if (has_turn(repeats, who.client->door)) serve_repeat(repeats, who.client);
        return 1;
    default: return 0;
    }
}

static int next_timeout(const struct psb_repeats *repeats, uint64_t until, int is_for_ever) {
    const struct repeat_client *late = repeats->greeted.first, *other = repeats->offered.first;
    uint64_t now;
    if (!late && !other && is_for_ever) return -1;
    now = now_ms();
    if (is_for_ever) until = UINT64_MAX;
    if (late && late->due < until) until = late->due;
    if (other && other->due < until) until = other->due;
    if (until <= now) return 0;
    return until - now > INT32_MAX ? INT32_MAX : (int)(until - now);
}

int psb_repeat_wait(struct psb_repeats *repeats, int64_t timeout_ms, uint32_t unanswered,
                    struct psb_repeat_event *events, uint32_t most) {
    const int is_for_ever = timeout_ms < 0;
    const uint64_t until = timeout_ms > 0 ? now_ms() + (uint64_t)timeout_ms : 0;
    struct epoll_event found[EVENTS];
    int i, n, count = 0;
    repeats->unanswered = unanswered;
    for (;;) {
        n = epoll_wait(repeats->epoll, found, most < EVENTS ? (int)most : EVENTS,
                       timeout_ms ? next_timeout(repeats, until, is_for_ever) : 0);
        if (n < 0) return errno == EINTR ? 0 : -errno;
        repeats->round++;
        for (i = 0; i < n; i++)
            if (!serve(repeats, found[i].data.fd))
                events[count++] = (struct psb_repeat_event){found[i].data.fd, found[i].events};
        serve_late(repeats);
        if (count || repeats->back.first || !timeout_ms || (!is_for_ever && now_ms() >= until)) return count;
    }
}
