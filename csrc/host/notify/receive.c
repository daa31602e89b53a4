/* START HERE for a run-time decision: from a call that the kernel hands over to its answer.
 *
 * What the filter itself would refuse is refused first (verdict.h). Then the action of the call's class says who
 * decides: nobody (the kernel goes on), the list (dispatch.h), or Python, for whom the call waits (pending_calls.h). */
#include "receive.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "../emulate/emulate.h"
#include "answers.h"
#include "cages.h"
#include "call_class.h"
#include "dispatch.h"
#include "path_calls.h"
#include "paths.h"
#include "pending_calls.h"
#include "program.h"
#include "verdict.h"

/* struct seccomp_notif of a newer kernel may be longer than ours. */
union notification {
    struct seccomp_notif call;
    uint8_t room[256];
};

/* Everything that the decision rests on, read once; then the caller must still be waiting. 0 or -errno. */
static int read_call(struct notified_cage *cage, uint64_t id, const struct call_facts *received,
                     struct call_facts *facts, int *socket) {
    int result = 0;
    if (is_network(received->call)) result = find_facts(received, &cage->rules, &cage->borrowed, facts, socket);
    if (!still_waits(cage, id)) result = -ENOENT;
    if (result && *socket >= 0) give_back(&cage->borrowed, *socket);
    return result == -ESRCH ? -EPERM : result;
}

static void ask_python(struct notified_cage *cage, uint64_t id, struct emulated_call *req) {
    struct pending_call *pending;
    if (new_pending(cage, id, req, &pending)) {
        if (is_only_watched(cage, req->facts.call))
            respond_continue(cage, id);
        else
            respond_value(cage, id, no_place(&req->facts));
        return;
    }
    req->socket = -1; /* the pending call's now */
    await_python(cage, pending, PSB_EVENT_ASKED);
}

static void pass_and_tell(struct notified_cage *cage, uint64_t id, const struct call_facts *facts) {
    struct emulated_call req = {.facts = *facts, .socket = -1};
    struct psb_event event;
    int64_t size;
    if (facts->call == PSB_CALL_OTHER || is_only_watched(cage, facts->call)) { /* noted before */
        respond_continue(cage, id);
        return;
    }
    fill_event(&event, PSB_EVENT_PASSED, cage->number, facts->call, facts);
    size = find_program(facts, event.text, sizeof event.text, &event.asked);
    if (size == -EAGAIN) {
        ask_python(cage, id, &req);
        return;
    }
    event.text_size = (uint32_t)size;
    event.text[size] = 0;
    if (!respond_continue(cage, id) && size) post_event(cage, &event);
}

/* The address decides what may be done with an IP socket; other families are the concern of `no_external_reach`. The
 * list holds in monitor mode too: nothing there opens the network. */
static void decide_by_list(struct notified_cage *cage, uint64_t id, struct emulated_call *req) {
    if (dispatch(cage, id, req, NULL)) req->socket = -1; /* the pending call's now */
}

/* Python decides about addresses that it can hold against a list; a question to the kernel has none, and the unix
 * sockets of the host are known by their files, of which only C has hold. */
static int is_for_python(const struct notified_cage *cage, const struct call_facts *facts) {
    if (cage->rules.action[facts->call] != PSB_ACTION_ASK) return 0;
    if (cage->rules.on_host && is_network(facts->call) && !is_inet(facts)) return 0;
    return !is_network(facts->call) || is_inet(facts) ||
           !(cage->rules.no_external_reach || facts->domain == AF_NETLINK);
}

/* What the filter itself would have refused: noted, and let pass where monitor may. 1: the caller has its answer. */
static int is_refused(struct notified_cage *cage, uint64_t id, const struct call_facts *facts,
                      const struct seccomp_data *data) {
    const int of_init = facts->caller.tid == cage->rules.init_pid;
    int number = EPERM;
    enum verdict verdict = facts->call == PSB_CALL_OTHER ? VERDICT_NEVER : VERDICT_ALLOWED;
    if (cage->rules.verdicts_size) verdict = verdict_of(&cage->rules, data, &number);
    if (verdict == VERDICT_REFUSED && !of_init) note_denial(cage, PSB_CALL_OTHER, facts);
    if (verdict == VERDICT_REFUSED && number) {
        respond_value(cage, id, -number);
        return 1;
    }
    if (verdict == VERDICT_REFUSED && cage->rules.action[facts->call] == PSB_ACTION_REFUSE) {
        respond_continue(cage, id); /* no rule of its class: nobody else has asked to hear of it */
        return 1;
    }
    if (verdict != VERDICT_NEVER) return 0;
    if (!of_init) note_denial(cage, PSB_CALL_NEVER, facts);
    respond_value(cage, id, -number);
    return 1;
}

