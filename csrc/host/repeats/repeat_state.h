/* What psb_repeats is made of. Descriptors are found by their number, a client by its call: that has its descriptor. */
#ifndef PSB_HOST_REPEAT_STATE_H
#define PSB_HOST_REPEAT_STATE_H

#include "repeats.h"

#define MOST_REPEATS 32     /* of one door; what was learned first goes first */
#define LONGEST_REPEAT 1024 /* bytes */
#define LONGEST_WORDS 16384
#define TURNS 8 /* of one door in one round */
#define FD_BITS 24
#define OF_REPEAT (1ULL << 62) /* in the numbers of calls, which Python's own have not */

struct repeat_words {
    char *said, *answer; /* one piece; NULL: none */
    size_t size, answer_size;
    enum psb_repeat_meaning meaning;
};

struct repeat_door {
    struct repeat_door *next;
    uint32_t number, places, used;
    uint32_t turns, learned; /* in round `round`; how many words, so far */
    uint64_t round, served;
    int listener, is_redirected;
    struct repeat_words table[MOST_REPEATS];
};

enum repeat_state {
    REPEAT_NEW,
    REPEAT_GREETED,
    REPEAT_OFFERED, /* it has to speak when it is answered */
    REPEAT_GONE,    /* the relay has it */
    REPEAT_BACK
};

struct repeat_client {
    struct repeat_client *next, *previous; /* in the queue in which it is */
    struct repeat_queue *queue;
    struct repeat_door *door; /* NULL where that is shut, and it is to be taken */
    uint64_t call, due;
    uint32_t door_number;
    int fd, is_watched, is_greeted, has_spoken;
    enum repeat_state state;
    char *words;
    size_t asked_size, words_size;
    char asked[LONGEST_REPEAT];
};

/* By the time at which they are due, or have come. */
struct repeat_queue {
    struct repeat_client *first, *last;
};

enum repeat_kind {
    REPEAT_NOBODY,
    REPEAT_DOOR,
    REPEAT_CLIENT,
    REPEAT_CHANNEL
};

struct repeat_fd {
    enum repeat_kind kind;
    union {
        struct repeat_door *door;
        struct repeat_client *client;
    };
};

struct psb_repeats {
    int epoll, channel;
    uint32_t unanswered, clients; /* calls of Python's own; who is here, until Python has taken it */
    uint64_t round, last_call;
    struct repeat_door *doors;
    struct repeat_queue greeted, offered, others, back;
    struct repeat_client *taken; /* whose words Python looks at */
    struct repeat_fd *fds;
    size_t n_fds;
    char words[LONGEST_WORDS];
    char record[LONGEST_WORDS + 3 * LONGEST_REPEAT];
};

#endif
