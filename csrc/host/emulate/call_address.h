/* The address of a call, as bytes of the caller's: what it says, and what the kernel takes it for. Pure. */
#ifndef PSB_CALL_ADDRESS_H
#define PSB_CALL_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_ROOM 128 /* sizeof(struct sockaddr_storage), the kernel's own limit */

/* The address of connect, bind, sendto or (the first of) sendmsg, as it was read. An unspecified IP address is written
 * as the loopback address that the kernel takes it for. */
struct call_address {
    uint32_t size; /* 0: the call has none */
    uint8_t bytes[ADDRESS_ROOM];
};

/* An unspecified destination is loopback (ip(7)); AF_UNSPEC is IPv4 in a send. */
void normalize(struct call_address *address, int number);
sa_family_t family(const struct call_address *address);
/* The address as sixteen bytes and a port: 0, or -1 for what is not an IP address. */
int to_in6(const struct call_address *address, uint8_t *bytes, uint16_t *port);
/* Whether sixteen bytes are an IPv4 address. */
int is_four(const uint8_t *address);

#endif
