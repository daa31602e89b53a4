/* Swaps a descriptor (and an address) while a call on it is decided: grantflip WAY LISTED PORT FULL OTHER OTHER_PORT
 * MS.
 *
 * One place of the descriptor table is now a harmless socket, now one that a grant made. Says how often the calls
 * worked, and whether the granted socket came to what it may not be, for so many milliseconds or until it did. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static atomic_int over;
static int place, harmless, granted;
static union {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_un un;
} first, second, shown;

static void *flip(void *unused) {
    (void)unused;
    while (!over) {
        dup2(granted, place);
        memcpy(&shown, &second, sizeof shown);
        dup2(harmless, place);
        memcpy(&shown, &first, sizeof shown);
    }
    return NULL;
}

static struct sockaddr_in at(const char *host, const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, host, &to.sin_addr);
    return to;
}

/* A socket of the host's network, closed, and without a port: what could be bound and listen. */
static int closed_tcp(const char *host, const char *full) {
    const struct sockaddr_in to = at(host, full);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connect(s, (const struct sockaddr *)&to, sizeof to) == 0 || errno != EINPROGRESS) exit(3);
    shutdown(s, SHUT_RDWR);
    return s;
}

static int connected_udp(const char *host, const char *port) {
    const struct sockaddr_in to = at(host, port);
    const int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (connect(s, (const struct sockaddr *)&to, sizeof to)) exit(4);
    return s;
}

static uint64_t network(int s) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    getsockopt(s, SOL_SOCKET, 71, &cookie, &size);
    return cookie;
}

static int give(int to) {
    char data = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {&data, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &place, sizeof place);
    return sendmsg(to, &message, MSG_DONTWAIT) == 1;
}

/* Whether what arrived is a socket of the other network. */
static int take(int from, uint64_t bad) {
    char data, control[CMSG_SPACE(sizeof(int))];
    struct iovec vector = {&data, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd, leads;
    if (recvmsg(from, &message, MSG_DONTWAIT) != 1 || !CMSG_FIRSTHDR(&message)) return 0;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    leads = network(fd) == bad;
    close(fd);
    return leads;
}

static int64_t now(void) {
    struct timespec at_once;
    clock_gettime(CLOCK_MONOTONIC, &at_once);
    return at_once.tv_sec * 1000 + at_once.tv_nsec / 1000000;
}

/* What the granted socket is by now: it listens, it has the port, it leads elsewhere. */
static int has_become(const char *way, const char *port) {
    struct sockaddr_in name = {0};
    socklen_t size = sizeof name, one = sizeof(int);
    int listens = 0;
    if (!strcmp(way, "listen")) return !getsockopt(granted, SOL_SOCKET, SO_ACCEPTCONN, &listens, &one) && listens;
    if (!strcmp(way, "bind"))
        return !getsockname(granted, (struct sockaddr *)&name, &size) && name.sin_port == htons(20007);
    return !getpeername(granted, (struct sockaddr *)&name, &size) && name.sin_port != htons((uint16_t)atoi(port));
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    const int64_t end = now() + (argc > 7 ? atoi(argv[7]) : 0);
    int done = 0, bad = 0, pair[2];
    pthread_t thread;
    setvbuf(stdout, NULL, _IONBF, 0);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    if (!strcmp(way, "listen") || !strcmp(way, "bind")) granted = closed_tcp(argv[2], argv[4]);
    if (!strcmp(way, "aim") || !strcmp(way, "pass")) granted = connected_udp(argv[2], argv[3]);
    harmless = socket(!strcmp(way, "listen") ? AF_INET : AF_UNIX, !strcmp(way, "aim") ? SOCK_DGRAM : SOCK_STREAM, 0);
    first.un.sun_family = AF_UNIX;
    snprintf(first.un.sun_path, sizeof first.un.sun_path, "%s/nobody", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    second.in = at(!strcmp(way, "bind") ? "0.0.0.0" : argv[5], !strcmp(way, "bind") ? "20007" : argv[6]);
    memcpy(&shown, &first, sizeof shown);
    place = fcntl(harmless, F_DUPFD, 100);
    pthread_create(&thread, NULL, flip, NULL);
    while (!bad && now() < end) {
        if (!strcmp(way, "listen")) done += listen(place, 1) == 0;
        if (!strcmp(way, "bind")) done += bind(place, &shown.any, sizeof shown.un) == 0;
        if (!strcmp(way, "aim")) done += connect(place, &shown.any, sizeof shown.in) == 0;
        if (!strcmp(way, "aim")) send(granted, "x", 1, MSG_DONTWAIT);
        if (!strcmp(way, "pass") && give(pair[0])) {
            done++;
            bad = take(pair[1], network(granted));
        } else if (strcmp(way, "pass")) {
            bad = has_become(way, argv[3]);
        }
    }
    over = 1;
    pthread_join(thread, NULL);
    printf("{\"try\": \"%s\", \"errno\": null, \"value\": {\"done\": %d, \"bad\": %d}}\n", way, done, bad);
    return 0;
}
