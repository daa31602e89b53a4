/* System calls done on behalf of a caged process: on a copy of its address, through a duplicate of its socket.
 *
 * The caller's memory is read once; what was checked is what is used (seccomp_unotify(2), "TOCTOU"). No call here
 * blocks: what would is WAIT_READY (until the socket is writable) or WAIT_A_WHILE, and is taken up again. */
#ifndef PSB_BEHALF_H
#define PSB_BEHALF_H

#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "guest.h"
#include "notify.h"

#define ADDRESS_ROOM 128 /* sizeof(struct sockaddr_storage), the kernel's own limit */

enum deed_outcome {
    DEED_DONE, /* deed->value is what the call returns, or -errno */
    DEED_WAIT_READY,
    DEED_WAIT_A_WHILE, /* nothing can be polled for: a unix socket's full queue */
    DEED_PASS          /* the kernel goes on: a family that the rules leave to it */
};

struct deed {
    int tid;
    int number; /* of the system call */
    uint64_t args[6];
    int socket; /* our duplicate, -1: none */
    int domain, protocol;
    int blocking;        /* the caller waits for as long as it takes */
    int connecting;      /* a connect is under way */
    uint64_t give_up_ms; /* SO_SNDTIMEO, as a CLOCK_MONOTONIC time; 0: never */
    uint32_t address_size;
    uint8_t address[ADDRESS_ROOM];
    int64_t value;
    int refused_control; /* ... for the ancillary data it carries */
};

/* Reads the address of connect, bind, sendto or (the first of) sendmsg: 0 or -errno. An unspecified IP address is
 * written as the loopback address that the kernel takes it for. */
int read_address(struct deed *deed);
/* The caller's socket, its domain and its protocol: 0 or -errno. */
int take_socket(struct deed *deed, struct pidfds *pidfds);
/* Whether the list holds the address for the protocol; an address that leads nowhere (AF_UNSPEC in a connect) is. */
int listed(const struct psb_rules *rules, const struct deed *deed);
int is_inet(const struct deed *deed);

/* Carries out, or goes on with, one call. */
enum deed_outcome carry_out(struct deed *deed, const struct psb_rules *rules, struct pidfds *pidfds);
void end_deed(struct deed *deed);

uint64_t now_ms(void);

/* behalf_unix.c: the socket file that a caged process means by a path. 0, with *to naming it through /proc/self/fd and
 * *held to be closed after use (-1: none); -errno. */
int reach_unix(const struct deed *deed, const struct psb_rules *rules, struct sockaddr_storage *to, uint32_t *size,
               int *held);
/* behalf_message.c: sendmsg and sendmmsg */
enum deed_outcome send_messages(struct deed *deed, const struct psb_rules *rules, struct pidfds *pidfds);
/* Reads one message's address into the deed. */
int read_message_address(struct deed *deed, uint64_t header);

#endif
