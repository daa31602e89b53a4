/* What was learned at a door. */
#ifndef PSB_HOST_REPEAT_TABLE_H
#define PSB_HOST_REPEAT_TABLE_H

#include "repeat_state.h"

/* What this means, compared as a whole; NULL where it was not learned. */
const struct repeat_words *find_words(struct repeat_door *door, enum psb_repeat_meaning meaning, const char *said,
                                      size_t size);
/* 0, -EMSGSIZE or -ENOMEM. */
int learn_words(struct repeat_door *door, enum psb_repeat_meaning meaning, const char *said, size_t size,
                const char *answer, size_t answer_size);
/* Without `said`, all. */
void forget_words(struct repeat_door *door, const char *said, size_t size);

#endif
