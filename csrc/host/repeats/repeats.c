/* Doors, what was learned at them, and who is handed back. */
#include "repeats.h"

#include <errno.h>
#include <stdlib.h>

#include "repeat_clients.h"
#include "repeat_fds.h"
#include "repeat_table.h"

static struct repeat_client *find_call(const struct psb_repeats *repeats, uint64_t call) {
    const struct repeat_fd who = who_has(repeats, (int)(call & ((1ULL << FD_BITS) - 1)));
    return call && who.kind == REPEAT_CLIENT && who.client->call == call ? who.client : NULL;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

struct psb_repeats *psb_repeat_new(int epoll) {
    struct psb_repeats *repeats = calloc(1, sizeof *repeats);
    if (!repeats) return NULL;
    repeats->epoll = epoll;
    repeats->channel = -1;
    return repeats;
}

static void forget_taken(struct psb_repeats *repeats) {
    if (repeats->taken) free_repeat(repeats->taken);
    repeats->taken = NULL;
}

void psb_repeat_free(struct psb_repeats *repeats) {
    struct repeat_client *client;
    while (repeats->doors) psb_repeat_shut(repeats, repeats->doors->number);
    forget_taken(repeats);
    while ((client = repeats->back.first)) end_repeat(repeats, client);
    free(repeats->fds);
    free(repeats);
}

int psb_repeat_offer_at(struct psb_repeats *repeats, int channel) {
    repeats->channel = channel;
    return know_fd(repeats, channel, (struct repeat_fd){.kind = REPEAT_CHANNEL});
}

/* ---- doors ------------------------------------------------------------------------------------------------------- */

static struct repeat_door **find_door(struct psb_repeats *repeats, uint32_t number) {
    struct repeat_door **place = &repeats->doors;
    while (*place && (*place)->number != number) place = &(*place)->next;
    return place;
}

int psb_repeat_open(struct psb_repeats *repeats, uint32_t number, int listener, int is_redirected) {
    struct repeat_door *door = calloc(1, sizeof *door);
    if (!door || know_fd(repeats, listener, (struct repeat_fd){.kind = REPEAT_DOOR, .door = door})) {
        free(door);
        return -ENOMEM;
    }
    door->next = repeats->doors;
    door->number = number;
    door->listener = listener;
    door->is_redirected = is_redirected;
    repeats->doors = door;
    return 0;
}

void psb_repeat_shut(struct psb_repeats *repeats, uint32_t number) {
    struct repeat_door **place = find_door(repeats, number), *door = *place;
    size_t fd;
    if (!door) return;
    for (fd = 0; fd < repeats->n_fds && door->used; fd++)
        if (repeats->fds[fd].kind == REPEAT_CLIENT && repeats->fds[fd].client->door == door)
            hand_back(repeats, repeats->fds[fd].client);
    know_fd(repeats, door->listener, (struct repeat_fd){.kind = REPEAT_NOBODY});
    forget_words(door, NULL, 0);
    *place = door->next;
    free(door);
}

void psb_repeat_allow(struct psb_repeats *repeats, uint32_t number, int32_t places) {
    struct repeat_door *door = *find_door(repeats, number);
    if (door && (places > 0 || door->places >= (uint32_t)-places)) door->places += (uint32_t)places;
}

uint32_t psb_repeat_free_places(struct psb_repeats *repeats, uint32_t number) {
    const struct repeat_door *door = *find_door(repeats, number);
    return door && door->places > door->used ? door->places - door->used : 0;
}

uint64_t psb_repeat_served(struct psb_repeats *repeats, uint32_t number) {
    const struct repeat_door *door = *find_door(repeats, number);
    return door ? door->served : 0;
}

int psb_repeat_learn(struct psb_repeats *repeats, uint32_t number, enum psb_repeat_meaning meaning, const char *said,
                     size_t size, const char *answer, size_t answer_size) {
    struct repeat_door *door = *find_door(repeats, number);
    return door ? learn_words(door, meaning, said, size, answer, answer_size) : -ENOENT;
}

void psb_repeat_forget(struct psb_repeats *repeats, uint32_t number, const char *said, size_t size) {
    struct repeat_door *door = *find_door(repeats, number);
    if (door) forget_words(door, said, size);
}

uint32_t psb_repeat_clients(const struct psb_repeats *repeats) {
    return repeats->clients;
}

/* ---- who is Python's --------------------------------------------------------------------------------------------- */

int psb_repeat_has_back(const struct psb_repeats *repeats) {
    return repeats->back.first != NULL;
}

int psb_repeat_take(struct psb_repeats *repeats, struct psb_repeat_client *out) {
    struct repeat_client *client;
    forget_taken(repeats);
    client = repeats->back.first;
    if (!client) return 0;
    leave_queue(client);
    repeats->clients--;
    repeats->taken = client;
    *out = (struct psb_repeat_client){.call = client->call,
                                      .door = client->door_number,
                                      .fd = client->fd,
                                      .is_greeted = (uint32_t)client->is_greeted,
                                      .has_spoken = (uint32_t)client->has_spoken,
                                      .asked = client->asked,
                                      .words = client->words,
                                      .asked_size = client->asked_size,
                                      .words_size = client->words_size};
    return 1;
}

void psb_repeat_give_back(struct psb_repeats *repeats, uint64_t call) {
    struct repeat_client *client = find_call(repeats, call);
    if (client) hand_back(repeats, client);
}

int psb_repeat_over(struct psb_repeats *repeats, uint64_t call) {
    struct repeat_client *client = find_call(repeats, call);
    if (client) end_repeat(repeats, client);
    return client != NULL;
}
