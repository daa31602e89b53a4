/* The gatekeeper's C half: pairs of connected stream sockets (TCP, unix), and the bytes that pass between them, moved
 * by one thread without the interpreter lock (read by cffi, preprocessor lines stripped). Any thread may call any
 * function; each returns 0 or more, or -errno. */
#ifndef PSB_HOST_RELAY_H
#define PSB_HOST_RELAY_H

#include <stddef.h>
#include <stdint.h>

enum psb_splice_flags {
    PSB_RELAY_HOLD = 1, /* nothing is taken from `a` until psb_relay_release: somebody else reads what it says first */
    PSB_RELAY_CAGE_BITS = 8 /* the bits from here on are the number of the cage, whose pairs take turns together */
};

enum psb_spliced_end {
    PSB_SPLICED_CLOSED = 1, /* both have said all they had to say */
    PSB_SPLICED_RESET = 2,  /* one of them is gone; the other was told so by a reset */
    PSB_SPLICED_CUT = 3     /* psb_relay_cut; both were reset */
};

struct psb_spliced {
    uint64_t number;
    uint64_t from_a, from_b; /* bytes that were passed on */
    uint32_t end;            /* enum psb_spliced_end */
    uint32_t pad;
};

struct psb_relay;

/* Takes over both descriptors (also when it fails). What `a` had said already goes to `b` first. Returns the pair's
 * number, which is never used again; -ESHUTDOWN when the loop has returned. */
int64_t psb_relay_add(struct psb_relay *relay, int a, int b, uint32_t flags, const char *prefix, size_t size);
/* As psb_relay_add, of a pair that the dialler has connected (dial.h): it is told of the end, by this number. */
int64_t psb_relay_add_dialled(struct psb_relay *relay, int a, int b, uint32_t flags, const char *prefix, size_t size,
                              uint64_t dialled);
/* Releases a pair that was held: `prefix` goes to `b` first, and from now on `a` is read like any other. 0 also where
 * the pair has ended. */
int psb_relay_release(struct psb_relay *relay, uint64_t number, const char *prefix, size_t size);
/* Sends to `b` what was read of `a` while the pair is held; it stays held. */
int psb_relay_say(struct psb_relay *relay, uint64_t number, const char *prefix, size_t size);
/* Resets both connections of a pair. 0 also where the pair has ended. */
int psb_relay_cut(struct psb_relay *relay, uint64_t number);
/* Returns 0 when everything that was asked for before is done; -ETIMEDOUT. */
int psb_relay_wait_idle(struct psb_relay *relay, int timeout_ms);

/* Readable while pairs have ended that nobody has taken note of; it belongs to the relay. */
int psb_relay_ended_fd(const struct psb_relay *relay);
/* Copies out up to `room` of them: their number. */
int psb_relay_ended(struct psb_relay *relay, struct psb_spliced *ended, size_t room);

#endif
