/* What any thread of the host may call (notify.h): cages come and go, rules change, and what Python decided is
 * answered.
 *
 * Each cage has a thread of its own that receives its calls (loop.c, receive.c), and a mutex (notifier.h) that is taken
 * there and for a visit (visits.h) alone. Nothing that is done under it waits for anybody but the cage itself; what
 * could wait for longer, a close, is done without it (borrowed.h). */
#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "../emulate/emulate.h"
#include "../relay/wakeup.h"
#include "answers.h"
#include "asleep.h"
#include "cages.h"
#include "call_class.h"
#include "dispatch.h"
#include "image.h"
#include "looks.h"
#include "loop.h"
#include "notifier.h"
#include "pending_calls.h"
#include "visits.h"

/* ---- the notifier and its cages ---------------------------------------------------------------------------------- */

int psb_notifier_run(struct psb_notifier *notifier) {
    int result;
    pthread_mutex_lock(&notifier->lock);
    while (!notifier->stopping && !notifier->failure) pthread_cond_wait(&notifier->change, &notifier->lock);
    result = notifier->failure;
    pthread_mutex_unlock(&notifier->lock);
    return result;
}

struct psb_notifier *psb_notifier_new(void) {
    return new_notifier();
}

void psb_notifier_stop(struct psb_notifier *notifier) {
    pthread_mutex_lock(&notifier->lock);
    notifier->stopping = 1;
    pthread_cond_broadcast(&notifier->something);
    pthread_cond_broadcast(&notifier->change);
    stop_watching(notifier);
    pthread_mutex_unlock(&notifier->lock);
}

void psb_notifier_free(struct psb_notifier *notifier) {
    while (notifier->cages) psb_notifier_remove(notifier, notifier->cages->number);
    release_notifier(notifier);
}

int64_t psb_notifier_add(struct psb_notifier *notifier, int listener, const struct psb_rules *rules) {
    int result;
    int64_t number = 0;
    struct notified_cage *cage = new_cage(notifier, listener, rules, &result);
    if (!cage) return result;
    if (calls_rarely(&cage->rules)) number = enter_asleep(cage, serve_cage);
    return number > 0 ? number : enter_cage(cage, serve_cage);
}

/* Starts the connects anew that are to leave the cage's network: a socket that is still pending is in no descriptor
 * table, so that those who cut connections would not find it. */
static void abort_fresh(struct notified_cage *cage) {
    struct pending_call **place = &cage->pending_calls;
    while (*place)
        if ((*place)->req.replacement || (*place)->state == WAIT_LOOK) {
            respond_value(cage, (*place)->id, -ECONNABORTED);
            drop_pending(cage, place);
        } else {
            place = &(*place)->next;
        }
}

int psb_notifier_rule(struct psb_notifier *notifier, uint32_t number, const struct psb_rules *rules) {
    struct psb_rules copy, before;
    struct notified_cage *cage;
    const int result = copy_rules(&copy, rules);
    if (result) return result;
    cage = visit_number(notifier, number);
    before = copy;
    if (cage) {
        before = cage->rules;
        cage->rules = copy;
        abort_fresh(cage);
        wake_loop(cage->wake);
        leave(cage);
    }
    free_rules(&before);
    return cage ? 0 : -ENOENT;
}

int psb_grant_address(struct psb_notifier *notifier, uint32_t number, const uint8_t *synthetic, const uint8_t *real,
                      uint16_t first_port, uint16_t last_port, uint64_t milliseconds) {
    const uint64_t until_ms = now_ms() + milliseconds;
    struct notified_cage *cage = visit_number(notifier, number);
    int result;
    if (!cage) return -ENOENT;
    result = remember_name(&cage->names, synthetic, real, first_port, last_port, until_ms);
    leave(cage);
    return result;
}

int psb_open_door(struct psb_notifier *notifier, uint32_t number, const uint8_t *address, uint16_t port, int sink) {
    struct notified_cage *cage = visit_number(notifier, number);
    int result = -ENOENT;
    if (cage) {
        result = add_door(&cage->doors, address, port, sink);
        leave(cage);
    }
    if (result) close_own(sink);
    return result;
}

int psb_notifier_remove(struct psb_notifier *notifier, uint32_t number) {
    struct notified_cage *cage = take_cage(notifier, number);
    if (!cage) return -ENOENT;
    visit(cage);
    cage->gone = 1;
    while (cage->pending_calls) drop_pending(cage, &cage->pending_calls);
    wake_loop(cage->wake);
    pthread_mutex_unlock(&cage->lock);
    if (!leave_asleep(cage)) await_end(cage);
    return 0;
}

int psb_denials(struct psb_notifier *notifier, uint32_t number, struct psb_denial *denials, size_t room,
                uint64_t *lost) {
    struct notified_cage *cage = visit_number(notifier, number);
    int count;
    if (!cage) return -ENOENT;
    count = copy_refusals(&cage->refusals, denials, room, lost);
    leave(cage);
    return count;
}

