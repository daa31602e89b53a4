/* Where the reader of the doors waits for what comes next; meanwhile it serves clients whose words were read before,
 * and those that go where others went (read by cffi, preprocessor lines stripped). One thread: no Python runs while it
 * is here.
 *
 * Python reads what is new and says what those bytes mean from then on, at that door: an answer, or a record for the
 * relay's thread (csrc/host/relay/offered.c). Bytes are compared as a whole and never parsed. Whoever says anything
 * else goes to Python, with all that he has said, and the call by which a connection was offered to him. */
#ifndef PSB_HOST_REPEATS_H
#define PSB_HOST_REPEATS_H

#include <stddef.h>
#include <stdint.h>

struct psb_repeats;

enum psb_repeat_meaning {
    PSB_REPEAT_GREETING, /* what is first said at a door of SOCKS, and its answer */
    PSB_REPEAT_REQUEST,  /* what is said after it, and the record of an offer */
    PSB_REPEAT_HEAD,     /* what is first said at a door of CONNECT, and the record of an offer */
    PSB_REPEAT_PLACE /* where a redirected client was to go (address, port), and the record of an offer of nothing */
};

/* One that Python is to go on with. Its words are what it has asked for, and what came after; they last until the next
 * call of anything here. */
struct psb_repeat_client {
    uint64_t call; /* by which it was offered a connection; 0: it was not */
    uint32_t door;
    int32_t fd; /* Python's from now on */
    uint32_t is_greeted;
    uint32_t has_spoken; /* or hung up, since it was offered a connection, and that was not gone on with */
    const char *asked, *words;
    uint64_t asked_size, words_size;
};

/* For a set of epoll(7) that Python adds to; NULL for want of memory. */
struct psb_repeats *psb_repeat_new(int epoll);
/* Closes the clients, and nothing else. */
void psb_repeat_free(struct psb_repeats *repeats);
/* The channel to the relay's thread. -ENOMEM. */
int psb_repeat_offer_at(struct psb_repeats *repeats, int channel);

/* A door: a listening socket in that set, to which clients are redirected, or not. -ENOMEM. */
int psb_repeat_open(struct psb_repeats *repeats, uint32_t door, int listener, int is_redirected);
/* Its clients are Python's from now on, and the listener is nobody's. */
void psb_repeat_shut(struct psb_repeats *repeats, uint32_t door);
/* How many clients it may have here: so many more, or fewer. Each that goes to Python takes its place along. */
void psb_repeat_allow(struct psb_repeats *repeats, uint32_t door, int32_t places);
/* The places that nobody has. */
uint32_t psb_repeat_free_places(struct psb_repeats *repeats, uint32_t door);
/* How many clients were answered there so far. */
uint64_t psb_repeat_served(struct psb_repeats *repeats, uint32_t door);
/* How many clients are here, at all doors, until they are taken: each may have a call at the relay's thread. */
uint32_t psb_repeat_clients(const struct psb_repeats *repeats);
/* What these bytes mean from now on. -EMSGSIZE, -ENOMEM, -ENOENT: no such door. */
int psb_repeat_learn(struct psb_repeats *repeats, uint32_t door, enum psb_repeat_meaning meaning, const char *said,
                     size_t size, const char *answer, size_t answer_size);
/* They mean nothing from now on; without `said` nothing does. */
void psb_repeat_forget(struct psb_repeats *repeats, uint32_t door, const char *said, size_t size);

/* Whether somebody is to be taken. */
int psb_repeat_has_back(const struct psb_repeats *repeats);
/* The next one that is Python's: 1, or 0. */
int psb_repeat_take(struct psb_repeats *repeats, struct psb_repeat_client *client);
/* Makes the one with this call Python's, if there is one. */
void psb_repeat_give_back(struct psb_repeats *repeats, uint64_t call);
/* All is over with the one with this call: 1, or 0 where there is none. */
int psb_repeat_over(struct psb_repeats *repeats, uint64_t call);

#endif