static void decide_on_facts(struct notified_cage *cage, uint64_t id, const struct call_facts *facts, int socket) {
    const uint32_t action = cage->rules.action[facts->call];
    struct emulated_call req = {.facts = *facts, .socket = socket};
    if (is_for_python(cage, facts))
        ask_python(cage, id, &req);
    else if (is_network(facts->call) && (action == PSB_ACTION_ASK || action == PSB_ACTION_LIST))
        decide_by_list(cage, id, &req);
    else
        respond_value(cage, id, -EPERM); /* a table holds no rule for it */
    end_emulated_call(&req, &cage->borrowed);
}

static void note_path(struct notified_cage *cage, const struct call_facts *facts, const struct psb_look *look) {
    struct psb_event event;
    int first;
    const uint64_t key = count_path(&cage->paths, look, session_of(&facts->caller), &first);
    if (!first) return;
    fill_event(&event, PSB_EVENT_MISSED, cage->number, facts->call, facts);
    event.asked = key;
    event.wanted = look->wanted;
    event.refusal = look->number;
    event.directory = look->directory;
    event.text_size = (uint32_t)strlen(look->path);
    memcpy(event.text, look->path, event.text_size + 1);
    post_event(cage, &event);
}

/* Watches, and changes nothing: whatever is found, the call goes on as it would. Whether that has to wait for Python,
 * to look where the loop may not. */
static int note_paths(struct notified_cage *cage, uint64_t id, const struct call_facts *facts) {
    struct psb_look looks[PSB_LOOKS];
    int i, count;
    if (!cage->rules.watches_paths || !names_paths(facts->number)) return 0;
    count = look_at_paths(facts, (int)cage->rules.on_host, 1, looks);
    if (count > 0 && !still_waits(cage, id)) return 0; /* what was read may be of whoever has its number now */
    for (i = 0; i < count; i++) note_path(cage, facts, &looks[i]);
    return count == -EAGAIN && is_only_watched(cage, facts->call);
}

/* What is no directory, the kernel renames. Whoever changes the path meanwhile gets what the kernel says. */
static int is_for_move(const struct notified_cage *cage, const struct call_facts *facts) {
    return cage->rules.moves && facts->call == PSB_CALL_RENAME && moves_directory(facts);
}

static void decide(struct notified_cage *cage, uint64_t id, const struct call_facts *received) {
    const uint32_t action = cage->rules.action[received->call];
    struct call_facts facts = *received;
    int result, socket = -1;
    if (received->caller.tid != cage->rules.init_pid &&
        (note_paths(cage, id, received) || is_for_move(cage, received))) {
        struct emulated_call req = {.facts = *received, .socket = -1};
        ask_python(cage, id, &req);
        return;
    }
    if (action == PSB_ACTION_PASS || received->caller.tid == cage->rules.init_pid) {
        respond_continue(cage, id);
        return;
    }
    if (action == PSB_ACTION_TELL) {
        pass_and_tell(cage, id, received);
        return;
    }
    result = read_call(cage, id, received, &facts, &socket);
    if (result)
        respond_value(cage, id, result);
    else
        decide_on_facts(cage, id, &facts, socket);
}

static struct call_facts facts_of(const struct notified_cage *cage, const struct seccomp_notif *call) {
    struct call_facts received = {.caller = {.tid = (int)call->pid, .listener = cage->listener, .id = call->id},
                                  .number = call->data.nr,
                                  .call = class_of(call->data.nr)};
    memcpy(received.args, call->data.args, sizeof received.args);
    return received;
}

int receive_call(struct notified_cage *cage) {
    union notification in;
    struct call_facts received;
    memset(&in, 0, sizeof in);
    if (ioctl(cage->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0) return -errno;
    received = facts_of(cage, &in.call);
    if (received.call == PSB_CALL_RENAME && !cage->rules.moves) received.call = PSB_CALL_PATH;
    if (!is_refused(cage, in.call.id, &received, &in.call.data)) decide(cage, in.call.id, &received);
    return 0;
}