int psb_path_counts(struct psb_notifier *notifier, uint32_t number, struct psb_path_count *counts, uint32_t room,
                    uint64_t *lost) {
    struct notified_cage *cage = visit_number(notifier, number);
    int count;
    if (!cage) return -ENOENT;
    count = (int)copy_path_counts(&cage->paths, counts, room);
    *lost = cage->paths.lost;
    leave(cage);
    return count;
}

int64_t psb_last_event(struct psb_notifier *notifier, uint32_t number) {
    struct notified_cage *cage = visit_number(notifier, number);
    int64_t last;
    if (!cage) return -ENOENT;
    pthread_mutex_lock(&notifier->lock);
    last = (int64_t)cage->events.serial;
    pthread_mutex_unlock(&notifier->lock);
    leave(cage);
    return last;
}

int psb_notifier_next(struct psb_notifier *notifier, struct psb_event *event) {
    return next_event(notifier, event);
}

static int answer(struct notified_cage *cage, struct pending_call **place, int kind, int64_t value, uint32_t flags) {
    struct pending_call *pending = *place;
    int result = -ENOENT;
    if (!still_waits(cage, pending->id)) {
        drop_pending(cage, place);
        return result;
    }
    switch (kind) {
    case PSB_ANSWER_ERRNO: result = respond_value(cage, pending->id, -value); break;
    case PSB_ANSWER_RETURN: result = respond_value(cage, pending->id, value); break;
    case PSB_ANSWER_PASS:
        if (cage->rules.action[pending->req.facts.call] != PSB_ACTION_TELL) return -EINVAL;
        result = respond_continue(cage, pending->id);
        break;
    case PSB_ANSWER_INJECT: result = inject(cage, pending->id, (int)value, flags); break;
    case PSB_ANSWER_RELAYED:
    case PSB_ANSWER_BEHALF:
        if (!is_network(pending->req.facts.call)) return -EINVAL;
        pending->req.relayed |= kind == PSB_ANSWER_RELAYED;
        if (dispatch(cage, pending->id, &pending->req, pending)) return 0;
        result = 0;
        break;
    default: return -EINVAL;
    }
    if (!result || result == -ENOENT) drop_pending(cage, place);
    return result;
}

int psb_answer(struct psb_notifier *notifier, uint64_t number, int kind, int64_t value, uint32_t flags) {
    struct pending_call **place;
    struct notified_cage *cage = visit_pending(notifier, number, &place);
    struct place *returned;
    int result;
    if (!cage) return -ENOENT;
    result = answer(cage, place, kind, value, flags);
    look_for(cage, number); /* whoever has decided finds it done; the mutex is free meanwhile: the cage may be gone */
    returned = take_returned(&cage->borrowed);
    wake_loop(cage->wake); /* there may be something to wait for */
    leave(cage);
    close_all(returned); /* by this thread, at once: a port that the caller lets go of is free for its next bind */
    return result;
}

/* Takes a call out of reach of deadlines and other answers, with a listener that outlives the cage's removal. Where no
 * descriptor is left for that it stays, to be refused. */
static int take_exec(struct psb_notifier *notifier, struct psb_refused_exec *taken, struct call_facts *facts,
                     struct notified_cage *alone) {
    struct pending_call **place;
    struct notified_cage *cage = visit_pending(notifier, taken->pending, &place);
    int result = -ENOENT;
    if (!cage) return result;
    if ((*place)->req.facts.call == PSB_CALL_EXEC) {
        *facts = (*place)->req.facts;
        taken->id = (*place)->id;
        taken->listener = fcntl(cage->listener, F_DUPFD_CLOEXEC, 0);
        alone->rules.init_pid = cage->rules.init_pid;
        result = taken->listener < 0 ? -EACCES : 0;
        if (!result) drop_pending(cage, place);
    }
    leave(cage);
    facts->caller.listener = alone->listener = taken->listener;
    return result;
}

int psb_answer_exec(struct psb_notifier *notifier, uint64_t number, const char *expected, size_t size,
                    const struct psb_image *image, struct psb_refused_exec *refused) {
    struct notified_cage alone = {.listener = -1};
    struct call_facts facts;
    int result;
    *refused = (struct psb_refused_exec){.pending = number, .listener = -1};
    result = take_exec(notifier, refused, &facts, &alone);
    if (result) return result;
    result = is_init(facts.caller.tid, alone.rules.init_pid)
                 ? respond_continue(&alone, refused->id)
                 : pass_exec(&alone, refused->id, &facts, expected, size, image, refused);
    if (result != -EPERM && result != -EACCES) close_own(alone.listener);
    return result;
}

void psb_refuse_exec(struct psb_notifier *notifier, struct psb_refused_exec *refused) {
    const struct notified_cage alone = {.listener = refused->listener};
    if (refused->listener < 0) {
        psb_answer(notifier, refused->pending, PSB_ANSWER_ERRNO, EPERM, 0);
    } else {
        refuse_followed(&alone, refused);
        close_own(refused->listener);
    }
}

int psb_waits(struct psb_notifier *notifier, uint64_t number) {
    struct pending_call **place;
    struct notified_cage *cage = visit_pending(notifier, number, &place);
    const int waits = cage && still_waits(cage, (*place)->id);
    if (cage) leave(cage);
    return waits;
}
