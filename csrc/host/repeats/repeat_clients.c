/* What is said is compared with what was learned; nothing in it is looked at. Whatever is not as expected (other bytes,
 * a part, an end, an error, a channel that is full) is Python's, which begins where this has stopped. */
#include "repeat_clients.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../emulate/clock.h"
#include "../relay/dial_records.h"
#include "../spawn/passing.h"
#include "plain_words.h"
#include "repeat_fds.h"
#include "repeat_table.h"

#define SO_ORIGINAL_DST 80   /* of netfilter, whose header does not go with that of the C library */
#define MOST_UNANSWERED 1000 /* calls, as gate/reading/dialling.py has it */
#define REQUEST_MS 1000      /* for what follows a greeting (gate/tcp/offered.py) */
#define CONNECT_MS 250       /* for an address to answer (gate/reading/dialling.py) */
#define AGAIN_MS 50          /* until a channel that was full is tried again */

/* ---- queues ------------------------------------------------------------------------------------------------------ */

void leave_queue(struct repeat_client *client) {
    struct repeat_queue *queue = client->queue;
    if (!queue) return;
    if (client->previous)
        client->previous->next = client->next;
    else
        queue->first = client->next;
    if (client->next)
        client->next->previous = client->previous;
    else
        queue->last = client->previous;
    client->queue = NULL;
}

static void join_queue(struct repeat_queue *queue, struct repeat_client *client, uint64_t due) {
    leave_queue(client);
    client->queue = queue;
    client->due = due;
    client->next = NULL;
    client->previous = queue->last;
    if (queue->last)
        queue->last->next = client;
    else
        queue->first = client;
    queue->last = client;
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void stop_watching(struct psb_repeats *repeats, struct repeat_client *client) {
    if (client->is_watched) epoll_ctl(repeats->epoll, EPOLL_CTL_DEL, client->fd, NULL);
    client->is_watched = 0;
}

void hand_back(struct psb_repeats *repeats, struct repeat_client *client) {
    stop_watching(repeats, client);
    know_fd(repeats, client->fd, (struct repeat_fd){.kind = REPEAT_NOBODY});
    join_queue(&repeats->back, client, 0);
    client->state = REPEAT_BACK;
    if (!client->door) return;
    client->door->used--;
    client->door->places--; /* goes along */
    client->door = NULL;
}

void free_repeat(struct repeat_client *client) {
    leave_queue(client);
    if (client->door) client->door->used--;
    free(client->words);
    free(client);
}

void end_repeat(struct psb_repeats *repeats, struct repeat_client *client) {
    stop_watching(repeats, client);
    know_fd(repeats, client->fd, (struct repeat_fd){.kind = REPEAT_NOBODY});
    close(client->fd);
    repeats->clients--;
    free_repeat(client);
}

/* ---- the relay's thread ------------------------------------------------------------------------------------------ */

static int send_record(const struct psb_repeats *repeats, const char *said, size_t size, int fd) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {(void *)(uintptr_t)said, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *header;
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return send_descriptors(repeats->channel, &message, MSG_DONTWAIT) == (ssize_t)size;
}

static int say(struct psb_repeats *repeats, const struct dial_record *record) {
    const size_t size = write_record(record, repeats->record, sizeof repeats->record);
    return size && send_record(repeats, repeats->record, size, -1);
}

/* For want of memory what it has said is lost. */
static void let_go(struct psb_repeats *repeats, struct repeat_client *client) {
    const struct dial_record record = {.verb = VERB_LET_GO, .number = client->call};
    if (client->call) say(repeats, &record);
    end_repeat(repeats, client);
}

/* What it has said already goes along: it was judged, so it is passed on. */
static int offer(struct psb_repeats *repeats, struct repeat_client *client, const struct repeat_words *words) {
    const uint64_t call = OF_REPEAT | ++repeats->last_call << FD_BITS | (uint64_t)client->fd;
    const size_t size = words->answer_size, said = client->words_size;
    if (client->fd >> FD_BITS) return 0;
    memcpy(repeats->record, words->answer, size);
    put_number(repeats->record + 1, call, 8);
    if (said) {
        repeats->record[0] = VERB_PASS;
        put_number(repeats->record + size - 4, said, 4); /* of its last field, which was empty */
        memcpy(repeats->record + size, client->words, said);
    }
    if (!send_record(repeats, repeats->record, size + said, client->fd)) return 0;
    client->call = call;
    memcpy(client->asked, words->said, words->size);
    client->asked_size = words->size;
    client->door->served++;
    join_queue(&repeats->offered, client, now_ms() + CONNECT_MS);
    return 1;
}

/* ---- what a client says ------------------------------------------------------------------------------------------ */

static int keep_words_of(struct repeat_client *client, const char *said, size_t size) {
    client->words = malloc(size + 1);
    if (!client->words) return 0;
    memcpy(client->words, said, size);
    client->words_size = size;
    return 1;
}

static int watch(struct psb_repeats *repeats, struct repeat_client *client) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = client->fd};
    if (client->is_watched) return 1;
    client->is_watched = !epoll_ctl(repeats->epoll, EPOLL_CTL_ADD, client->fd, &event);
    return client->is_watched;
}

