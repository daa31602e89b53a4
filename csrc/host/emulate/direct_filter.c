/* An unconnected UDP socket of the host's network receives from anyone who knows its port. A filter on the socket
 * accepts only what comes from a listed address and port, and is locked: the cage cannot remove it (socket(7),
 * SO_LOCK_FILTER). */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"

#ifndef SO_LOCK_FILTER
#define SO_LOCK_FILTER 44
#endif
#define UDP_BIT 2
#define MAPPED_BITS 96
#define SOURCE_FOUR ((uint32_t)SKF_NET_OFF + 12) /* in struct iphdr, struct ipv6hdr */
#define SOURCE_SIX ((uint32_t)SKF_NET_OFF + 8)
#define SOURCE_PORT 0 /* the packet begins with the UDP header here (udp_queue_rcv_one_skb) */
#define WHOLE 0xffffffffU
#define LONGEST 20 /* instructions of one entry */

struct writer {
    struct sock_filter *code;
    uint32_t size;
};

static void put(struct writer *writer, uint16_t code, uint32_t value, uint8_t yes, uint8_t no) {
    writer->code[writer->size++] = (struct sock_filter){code, yes, no, value};
}

/* The distance from behind the next instruction to `end`. */
static uint8_t to(const struct writer *writer, uint32_t end) {
    return (uint8_t)(end - writer->size - 1);
}

static uint32_t mask_of(uint32_t bits) {
    return bits >= 32 ? WHOLE : bits ? WHOLE << (32 - bits) : 0;
}

/* Lets the packet in when `bits` bits of the address at `offset`, and the port, are the entry's; else goes on. */
static void put_entry(struct writer *writer, uint32_t offset, const uint8_t *address, uint32_t bits,
                      const struct psb_endpoint *entry) {
    const uint32_t words = (bits + 31) / 32, end = writer->size + 3 * words + 4;
    uint32_t i;
    for (i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, address + 4 * i, sizeof word);
        put(writer, BPF_LD | BPF_W | BPF_ABS, offset + 4 * i, 0, 0);
        put(writer, BPF_ALU | BPF_AND | BPF_K, mask_of(bits - 32 * i), 0, 0);
        put(writer, BPF_JMP | BPF_JEQ | BPF_K, ntohl(word), 0, to(writer, end));
    }
    put(writer, BPF_LD | BPF_H | BPF_ABS, SOURCE_PORT, 0, 0);
    put(writer, BPF_JMP | BPF_JGE | BPF_K, entry->first_port, 0, to(writer, end));
    put(writer, BPF_JMP | BPF_JGT | BPF_K, entry->last_port, to(writer, end), 0);
    put(writer, BPF_RET | BPF_K, WHOLE, 0, 0);
}

static int is_source(const struct psb_endpoint *entry) {
    return entry->reach & PSB_REACH_GRANT && entry->protocols & UDP_BIT;
}

static void put_four(struct writer *writer, const struct psb_rules *rules) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint32_t i;
    put(writer, BPF_LD | BPF_B | BPF_ABS, SOURCE_FOUR, 0, 0);
    put(writer, BPF_JMP | BPF_JEQ | BPF_K, 127, 0, 1);
    put(writer, BPF_RET | BPF_K, 0, 0, 0);
    for (i = 0; i < rules->n_endpoints; i++) {
        const struct psb_endpoint *each = &rules->endpoints[i];
        const uint32_t bits = each->prefix > MAPPED_BITS ? each->prefix - MAPPED_BITS : 0;
        const size_t shared = (each->prefix < MAPPED_BITS ? each->prefix : MAPPED_BITS) / 8;
        if (is_source(each) && !memcmp(each->address, mapped, shared))
            put_entry(writer, SOURCE_FOUR, each->address + 12, bits, each);
    }
    put(writer, BPF_RET | BPF_K, 0, 0, 0);
}

static void put_six(struct writer *writer, const struct psb_rules *rules) {
    static const struct psb_endpoint loopback = {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    const uint32_t drop = writer->size;
    uint32_t i;
    put_entry(writer, SOURCE_SIX, loopback.address, 128, &(struct psb_endpoint){.last_port = 65535});
    for (i = drop; i < writer->size; i++)
        if (writer->code[i].code == (BPF_RET | BPF_K)) writer->code[i].k = 0;
    for (i = 0; i < rules->n_endpoints; i++)
        if (is_source(&rules->endpoints[i]))
            put_entry(writer, SOURCE_SIX, rules->endpoints[i].address, rules->endpoints[i].prefix,
                      &rules->endpoints[i]);
    put(writer, BPF_RET | BPF_K, 0, 0, 0);
}

int attach_source_filter(int socket, const struct psb_rules *rules) {
    struct writer writer = {.code = calloc(2 * (size_t)rules->n_endpoints + 3, LONGEST * sizeof *writer.code)};
    struct sock_fprog program = {.filter = writer.code};
    const int one = 1;
    uint32_t six;
    int result = -E2BIG;
    if (!writer.code) return -ENOMEM;
    put(&writer, BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF, 0, 0);
    put(&writer, BPF_ALU | BPF_RSH | BPF_K, 4, 0, 0);
    put(&writer, BPF_JMP | BPF_JEQ | BPF_K, 4, 1, 0);
    six = writer.size;
    put(&writer, BPF_JMP | BPF_JA, 0, 0, 0);
    put_four(&writer, rules);
    writer.code[six].k = writer.size - six - 1;
    put_six(&writer, rules);
    program.len = (unsigned short)writer.size;
    if (writer.size <= BPF_MAXINSNS) {
        result = setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ? -errno : 0;
        if (!result) result = setsockopt(socket, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one) < 0 ? -errno : 0;
    }
    free(writer.code);
    return result;
}
