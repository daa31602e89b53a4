/* A short list that is searched from its begin: a cage that asks for more than it holds replaces its own entries. */
#include "known.h"

#include <string.h>
#include <time.h>

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int is_said(const struct known *known, const char *said, size_t size) {
    return size && known->said.size == size && !memcmp(known->said.text, said, size);
}

struct known *find_known(struct known *table, const char *said, size_t size, uint16_t port, uint64_t now) {
    size_t i;
    for (i = 0; i < MOST_KNOWN; i++)
        if (table[i].port == port && is_said(&table[i], said, size)) return now < table[i].until ? &table[i] : NULL;
    return NULL;
}

struct known *place_for(struct known *table, const char *said, size_t size, uint16_t port) {
    struct known *first = table;
    size_t i;
    for (i = 0; i < MOST_KNOWN; i++)
        if (table[i].port == port && is_said(&table[i], said, size)) return &table[i];
    for (i = 0; i < MOST_KNOWN; i++) {
        if (!table[i].said.size) return &table[i];
        if (table[i].until < first->until) first = &table[i];
    }
    return first;
}

void forget_known(struct known *table, const char *said, size_t size) {
    size_t i;
    for (i = 0; i < MOST_KNOWN; i++)
        if (!said || is_said(&table[i], said, size)) table[i].said.size = 0;
}

void forget_address(struct known *table, const uint8_t *address, uint16_t port) {
    size_t i;
    for (i = 0; i < MOST_KNOWN; i++)
        if (table[i].port == port && !memcmp(table[i].address, address, sizeof table[i].address))
            table[i].said.size = 0;
}

int set_name(struct known_name *name, const char *text, size_t size) {
    if (!size || size > LONGEST_KNOWN) return 0;
    memcpy(name->text, text, size);
    name->size = (uint8_t)size;
    return 1;
}

socklen_t socket_name(const uint8_t *address, uint16_t port, struct sockaddr_storage *name) {
    struct sockaddr_in *four = (struct sockaddr_in *)name;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)name;
    memset(name, 0, sizeof *name);
    if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)address)) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, address + 12, sizeof four->sin_addr);
        return sizeof *four;
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    memcpy(&six->sin6_addr, address, sizeof six->sin6_addr);
    return sizeof *six;
}