static int greet(struct psb_repeats *repeats, struct repeat_client *client, const struct repeat_words *words) {
    if (!watch(repeats, client)) return 0;
    if (send(client->fd, words->answer, words->answer_size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)words->answer_size)
        return 0;
    client->is_greeted = 1;
    client->state = REPEAT_GREETED;
    join_queue(&repeats->greeted, client, now_ms() + REQUEST_MS);
    return 1;
}

static int ask(struct psb_repeats *repeats, struct repeat_client *client, const struct repeat_words *words) {
    if (!watch(repeats, client) || !offer(repeats, client, words)) return 0;
    client->state = REPEAT_OFFERED;
    return 1;
}

/* Whether it was understood. */
static int understand(struct psb_repeats *repeats, struct repeat_client *client, const char *said, size_t size) {
    const struct repeat_words *words;
    if (client->state == REPEAT_GREETED) {
        words = find_words(client->door, PSB_REPEAT_REQUEST, said, size);
        return words && ask(repeats, client, words);
    }
    if ((words = find_words(client->door, PSB_REPEAT_HEAD, said, size))) return ask(repeats, client, words);
    words = find_words(client->door, PSB_REPEAT_GREETING, said, size);
    return words && greet(repeats, client, words);
}

/* The words are kept with it: it may turn out that there is no connection. */
static int go(struct psb_repeats *repeats, struct repeat_client *client) {
    const struct dial_record record = {
        .verb = VERB_GO, .number = client->call, .count = 1, .fields = {{client->words, client->words_size}}};
    if (!psb_is_plain(client->words, client->words_size) || !say(repeats, &record)) return 0;
    stop_watching(repeats, client);
    client->state = REPEAT_GONE;
    return 1;
}

void serve_repeat(struct psb_repeats *repeats, struct repeat_client *client) {
    ssize_t got;
    size_t size;
    if (client->state == REPEAT_GONE) return; /* what it says is the relay's to read */
    got = recv(client->fd, repeats->words, sizeof repeats->words, MSG_DONTWAIT);
    size = got > 0 ? (size_t)got : 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR) && client->state != REPEAT_NEW) return;
    if (size && client->state != REPEAT_OFFERED && understand(repeats, client, repeats->words, size)) return;
    if (size && !keep_words_of(client, repeats->words, size)) {
        let_go(repeats, client);
        return;
    }
    if (client->state == REPEAT_OFFERED && size && go(repeats, client)) return;
    client->has_spoken = client->state == REPEAT_OFFERED;
    hand_back(repeats, client);
}

/* ---- redirected clients ------------------------------------------------------------------------------------------ */

static int place_of(int fd, char place[6]) {
    struct sockaddr_in found;
    socklen_t size = sizeof found;
    if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &found, &size) < 0) {
        size = sizeof found; /* no nf_tables: it listens there */
        if (getsockname(fd, (struct sockaddr *)&found, &size) < 0) return 0;
    }
    memcpy(place, &found.sin_addr, 4);
    memcpy(place + 4, &found.sin_port, 2);
    return 1;
}

/* One who is silent may wait for the server to speak, so it is connected at once, with no answer. */
static int serve_redirected(struct psb_repeats *repeats, struct repeat_client *client) {
    const struct repeat_words *words;
    char place[6];
    ssize_t got;
    if (!place_of(client->fd, place) || !(words = find_words(client->door, PSB_REPEAT_PLACE, place, sizeof place)))
        return 0;
    got = recv(client->fd, repeats->words, sizeof repeats->words, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return ask(repeats, client, words);
    if (got <= 0) return 0;
    if (!keep_words_of(client, repeats->words, (size_t)got)) {
        let_go(repeats, client);
        return 1;
    }
    if (!psb_is_plain(client->words, client->words_size) || !offer(repeats, client, words)) return 0;
    client->state = REPEAT_GONE;
    return 1;
}

int accept_repeat(struct psb_repeats *repeats, struct repeat_door *door) {
    static const int on = 1;
    struct repeat_client *client;
    int fd;
    if (door->used >= door->places || repeats->unanswered + repeats->clients >= MOST_UNANSWERED) return 0;
    client = calloc(1, sizeof *client);
    if (!client) return 0;
    fd = accept4(door->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    client->fd = fd;
    if (fd < 0 || know_fd(repeats, fd, (struct repeat_fd){.kind = REPEAT_CLIENT, .client = client}) < 0) {
        const int is_nobody = fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR);
        if (fd >= 0) close(fd);
        free(client);
        return fd >= 0 || is_nobody;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    client->door = door;
    client->door_number = door->number;
    door->used++;
    repeats->clients++;
    join_queue(&repeats->others, client, 0);
    if (!door->is_redirected)
        serve_repeat(repeats, client);
    else if (!serve_redirected(repeats, client))
        hand_back(repeats, client);
    return 1;
}

void serve_late(struct psb_repeats *repeats) {
    const uint64_t now = repeats->greeted.first || repeats->offered.first ? now_ms() : 0;
    struct repeat_client *client;
    while ((client = repeats->greeted.first) && client->due <= now) hand_back(repeats, client);
    while ((client = repeats->offered.first) && client->due <= now) {
        const struct dial_record record = {.verb = VERB_GIVE_UP, .number = client->call};
        if (say(repeats, &record))
            join_queue(&repeats->others, client, 0);
        else
            join_queue(&repeats->offered, client, now + AGAIN_MS);
    }
}
