/* One emulated call, step by step: whether the rules still allow it, what is done (emulate.h), and how it ends: with an
 * answer, or among the pending calls. */
#include "dispatch.h"

#include <errno.h>
#include <string.h>

#include "answers.h"
#include "cages.h"

void note_denial(struct notified_cage *cage, uint32_t call, const struct call_facts *facts) {
    struct psb_event event;
    if (!count_refusal(&cage->refusals, call, facts)) return;
    fill_event(&event, PSB_EVENT_REFUSED, cage->number, call, facts);
    post_event(cage, &event);
}

/* One file after the other: nobody's answer is late as long as that goes on. */
#define LONGEST_MOVE_MS 600000

static int is_move(const struct notified_cage *cage, const struct pending_call *pending) {
    return cage->rules.moves && pending->req.facts.call == PSB_CALL_RENAME;
}

void await_python(struct notified_cage *cage, struct pending_call *pending, enum psb_event_kind kind) {
    struct psb_event event;
    pending->state = WAIT_PYTHON;
    pending->deadline_ms = now_ms() + (is_move(cage, pending) ? LONGEST_MOVE_MS : cage->rules.deadline_ms);
    fill_event(&event, kind, cage->number, pending->req.facts.call, &pending->req.facts);
    event.pending = pending->number;
    post_event(cage, &event);
}

int is_only_watched(const struct notified_cage *cage, uint32_t call) {
    const int names_file = call == PSB_CALL_OPEN || call == PSB_CALL_PATH || call == PSB_CALL_RENAME;
    return names_file && cage->rules.action[call] == PSB_ACTION_TELL;
}

int no_place(const struct call_facts *facts) {
    return facts->call == PSB_CALL_SENDTO || facts->call == PSB_CALL_SENDMSG ? -ENOBUFS : -EAGAIN;
}

/* A call of another family that has no address is told by its family. */
static void note_refused_call(struct notified_cage *cage, const struct call_facts *facts) {
    const sa_family_t family = (sa_family_t)facts->domain;
    struct call_facts told = *facts;
    if (!is_inet(facts) && !told.address.size) {
        memcpy(told.address.bytes, &family, sizeof family);
        told.address.size = sizeof family;
    }
    note_denial(cage, told.call, &told);
}

/* By the rules and names of now: the list may have become shorter since the call was decided, or began to wait. */
static enum call_outcome attempt(struct notified_cage *cage, struct emulated_call *req) {
    enum call_outcome outcome;
    if (!is_under_way(req)) {
        req->route = find_route(&cage->names, &cage->rules, &req->facts);
        req->route.door = find_door(&cage->doors, &req->facts);
    }
    outcome = emulate(req, &cage->rules, &cage->borrowed);
    if (outcome == CALL_DONE && req->refused == REFUSED_CALL) note_refused_call(cage, &req->facts);
    if (outcome == CALL_DONE && req->refused == REFUSED_CONTROL) note_denial(cage, req->facts.call, &req->facts);
    return outcome;
}

/* Where it cannot wait, its socket stays where it is. */
static int dispatch_unlooked(struct notified_cage *cage, uint64_t id, struct emulated_call *req) {
    req->look = LOOKED_SHARED;
    return dispatch(cage, id, req, NULL);
}

int dispatch(struct notified_cage *cage, uint64_t id, struct emulated_call *req, struct pending_call *pending) {
    const enum call_outcome outcome = attempt(cage, req);
    if (outcome == CALL_DONE) {
        respond_emulated(cage, id, req);
        return 0;
    }
    if (outcome == CALL_CONTINUE) {
        respond_continue(cage, id);
        return 0;
    }
    if (!pending && new_pending(cage, id, req, &pending)) {
        if (outcome == CALL_LOOK) return dispatch_unlooked(cage, id, req);
        respond_value(cage, id, no_place(&req->facts));
        return 0;
    }
    switch (outcome) {
    case CALL_LOOK: pending->state = WAIT_LOOK; break;
    case CALL_WAIT_READY: pending->state = WAIT_SOCKET; break;
    case CALL_WAIT_LISTENER: await_python(cage, pending, PSB_EVENT_NOT_REPLACEABLE); break;
    default: pending->state = WAIT_RETRY;
    }
    return 1;
}

void resume_call(struct notified_cage *cage, struct pending_call **place) {
    struct pending_call *pending = *place;
    if (!still_waits(cage, pending->id) || !dispatch(cage, pending->id, &pending->req, pending))
        drop_pending(cage, place);
}
