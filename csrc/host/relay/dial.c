/* What any thread may ask of the dialler. A tightening forgets what was judged, and then cuts what the new rules
 * refuse: each connection is in the list from before its connect(2) on, and no new one comes from what was forgotten.
 */
#include "dial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "dialled.h"

#define NS_PER_MS 1000000ULL

static int watch_channel(struct dialler *dialler, int channel) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    return epoll_ctl(dialler->epoll, EPOLL_CTL_ADD, channel, &event) < 0 ? -errno : 0;
}

/* ---- the channel ------------------------------------------------------------------------------------------------- */

int psb_dial_open(struct psb_relay *relay, int channel) {
    struct dialler *dialler = relay->dialler;
    int result;
    pthread_mutex_lock(&dialler->lock);
    end_channel(relay, 0);
    dialler->failed = 0;
    result = watch_channel(dialler, channel);
    if (result)
        close(channel);
    else
        dialler->channel = channel;
    pthread_mutex_unlock(&dialler->lock);
    return result ? result : 1;
}

int psb_dial_close(struct psb_relay *relay) {
    pthread_mutex_lock(&relay->dialler->lock);
    end_channel(relay, 0);
    relay->dialler->failed = 0;
    pthread_mutex_unlock(&relay->dialler->lock);
    return 0;
}

int psb_dial_has_failed(struct psb_relay *relay) {
    int failed;
    pthread_mutex_lock(&relay->dialler->lock);
    failed = relay->dialler->failed;
    pthread_mutex_unlock(&relay->dialler->lock);
    return failed;
}

/* ---- what is judged ---------------------------------------------------------------------------------------------- */

int psb_dial_admit(struct psb_relay *relay, uint32_t number, uint32_t most) {
    struct dialler *dialler = relay->dialler;
    struct dial_cage *cage = calloc(1, sizeof *cage);
    int result = -EEXIST;
    if (!cage) return -ENOMEM;
    cage->number = number;
    cage->most = most;
    pthread_mutex_lock(&dialler->lock);
    if (!find_dial_cage(dialler, number)) {
        keep_dial_cage(dialler, cage);
        result = 0;
    }
    pthread_mutex_unlock(&dialler->lock);
    if (result) free(cage);
    return result;
}

static int learn(struct dial_cage *cage, const struct psb_judged *judged) {
    const uint64_t now = now_ns();
    struct known known = {.port = (uint16_t)judged->port, .own = judged->own};
    if (!set_name(&known.said, judged->said, judged->said_size) || judged->port > 65535 ||
        !set_name(&known.name, judged->name, judged->name_size))
        return -EINVAL;
    memcpy(known.address, judged->address, sizeof known.address);
    known.own_until = now + judged->own_ms * NS_PER_MS;
    known.until = now + judged->life_ms * NS_PER_MS;
    *place_for(cage->known, judged->said, judged->said_size, known.port) = known;
    return 0;
}

int psb_dial_learn(struct psb_relay *relay, uint32_t number, const struct psb_judged *judged) {
    struct dial_cage *cage;
    int result;
    pthread_mutex_lock(&relay->dialler->lock);
    cage = find_dial_cage(relay->dialler, number);
    result = cage ? learn(cage, judged) : -ENOENT;
    pthread_mutex_unlock(&relay->dialler->lock);
    return result;
}

int psb_dial_forget(struct psb_relay *relay, uint32_t number, const char *said, size_t size) {
    struct dial_cage *cage;
    pthread_mutex_lock(&relay->dialler->lock);
    cage = find_dial_cage(relay->dialler, number);
    if (cage) forget_known(cage->known, said, size);
    pthread_mutex_unlock(&relay->dialler->lock);
    return 0;
}

int64_t psb_dial_allowed(struct psb_relay *relay, uint32_t number) {
    struct dial_cage *cage;
    int64_t allowed = 0;
    pthread_mutex_lock(&relay->dialler->lock);
    cage = find_dial_cage(relay->dialler, number);
    if (cage) {
        allowed = (int64_t)cage->allowed;
        cage->allowed = 0;
    }
    pthread_mutex_unlock(&relay->dialler->lock);
    return allowed;
}

/* ---- what is cut ------------------------------------------------------------------------------------------------- */

static void describe(const struct dialled *dialled, struct psb_dialled *found) {
    *found = (struct psb_dialled){.number = dialled->number, .port = dialled->port};
    memcpy(found->name, dialled->name.text, dialled->name.size);
    memcpy(found->address, dialled->address, sizeof found->address);
}

int psb_dial_list(struct psb_relay *relay, uint32_t number, struct psb_dialled *found, size_t room) {
    struct dialler *dialler = relay->dialler;
    struct dialled *each;
    size_t i, count = 0;
    pthread_mutex_lock(&dialler->lock);
    for (i = 0; i < DIAL_BUCKETS; i++)
        for (each = dialler->buckets[i]; each; each = each->next)
            if (each->cage && each->cage->number == number && !each->is_cut && each->state != DIALLED_OVER &&
                count < room)
                describe(each, &found[count++]);
    pthread_mutex_unlock(&dialler->lock);
    return (int)count;
}

int psb_dial_cut(struct psb_relay *relay, uint64_t number) {
    struct dialled **place;
    pthread_mutex_lock(&relay->dialler->lock);
    place = find_dialled(relay->dialler, number);
    if (*place) cut_dialled(relay, *place);
    pthread_mutex_unlock(&relay->dialler->lock);
    return 0;
}

/* The reader is told of them what it waits for: that the cage has ended it hears otherwise. */
static void abandon(struct psb_relay *relay, const struct dial_cage *cage) {
    size_t i;
    for (i = 0; i < DIAL_BUCKETS; i++) {
        struct dialled **place = &relay->dialler->buckets[i];
        while (*place) {
            struct dialled *each = *place;
            if (each->cage != cage) {
                place = &each->next;
                continue;
            }
            cut_dialled(relay, each);
            each->cage = NULL;
            if (each->owed & (OWED_MISSED | OWED_DIALLED) || each->is_passed)
                place = &each->next;
            else
                drop_dialled(relay, place);
        }
    }
}

int64_t psb_dial_leave(struct psb_relay *relay, uint32_t number) {
    struct dialler *dialler = relay->dialler;
    struct dial_cage **place = &dialler->cages, *cage;
    int64_t allowed = 0;
    pthread_mutex_lock(&dialler->lock);
    while (*place && (*place)->number != number) place = &(*place)->next;
    if ((cage = *place)) {
        abandon(relay, cage);
        *place = cage->next;
        allowed = (int64_t)cage->allowed;
        free(cage);
    }
    pthread_mutex_unlock(&dialler->lock);
    return allowed;
}
