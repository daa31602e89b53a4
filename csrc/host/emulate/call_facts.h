/* What is known of a call before anything is done: found once, returned whole, and never written again.
 *
 * The caller's memory is read once; what was checked is what is used (seccomp_unotify(2), "TOCTOU"). Where an address
 * leads is decided on these facts alone (reach.h), so that a fact nobody has found out opens nothing. */
#ifndef PSB_CALL_FACTS_H
#define PSB_CALL_FACTS_H

#include <stdint.h>

#include "../notify/borrowed.h"
#include "../notify/notify.h"
#include "../notify/target.h"
#include "call_address.h"

/* Whose an address is, as the kernel routes it. No range leads to this host, only an address that is written down. */
enum address_owner {
    OWNER_UNKNOWN, /* nobody has asked: as if it were the host's */
    OWNER_HOST,
    OWNER_OTHER
};

struct call_facts {
    struct target caller;
    int number;    /* of the system call */
    uint32_t call; /* enum psb_call_class of it */
    uint64_t args[6];
    int domain, protocol; /* of the socket; 0 where there is none */
    int host_netns;       /* the socket is of the host's network */
    enum address_owner owner;
    struct call_address address;
};

/* The facts of a call on a socket, and our duplicate of it (-1: none; the caller's to give back, also when it fails): 0
 * or -errno. `received`: what the kernel has handed over. */
int find_facts(const struct call_facts *received, const struct psb_rules *rules, struct borrowed *borrowed,
               struct call_facts *facts, int *socket);
/* One message's address, by its header in the caller's memory: 0 or -errno. */
int read_message_address(const struct target *caller, int number, uint64_t header, struct call_address *address);
int is_inet(const struct call_facts *facts);

#endif
