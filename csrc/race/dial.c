/* The dialler under ThreadSanitizer: one thread is the reader and says what it may say, and what it may not; others
 * judge, forget, list, cut, and let cages come and go; channels are opened anew, and the loop is stopped under all of
 * them, again and again. tools/sanitize builds and runs it: race [SECONDS]. Exit 0: nothing raced or was lost. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../host/notify/notify.h"
#include "../host/relay/dial.h"
#include "../host/relay/dial_records.h"
#include "../host/relay/relay_life.h"

#define HOSTS 3
#define CAGES 3
#define GENERATION_MS 150

static struct psb_relay *relay;
static int server, stop; /* stop is atomic */
static struct sockaddr_in place;
static unsigned long dialled, missed, over, opened, generations;

/* The notifier's half has it, which is not here. */
int psb_is_own(const uint8_t *address) {
    return address[15] == 1;
}

static void fail(const char *what) {
    fprintf(stderr, "race: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int is_stopped(void) {
    return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

static void say(int channel, enum dial_verb verb, uint64_t number, size_t count, const char *const *said, int fd) {
    struct dial_record record = {.verb = verb, .number = number, .count = count};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    char bytes[512];
    struct iovec part = {bytes, 0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t i;
    for (i = 0; i < count; i++) record.fields[i] = (struct record_field){said[i], strlen(said[i])};
    part.iov_len = write_record(&record, bytes, sizeof bytes);
    if (fd >= 0) {
        struct cmsghdr *header = (struct cmsghdr *)control;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    sendmsg(channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static uint64_t received(int channel) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    char bytes[1024];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const ssize_t size = recvmsg(channel, &message, MSG_DONTWAIT);
    struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd;
    if (header) {
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
        close(fd);
    }
    if (size < 14) return 0;
    if (bytes[0] == VERB_FAILED) missed++;
    if (bytes[0] == VERB_OVER) over++;
    if (bytes[0] != VERB_DIALLED) return 0;
    dialled++;
    return strtoull(bytes + 14, NULL, 10); /* the next field begins with a zero */
}

static void say_something(int channel, unsigned *dice, uint64_t call, uint64_t number) {
    static const char *const cages[CAGES + 1] = {"1", "2", "3", "4"};
    char port[8];
    const char *asked[4] = {cages[rand_r(dice) % (CAGES + 1)], rand_r(dice) % 8 ? "name" : "other", port, "said"};
    const char *said[2] = {rand_r(dice) % 2 ? "0" : "1", "first"};
    int client[2];
    snprintf(port, sizeof port, "%u", ntohs(place.sin_port));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client)) fail("socketpair");
    switch (rand_r(dice) % 32) {
    case 0: say(channel, VERB_PASS, call, 4, asked, client[0]); break;
    case 1: say(channel, VERB_GIVE_UP, call - 1, 0, NULL, -1); break;
    case 2: say(channel, VERB_LET_GO, call - 2, 0, NULL, -1); break;
    case 3: say(channel, VERB_LET_GO, number, 0, NULL, -1); break;
    case 4: say(channel, VERB_SPLICE, number, 2, said, client[0]); break;
    case 5: say(channel, VERB_RELEASE, number - 1, 1, said, -1); break;
    case 7:
    case 8:
    case 9: say(channel, VERB_OFFER, call, 4, asked, client[0]); break;
    case 10: say(channel, VERB_FETCH, call - 1, 0, NULL, -1); break;
    case 11:
        say(channel, VERB_OFFER, call, 4, asked, client[0]);
        say(channel, VERB_GO, call, 1, said, -1);
        break;
    case 6:
        if (rand_r(dice) % 16 == 0) say(channel, VERB_OVER, 1, 0, NULL, -1); /* is not the reader's to say */
        break;
    default: say(channel, VERB_DIAL, call, 4, asked, -1);
    }
    close(client[0]), close(client[1]);
}

static void *run_reader(void *seed) {
    unsigned dice = (unsigned)(uintptr_t)seed;
    while (!is_stopped()) {
        uint64_t call = 2, number = 0, next;
        int ends[2], turns = rand_r(&dice) % 2000;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) fail("socketpair");
        if (psb_dial_open(relay, ends[0]) < 0) fail("psb_dial_open");
        opened++;
        for (; turns && !is_stopped() && !psb_dial_has_failed(relay); turns--) {
            struct pollfd waits = {ends[1], POLLIN, 0};
            say_something(ends[1], &dice, call++, number);
            if (rand_r(&dice) % 4) poll(&waits, 1, 1);
            if ((next = received(ends[1]))) number = next;
        }
        if (rand_r(&dice) % 2) psb_dial_close(relay);
        close(ends[1]);
    }
    return NULL;
}

/* ---- the host program -------------------------------------------------------------------------------------------- */

static void change(unsigned *dice) {
    const uint32_t cage = 1 + (uint32_t)rand_r(dice) % CAGES;
    struct psb_judged judged = {
        .said = "name", .name = "name", .said_size = 4, .name_size = 4, .own = -1, .life_ms = 1000};
    struct psb_dialled found[8];
    int count;
    judged.address[10] = judged.address[11] = 0xff;
    memcpy(judged.address + 12, &place.sin_addr, 4);
    judged.port = ntohs(place.sin_port);
    switch (rand_r(dice) % 12) {
    case 0: psb_dial_leave(relay, cage); break;
    case 1: psb_dial_forget(relay, cage, NULL, 0); break;
    case 2: psb_dial_forget(relay, cage, "name", 4); break;
    case 3: psb_dial_allowed(relay, cage); break;
    case 4:
        count = psb_dial_list(relay, cage, found, 8);
        while (count--) psb_dial_cut(relay, found[count].number);
        psb_relay_wait_idle(relay, 50);
        break;
    default: psb_dial_admit(relay, cage, 8); psb_dial_learn(relay, cage, &judged);
    }
}

static void *run_host(void *seed) {
    unsigned dice = (unsigned)(uintptr_t)seed;
    const struct timespec moment = {0, 50000};
    while (!is_stopped()) {
        change(&dice);
        nanosleep(&moment, NULL);
    }
    return NULL;
}

static void *run_server(void *unused) {
    struct pollfd waits = {server, POLLIN, 0};
    int fd;
    (void)unused;
    while (!is_stopped())
        if (poll(&waits, 1, 20) > 0 && (fd = accept4(server, NULL, NULL, SOCK_CLOEXEC)) >= 0) close(fd);
    return NULL;
}

static void *run_loop(void *unused) {
    (void)unused;
    psb_relay_run(relay);
    return NULL;
}

static void live_once(unsigned long seed) {
    const struct timespec while_all_ask = {0, GENERATION_MS * 1000000L}, after_the_end = {0, 5000000};
    pthread_t loop, reader, hosts[HOSTS], accepts;
    unsigned long i;
    stop = 0;
    relay = psb_relay_new();
    if (!relay) fail("psb_relay_new");
    pthread_create(&loop, NULL, run_loop, NULL);
    pthread_create(&accepts, NULL, run_server, NULL);
    pthread_create(&reader, NULL, run_reader, (void *)(uintptr_t)(seed * 11 + 1));
    for (i = 0; i < HOSTS; i++) pthread_create(&hosts[i], NULL, run_host, (void *)(uintptr_t)(seed * 7 + i + 1));
    nanosleep(&while_all_ask, NULL);
    psb_relay_stop(relay);
    nanosleep(&after_the_end, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(loop, NULL);
    pthread_join(reader, NULL);
    pthread_join(accepts, NULL);
    for (i = 0; i < HOSTS; i++) pthread_join(hosts[i], NULL);
    psb_relay_free(relay);
    generations++;
}

int main(int argc, char **argv) {
    const time_t until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
    socklen_t size = sizeof place;
    int left;
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server, (struct sockaddr *)&place, size) || listen(server, 512)) fail("server");
    getsockname(server, (struct sockaddr *)&place, &size);
    while (time(NULL) < until) live_once(generations);
    close(server);
    left = dup(0);
    printf("race: %lu dialled, %lu missed, %lu over, %lu channels, %lu relays, next descriptor %d\n", dialled, missed,
           over, opened, generations, left);
    return dialled && missed && over && left < 16 ? 0 : 1;
}
