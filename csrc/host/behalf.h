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

#include "borrowed.h"
#include "guest.h"
#include "notify.h"

#define ADDRESS_ROOM 128 /* sizeof(struct sockaddr_storage), the kernel's own limit */

enum deed_outcome {
    DEED_DONE, /* deed->value is what the call returns, or -errno */
    DEED_WAIT_READY,
    DEED_WAIT_A_WHILE, /* nothing can be polled for: a unix socket's full queue */
    DEED_WAIT_CARRIER, /* nobody listens yet at the address, in the cage's network */
    DEED_PASS          /* the kernel goes on: a family that the rules leave to it */
};

struct deed {
    int tid;
    int number;    /* of the system call */
    uint32_t call; /* enum psb_call_class of it */
    uint64_t args[6];
    int socket; /* our duplicate, -1: none */
    int domain, protocol;
    int foreign;       /* the caller's socket is of the host's network */
    int own;           /* the address is this host's, which no range leads to */
    int fresh;         /* `socket` is a new one of the host's network, to be put in the place of the caller's */
    int close_on_exec; /* ... which is closed at an exec */
    int carried;       /* in the cage's network somebody listens at the address, and carries it on */
    int named;         /* the address stands for the real one */
    uint8_t real[16];
    int blocking;        /* the caller waits for as long as it takes */
    int connecting;      /* a connect is under way */
    uint64_t give_up_ms; /* SO_SNDTIMEO, as a CLOCK_MONOTONIC time; 0: never */
    uint32_t address_size;
    uint8_t address[ADDRESS_ROOM];
    int64_t value;
    int breaks;  /* it has met a broken pipe, which is a signal for the caller */
    int refused; /* ... because it is not done on behalf, or for the ancillary data it carries */
};

/* Reads the address of connect, bind, sendto or (the first of) sendmsg: 0 or -errno. An unspecified IP address is
 * written as the loopback address that the kernel takes it for. */
int read_address(struct deed *deed);
/* The caller's socket, its domain and its protocol: 0 or -errno. */
int take_socket(struct deed *deed, struct borrowed *borrowed);
int is_inet(const struct deed *deed);

/* Carries out, or goes on with, one call. */
enum deed_outcome carry_out(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed);
void end_deed(struct deed *deed, struct borrowed *borrowed);

uint64_t now_ms(void);

/* judge.c: where an IP call may lead, by the rules alone; a bit of enum psb_way, or 0. */
uint32_t way_of(const struct deed *deed, const struct psb_rules *rules);
/* Asks the kernel where a grant would lead, and writes deed->own. */
void look_home(struct deed *deed, const struct psb_rules *rules);
/* The address as sixteen bytes and a port: 0, or -1 for what is not an IP address. */
int spell(const struct deed *deed, uint8_t *bytes, uint16_t *port);
sa_family_t family(const struct deed *deed);
/* Whether sixteen bytes are an IPv4 address. */
int is_four(const uint8_t *address);
/* Whether a socket of the caller's family can be connected to the address. */
int can_have(const struct deed *deed, const uint8_t *address);
/* Of a name: the real address in the place of the one that was read. */
void aim(const struct deed *deed, struct sockaddr_storage *to, uint32_t *size);
/* An unspecified destination is loopback (ip(7)); AF_UNSPEC is IPv4 in a send. */
void settle(struct deed *deed);

/* behalf_unix.c: the socket file that a caged process means by a path, where it may be reached. 0, with *to naming it
 * through /proc/self/fd and *held to be closed after use (-1: none); -errno, and then nothing is held. */
int reach_unix(struct deed *deed, const struct psb_rules *rules, struct sockaddr_storage *to, uint32_t *size,
               int *held);
/* Without a namespace: whether the socket would get a name or a port of the host's; then *number is what it fails with.
 */
int takes_a_name(struct deed *deed, const struct psb_rules *rules, int *number);
/* behalf_message.c: sendmsg and sendmmsg */
enum deed_outcome send_messages(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed);
/* Reads one message's address into the deed. */
int read_message_address(struct deed *deed, uint64_t header);
int is_stream(const struct deed *deed);

/* on_behalf.c: whether there is a row for the socket's family and the call; what has none is never done on behalf. */
int is_done_on_behalf(const struct deed *deed);
/* Refuses the deed, and has it told: the outcome. */
enum deed_outcome refuse(struct deed *deed);

/* behalf_netlink.c: the supervisor's user owns the cage's network namespace, so what it sends and binds is a query,
 * addressed to the kernel, and nothing else. 0 or -errno. */
int bind_netlink(struct deed *deed);
int may_send_netlink(struct deed *deed, const void *data, size_t size);

#endif
