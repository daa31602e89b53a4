/* A socket of the host's network in the place of a caged process's own: what a direct grant is made of.
 *
 * The new socket is of the same kind, with the options that were set, and is connected (or sends) here, to the address
 * that was judged; the loop then installs it over the caller's descriptor (SECCOMP_IOCTL_NOTIF_ADDFD). */
#ifndef PSB_DIRECT_H
#define PSB_DIRECT_H

#include <netinet/in.h>
#include <stdint.h>

#include "emulate.h"

/* The network namespace of a socket (SO_NETNS_COOKIE, Linux 5.14); 0 if it cannot be told. */
uint64_t network_of(int socket);
/* The one that this process makes sockets in; 0 if it cannot be told. */
uint64_t own_network(void);

/* Whether a socket is of the host's network, or cannot be told from one. */
int is_of_host(int socket, const struct psb_rules *rules);

/* The address that an IP socket has of its own (getsockname(2)): 0 or -errno. */
union ip_name {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};
int name_of(int socket, union ip_name *name);

/* Puts a socket of the host's network in the place of call->socket: 1; 0 where the caller's descriptor could not be
 * replaced without a trace, and then nothing has changed, but that a look may be wanted (req->look). */
int replace_socket(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed);

/* direct_options.c: what was set before the connect. */
void copy_options(int from, int to, int domain, int protocol);
/* direct_filter.c: makes an unconnected socket receive from the listed addresses only: 0 or -errno. */
int attach_source_filter(int socket, const struct psb_rules *rules);
/* direct_table.c: whether the caller's descriptor is the only one of its table that leads to the socket, by its inode,
 * and is in no epoll set; *close_on_exec is its flag. May take long: without a mutex (notify/looks.h). */
int is_sole_reference(const struct target *caller, int fd, uint64_t inode, int *close_on_exec);

#endif
