/* What a table can decide of new connections: a name that was judged before is dialled and relayed by the relay's
 * thread, without the interpreter lock (read by cffi, preprocessor lines stripped). Any thread may call any function;
 * each returns 0 or more, or -errno.
 *
 * The reader of the doors asks over a channel of its own (SEQPACKET, dial_records.h). What it asks for is held against
 * the table of the cage that it names; what is not there is for the host program to decide. */
#ifndef PSB_HOST_DIAL_H
#define PSB_HOST_DIAL_H

#include <stddef.h>
#include <stdint.h>

struct psb_relay;

/* What leads somewhere: one address that was connected before, by the rules as they are. */
struct psb_judged {
    const char *said, *name; /* what is asked for, and what that is told as */
    uint64_t said_size, name_size;
    uint8_t address[16]; /* an IPv4 address as one of IPv6 */
    uint32_t port;
    int32_t own;     /* what psb_is_own said of it; below 0: it does not matter */
    uint64_t own_ms; /* for how long that holds; then it is asked again */
    uint64_t life_ms;
};

/* A connection that was dialled here. */
struct psb_dialled {
    uint64_t number;
    char name[256]; /* ends with a zero */
    uint8_t address[16];
    uint32_t port;
    uint32_t pad;
};

/* Takes the channel over, also when it fails; whatever came of another one before is cut. 1, or -errno. */
int psb_dial_open(struct psb_relay *relay, int channel);
/* Ends the channel, and cuts what came of it. */
int psb_dial_close(struct psb_relay *relay);
/* Whether the reader has ended the channel, or has said what makes no sense; psb_relay_ended_fd is readable then. */
int psb_dial_has_failed(struct psb_relay *relay);

/* From now on a cage may have so many connections here. */
int psb_dial_admit(struct psb_relay *relay, uint32_t cage, uint32_t most);
/* -ENOENT for a cage that was not admitted, or has left. */
int psb_dial_learn(struct psb_relay *relay, uint32_t cage, const struct psb_judged *judged);
/* What was said leads nowhere any more; without `said` nothing does. Connections stay. */
int psb_dial_forget(struct psb_relay *relay, uint32_t cage, const char *said, size_t size);
/* The connections of a cage that are not cut, up to `room` of them: their number. */
int psb_dial_list(struct psb_relay *relay, uint32_t cage, struct psb_dialled *found, size_t room);
/* Nothing more is sent on it, once psb_relay_wait_idle has returned. 0 also where it has ended. */
int psb_dial_cut(struct psb_relay *relay, uint64_t number);
/* How many connections were let through since it was asked last. */
int64_t psb_dial_allowed(struct psb_relay *relay, uint32_t cage);
/* Cuts everything of a cage, and forgets it; returns what psb_dial_allowed would. */
int64_t psb_dial_leave(struct psb_relay *relay, uint32_t cage);

#endif
