/* What one cage's names lead to, as it was decided: a name or an address that was said, the port, and the address that
 * may be connected, for some time. Data alone; whoever has it locks it. */
#ifndef PSB_RELAY_KNOWN_H
#define PSB_RELAY_KNOWN_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_KNOWN 32     /* of one cage */
#define LONGEST_KNOWN 255 /* characters */

struct known_name {
    uint8_t size;
    char text[LONGEST_KNOWN];
};

struct known {
    struct known_name said, name; /* what is asked for, and what that is told as; `said` empty: free */
    uint8_t address[16];          /* an IPv4 address as one of IPv6 */
    uint16_t port;
    int own;            /* what psb_is_own said of the address; below 0: it does not matter */
    uint64_t own_until; /* ns of CLOCK_MONOTONIC, until which that holds */
    uint64_t until;
};

/* ns of CLOCK_MONOTONIC. */
uint64_t now_ns(void);
/* NULL where it is not known, or was for too long. */
struct known *find_known(struct known *table, const char *said, size_t size, uint16_t port, uint64_t now);
/* The place for one more: its own, a free one, or that of the one whose time is over first. */
struct known *place_for(struct known *table, const char *said, size_t size, uint16_t port);
/* Without `said` (NULL) all of them. */
void forget_known(struct known *table, const char *said, size_t size);
/* What leads to this address, by whatever name. */
void forget_address(struct known *table, const uint8_t *address, uint16_t port);
/* 0 where it is too long. */
int set_name(struct known_name *name, const char *text, size_t size);
/* An address as connect(2) wants it; its size. */
socklen_t socket_name(const uint8_t *address, uint16_t port, struct sockaddr_storage *name);

#endif
