/* The relay under ThreadSanitizer: threads that make pairs of connections, talk over them, hold, release and cut them,
 * others that take note of the ends and wait for what was ordered, and a loop that is stopped under all of them, again
 * and again. tools/sanitize builds and runs it: race [SECONDS]. Exit 0: every pair has ended once, nothing raced. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../host/notify/notify.h"
#include "../host/relay/relay_life.h"

#define TALKERS 4
#define COLLECTORS 2
#define ROOM 8
#define GENERATION_MS 120
#define MOST_PAIRS 4096 /* of one generation */

/* The notifier's half has it, which is not here; csrc/race/dial.c has the dialler. */
int psb_is_own(const uint8_t *address) {
    return address[15] == 1;
}

static struct psb_relay *relay;
static int server;
static struct sockaddr_in name;
static int stop;                    /* atomic: of this generation */
static int64_t failed_run;          /* atomic: what the loop said */
static unsigned long made, refused; /* atomic: of this generation */
static unsigned ends[MOST_PAIRS];   /* atomic: how often each pair has ended */
static unsigned long pairs, bytes, generations;

static void fail(const char *what) {
    fprintf(stderr, "race: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int over(void) {
    return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static void tcp_pair(int *ends_of) {
    socklen_t size = sizeof name;
    ends_of[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends_of[0] < 0) fail("socket");
    /* Whoever has accepted it may have reset it before we hear that it was accepted. */
    if (connect(ends_of[0], (struct sockaddr *)&name, size) && errno != ECONNRESET) fail("connect");
    ends_of[1] = accept4(server, NULL, NULL, SOCK_CLOEXEC); /* another talker's is as good: both are open */
    if (ends_of[1] < 0) fail("accept");
}

static void new_pair(unsigned *dice, int *ends_of) {
    if (rand_r(dice) % 2)
        tcp_pair(ends_of);
    else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_of))
        fail("socketpair");
}

static void something_happens(unsigned *dice, uint64_t number, int fd) {
    static const struct linger hard = {1, 0};
    char data[20000];
    const size_t size = (size_t)rand_r(dice) % sizeof data;
    switch (rand_r(dice) % 9) {
    case 0:
    case 1:
    case 2:
        memset(data, 1, size);
        send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    case 3: recv(fd, data, sizeof data, MSG_DONTWAIT); break;
    case 4: shutdown(fd, SHUT_WR); break;
    case 5: setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard); break;
    case 6: psb_relay_say(relay, number, "said", 4); break;
    case 7: psb_relay_release(relay, number, "held", 4); break;
    default: psb_relay_cut(relay, (uint64_t)rand_r(dice) % (number + 2)); /* somebody else's, or none's */
    }
}

static void talk(unsigned *dice) {
    const uint32_t flags = rand_r(dice) % 3 ? 0 : PSB_RELAY_HOLD;
    int client[2], far[2], i;
    int64_t number;
    new_pair(dice, client);
    new_pair(dice, far);
    number = psb_relay_add(relay, client[1], far[0], flags, "first", (size_t)rand_r(dice) % 6);
    __atomic_add_fetch(number < 0 ? &refused : &made, 1, __ATOMIC_RELAXED);
    for (i = rand_r(dice) % 12; number >= 0 && i; i--)
        something_happens(dice, (uint64_t)number, i % 2 ? client[0] : far[1]);
    if (rand_r(dice) % 4 == 0) psb_relay_wait_idle(relay, 50);
    close(client[0]);
    close(far[1]);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *run_talker(void *seed) {
    unsigned dice = (unsigned)(uintptr_t)seed;
    while (!over() && __atomic_load_n(&made, __ATOMIC_RELAXED) < MOST_PAIRS - TALKERS) talk(&dice);
    return NULL;
}

static void collect(void) {
    struct psb_spliced ended[ROOM];
    int i, count;
    while ((count = psb_relay_ended(relay, ended, ROOM)) > 0)
        for (i = 0; i < count; i++) {
            if (ended[i].number >= MOST_PAIRS || ended[i].end < PSB_SPLICED_CLOSED || ended[i].end > PSB_SPLICED_CUT)
                exit(3);
            __atomic_add_fetch(&ends[ended[i].number], 1, __ATOMIC_RELAXED);
            __atomic_add_fetch(&bytes, ended[i].from_a + ended[i].from_b, __ATOMIC_RELAXED);
        }
}

static void *run_collector(void *unused) {
    struct pollfd waits = {psb_relay_ended_fd(relay), POLLIN, 0};
    (void)unused;
    while (!over()) {
        poll(&waits, 1, 20);
        collect();
    }
    return NULL;
}

static void *run_loop(void *unused) {
    (void)unused;
    __atomic_store_n(&failed_run, psb_relay_run(relay), __ATOMIC_RELAXED);
    return NULL;
}

/* The loop is stopped while the others still talk: what they ask for then has to end as well. */
static void live_once(unsigned long seed) {
    const struct timespec while_all_talk = {0, GENERATION_MS * 1000000L}, after_the_end = {0, 5000000};
    pthread_t loop, talkers[TALKERS], collectors[COLLECTORS];
    unsigned long i;
    stop = 0, made = refused = 0;
    memset(ends, 0, sizeof ends);
    relay = psb_relay_new();
    if (!relay) fail("psb_relay_new");
    pthread_create(&loop, NULL, run_loop, NULL);
    for (i = 0; i < TALKERS; i++) pthread_create(&talkers[i], NULL, run_talker, (void *)(uintptr_t)(seed * 7 + i + 1));
    for (i = 0; i < COLLECTORS; i++) pthread_create(&collectors[i], NULL, run_collector, NULL);
    nanosleep(&while_all_talk, NULL);
    psb_relay_stop(relay);
    nanosleep(&after_the_end, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(loop, NULL);
    for (i = 0; i < TALKERS; i++) pthread_join(talkers[i], NULL);
    for (i = 0; i < COLLECTORS; i++) pthread_join(collectors[i], NULL);
    collect();
    for (i = 1; i <= made; i++)
        if (ends[i] != 1) {
            fprintf(stderr, "race: pair %lu of %lu has ended %u times (%lu were refused)\n", i, made, ends[i], refused);
            exit(1);
        }
    psb_relay_free(relay);
    pairs += made;
    generations++;
}

int main(int argc, char **argv) {
    const time_t until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
    socklen_t size = sizeof name;
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server, (struct sockaddr *)&name, size) || listen(server, 64)) fail("server");
    getsockname(server, (struct sockaddr *)&name, &size);
    while (time(NULL) < until) live_once(generations);
    close(server);
    printf("race: %lu pairs in %lu relays, %lu bytes\n", pairs, generations, bytes);
    return pairs && bytes && !failed_run ? 0 : 1;
}
