/* Sockets inside a cage's network namespace, made from the host (read by cffi, preprocessor lines stripped). No
 * function holds a lock; each may be called from any thread. */
#ifndef PSB_HOST_NETNS_H
#define PSB_HOST_NETNS_H

#include <stddef.h>
#include <stdint.h>

#include "../../abi.h"

/* A socket to be made: close-on-exec and non-blocking, as everything here. */
struct psb_socket {
    const char *name;    /* for the error of this one */
    int32_t family;      /* AF_INET or AF_INET6 */
    int32_t type;        /* SOCK_STREAM or SOCK_DGRAM; SOCK_RAW hears, and is done without where it is refused */
    uint8_t address[16]; /* in network order; only used when it is to be bound */
    /* 0: it is not bound. Of SOCK_RAW: IPPROTO_UDP hears what is sent to where the cage itself is not, IPPROTO_TCP what
     * arrives at the address. */
    uint16_t port;
    int32_t backlog; /* 0: it does not listen */
    int32_t fd;      /* out: the caller's to close; -1 when nothing was made */
};

/* What is done there, in this order. */
struct psb_inside {
    const void *routes; /* rtnetlink(7) messages with NLM_F_ACK each; every one must be acknowledged */
    size_t routes_size;
    const void *redirect; /* one batch of nf_tables messages, likewise */
    size_t redirect_size;
    struct psb_socket *sockets;
    size_t n_sockets;
    struct psb_error error; /* out */
};

/* Carries it out in the user and network namespaces of the cage whose init has this pidfd. 0; or -1, and nothing is
 * left open then. */
int psb_inside(int init_pidfd, struct psb_inside *wanted);

/* Writes one setting of that network namespace, below /proc/sys/net of the caller's own /proc. 0, or -errno. */
int psb_setting_inside(int init_pidfd, const char *path, const char *value);

/* Whether nf_tables takes this batch, tried in namespaces of their own: 0, or the errno of what refused it. */
int psb_probe_redirect(const void *batch, size_t size);

#endif
