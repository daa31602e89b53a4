/* A queue with a bound for what nobody waits for: a Python that does not listen must not cost the host its memory. What
 * somebody waits for always has its place. */
#include "tellings.h"

#include <stdlib.h>
#include <string.h>

struct telling {
    struct telling *next;
    struct psb_told told; /* allocated up to its text's end */
};

void describe(struct psb_told *told, enum psb_told_kind kind, uint32_t cage, uint32_t call, const struct deed *deed) {
    memset(told, 0, offsetof(struct psb_told, text) + 1);
    told->kind = kind;
    told->cage = cage;
    told->call = call;
    told->number = deed->number;
    told->pid = deed->tid;
    told->domain = deed->domain;
    told->protocol = deed->protocol;
    told->address_size = deed->address_size;
    memcpy(told->address, deed->address, sizeof told->address);
    memcpy(told->args, deed->args, sizeof told->args);
}

static size_t size_of(const struct psb_told *told) {
    return offsetof(struct psb_told, text) + told->text_size + 1;
}

int queue_telling(struct tellings *tellings, const struct psb_told *told) {
    const int waits = told->kind == PSB_TOLD_ASKED || told->kind == PSB_TOLD_STRANDED;
    struct telling *telling;
    if (!waits && tellings->count >= 2 * MOST_TELLINGS) return 0;
    telling = malloc(offsetof(struct telling, told) + size_of(told));
    if (!telling) return 0; /* what waits is refused at its deadline */
    memcpy(&telling->told, told, size_of(told));
    if (!waits) telling->told.serial = ++tellings->serial;
    telling->next = NULL;
    if (tellings->last)
        tellings->last->next = telling;
    else
        tellings->first = telling;
    tellings->last = telling;
    tellings->count++;
    return 1;
}

struct telling *take_telling(struct tellings *tellings) {
    struct telling *telling = tellings->first;
    if (!telling) return NULL;
    tellings->first = telling->next;
    if (!tellings->first) tellings->last = NULL;
    tellings->count--;
    return telling;
}

int hand_over(struct telling *telling, struct psb_told *told) {
    memcpy(told, &telling->told, size_of(&telling->told));
    free(telling);
    return 1;
}

void drop_tellings(struct tellings *tellings) {
    struct telling *telling;
    while ((telling = take_telling(tellings))) free(telling);
}
