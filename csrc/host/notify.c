/* START HERE for run-time decisions: the loop that receives a cage's calls and answers them from tables.
 *
 * Each cage has a thread that runs `serve`, and a mutex (notifier.h); other threads answer what Python decided. The
 * mutex is taken here alone, and nothing that is done under it waits for anybody but the cage itself; what could wait
 * for longer, a close, is done without it (borrowed.h). A call that cannot be answered yet is a ticket (tickets.c): it
 * waits for Python (until its deadline), or for a socket (for as long as its caller lives). */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "answers.h"
#include "behalf.h"
#include "bell.h"
#include "direct.h"
#include "guests.h"
#include "image.h"
#include "notifier.h"
#include "notify.h"
#include "program.h"
#include "tickets.h"
#include "verdict.h"

#define TICK_MS 50       /* how often the callers of waiting calls are looked after */
#define MOST_YIELDS 1000 /* to a thread that wants the mutex */

/* struct seccomp_notif of a newer kernel may be longer than ours. */
union notification {
    struct seccomp_notif call;
    uint8_t room[256];
};

/* ---- the mutex --------------------------------------------------------------------------------------------------- */

/* For every thread but the loop: which lets it have the mutex then, however many calls come in. */
static void visit(struct guest *guest) {
    __atomic_add_fetch(&guest->visitors, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&guest->lock);
    __atomic_sub_fetch(&guest->visitors, 1, __ATOMIC_SEQ_CST);
}

static void leave(struct guest *guest) {
    pthread_mutex_unlock(&guest->lock);
    release_guest(guest);
}

/* NULL, or with its mutex held and one user more. */
static struct guest *visit_number(struct psb_notifier *notifier, uint32_t number) {
    struct guest *guest = find_guest(notifier, number);
    if (!guest) return NULL;
    visit(guest);
    if (!guest->gone) return guest;
    leave(guest);
    return NULL;
}

static void make_way(const struct guest *guest) {
    int i;
    for (i = 0; i < MOST_YIELDS && __atomic_load_n(&guest->visitors, __ATOMIC_SEQ_CST); i++) sched_yield();
}

/* ---- telling Python ---------------------------------------------------------------------------------------------- */

static void note_denial(struct guest *guest, uint32_t call, const struct deed *deed) {
    struct psb_told told;
    if (!count_refusal(&guest->refusals, call, deed)) return;
    describe(&told, PSB_TOLD_REFUSED, guest->number, call, deed);
    tell(guest, &told);
}

/* ---- doing it on behalf ------------------------------------------------------------------------------------------ */

static void await_python(struct guest *guest, struct ticket *ticket, enum psb_told_kind kind) {
    struct psb_told told;
    ticket->state = TICKET_PYTHON;
    ticket->deadline_ms = now_ms() + guest->rules.deadline_ms;
    describe(&told, kind, guest->number, ticket->deed.call, &ticket->deed);
    told.ticket = ticket->number;
    tell(guest, &told);
}

/* The list may have become shorter since the call was decided, or began to wait. */
static int may_go_on(const struct guest *guest, struct deed *deed) {
    if (!is_inet(deed) || deed->connecting || deed->fresh) return 1;
    look_up_name(&guest->names, &guest->rules, deed);
    return way_of(deed, &guest->rules) != 0;
}

/* What a call fails with that would have to wait, and has no place to: as if the kernel had none. */
static int no_place(const struct deed *deed) {
    return deed->call == PSB_CALL_SENDTO || deed->call == PSB_CALL_SENDMSG ? -ENOBUFS : -EAGAIN;
}

static enum deed_outcome try(struct guest *guest, struct deed *deed) {
    enum deed_outcome outcome = DEED_DONE;
    if (may_go_on(guest, deed))
        outcome = carry_out(deed, &guest->rules, &guest->borrowed);
    else
        refuse(deed);
    if (outcome == DEED_DONE && deed->refused) note_denial(guest, deed->call, deed);
    return outcome;
}

/* Goes on with a deed; when it is done the caller has its answer. 0: it is over; 1: it waits, as a ticket. */
static int act(struct guest *guest, uint64_t id, struct deed *deed, struct ticket *ticket) {
    const enum deed_outcome outcome = try(guest, deed);
    if (outcome == DEED_DONE) {
        finish(guest, id, deed);
        return 0;
    }
    if (outcome == DEED_PASS) {
        pass(guest, id);
        return 0;
    }
    if (!ticket && new_ticket(guest, id, deed, &ticket)) {
        give(guest, id, no_place(deed));
        return 0;
    }
    switch (outcome) {
    case DEED_WAIT_READY: ticket->state = TICKET_SOCKET; break;
    case DEED_WAIT_CARRIER: await_python(guest, ticket, PSB_TOLD_STRANDED); break;
    default: ticket->state = TICKET_LATER;
    }
    return 1;
}

static void take_up(struct guest *guest, struct ticket **place) {
    struct ticket *ticket = *place;
    if (!still_waits(guest, ticket->id) || !act(guest, ticket->id, &ticket->deed, ticket)) drop_ticket(guest, place);
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

static uint32_t class_of(int number) {
    switch (number) {
    case SYS_connect: return PSB_CALL_CONNECT;
    case SYS_bind: return PSB_CALL_BIND;
    case SYS_listen: return PSB_CALL_LISTEN;
    case SYS_sendto: return PSB_CALL_SENDTO;
    case SYS_sendmsg:
    case SYS_sendmmsg: return PSB_CALL_SENDMSG;
    case SYS_execve:
    case SYS_execveat: return PSB_CALL_EXEC;
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
#endif
    case SYS_openat: return PSB_CALL_OPEN;
    default: return PSB_CALL_OTHER;
    }
}

static int is_network(uint32_t call) {
    static const uint8_t NETWORK[PSB_CALL_CLASSES] = {
        [PSB_CALL_CONNECT] = 1, [PSB_CALL_BIND] = 1,    [PSB_CALL_LISTEN] = 1,
        [PSB_CALL_SENDTO] = 1,  [PSB_CALL_SENDMSG] = 1,
    };
    return NETWORK[call];
}

/* Everything that the decision rests on, read once; then the caller must still be waiting. */
static int read_call(struct guest *guest, uint64_t id, struct deed *deed) {
    const int network = is_network(deed->call);
    int result = 0;
    if (network) result = take_socket(deed, &guest->borrowed);
    if (!result && network) result = read_address(deed);
    if (!result && guest->rules.network && is_inet(deed)) deed->foreign = is_of_host(deed->socket, &guest->rules);
    if (!result && network && is_inet(deed)) look_home(deed, &guest->rules);
    if (!still_waits(guest, id)) return -ENOENT;
    return result == -ESRCH ? -EPERM : result;
}

static void ask_python(struct guest *guest, uint64_t id, struct deed *deed) {
    struct ticket *ticket;
    if (new_ticket(guest, id, deed, &ticket)) {
        give(guest, id, no_place(deed));
        return;
    }
    deed->socket = -1; /* the ticket's now */
    await_python(guest, ticket, PSB_TOLD_ASKED);
}

static void pass_and_tell(struct guest *guest, uint64_t id, uint32_t call, struct deed *deed) {
    struct psb_told told;
    int64_t size;
    if (call == PSB_CALL_OTHER) { /* noted by is_refused */
        pass(guest, id);
        return;
    }
    describe(&told, PSB_TOLD_PASSED, guest->number, call, deed);
    size = find_program(deed, told.text, sizeof told.text, &told.asked);
    if (size == -EAGAIN) {
        ask_python(guest, id, deed);
        return;
    }
    told.text_size = (uint32_t)size;
    told.text[size] = 0;
    if (!pass(guest, id) && size) tell(guest, &told);
}

/* The address decides what may be done with an IP socket; other families are the concern of `sealed`. The list holds in
 * monitor mode too: nothing there opens the network. */
static void decide_by_list(struct guest *guest, uint64_t id, struct deed *deed) {
    if (act(guest, id, deed, NULL)) deed->socket = -1; /* the ticket's now */
}

/* Python decides about addresses that it can hold against a list; a question to the kernel has none, and the unix
 * sockets of the host are known by their files, of which only C has hold. */
static int is_for_python(const struct guest *guest, const struct deed *deed) {
    if (guest->rules.action[deed->call] != PSB_ACTION_ASK) return 0;
    if (guest->rules.on_host && is_network(deed->call) && !is_inet(deed)) return 0;
    return !is_network(deed->call) || is_inet(deed) || !(guest->rules.sealed || deed->domain == AF_NETLINK);
}

/* What the filter itself would have refused: noted, and let pass where monitor may. 1: the caller has its answer. */
static int is_refused(struct guest *guest, uint64_t id, const struct deed *deed, const struct seccomp_data *data) {
    const int of_init = deed->tid == guest->rules.init_pid;
    int number = EPERM;
    enum verdict verdict = deed->call == PSB_CALL_OTHER ? VERDICT_NEVER : VERDICT_ALLOWED;
    if (guest->rules.verdicts_size) verdict = verdict_of(&guest->rules, data, &number);
    if (verdict == VERDICT_REFUSED && !of_init) note_denial(guest, PSB_CALL_OTHER, deed);
    if (verdict == VERDICT_REFUSED && guest->rules.action[deed->call] == PSB_ACTION_REFUSE) {
        pass(guest, id); /* no rule of its class: nobody else has asked to hear of it */
        return 1;
    }
    if (verdict != VERDICT_NEVER) return 0;
    if (!of_init) note_denial(guest, PSB_CALL_NEVER, deed);
    give(guest, id, -number);
    return 1;
}

static void decide(struct guest *guest, uint64_t id, struct deed *deed) {
    const uint32_t action = guest->rules.action[deed->call];
    const int network = is_network(deed->call);
    int result;
    if (action == PSB_ACTION_PASS || deed->tid == guest->rules.init_pid) {
        pass(guest, id);
        return;
    }
    if (action == PSB_ACTION_TELL) {
        pass_and_tell(guest, id, deed->call, deed);
        return;
    }
    result = read_call(guest, id, deed);
    if (result)
        give(guest, id, result);
    else if (is_for_python(guest, deed))
        ask_python(guest, id, deed);
    else if (network && (action == PSB_ACTION_ASK || action == PSB_ACTION_LIST))
        decide_by_list(guest, id, deed);
    else
        give(guest, id, -EPERM); /* a table holds no rule for it */
    end_deed(deed, &guest->borrowed);
}

static int receive_call(struct guest *guest) {
    union notification in;
    struct deed deed = {.socket = -1};
    memset(&in, 0, sizeof in);
    if (ioctl(guest->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0) return -errno;
    deed.tid = (int)in.call.pid;
    deed.number = in.call.data.nr;
    deed.call = class_of(deed.number);
    memcpy(deed.args, in.call.data.args, sizeof deed.args);
    if (!is_refused(guest, in.call.id, &deed, &in.call.data)) decide(guest, in.call.id, &deed);
    return 0;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* What it waits for: the bell, the listener, and the sockets of its tickets, which are named by their numbers. No
 * descriptor in here is closed meanwhile: only the loop itself closes what was given back. */
struct awaited {
    nfds_t count;
    struct pollfd fds[2 + MOST_TICKETS];
    uint64_t tickets[2 + MOST_TICKETS];
};

/* What was told before comes first: a cage that calls faster than Python hears is held up itself, and nothing that it
 * was refused goes uncounted. */
static int receives(const struct guest *guest) {
    return !guest->deserted && !__atomic_load_n(&guest->untold, __ATOMIC_SEQ_CST);
}

static void list_awaited(const struct guest *guest, struct awaited *awaited) {
    const struct ticket *ticket;
    awaited->fds[0] = (struct pollfd){guest->wake, POLLIN, 0};
    awaited->fds[1] = (struct pollfd){receives(guest) ? guest->listener : -1, POLLIN, 0};
    awaited->count = 2;
    for (ticket = guest->tickets; ticket; ticket = ticket->next) {
        if (ticket->state != TICKET_SOCKET) continue;
        awaited->fds[awaited->count] = (struct pollfd){ticket->deed.socket, POLLOUT, 0};
        awaited->tickets[awaited->count++] = ticket->number;
    }
}

static void refuse_late(struct guest *guest, struct ticket **place) {
    const struct ticket *ticket = *place;
    struct psb_told told;
    if (!give(guest, ticket->id, -EPERM)) {
        describe(&told, PSB_TOLD_LATE, guest->number, ticket->deed.call, &ticket->deed);
        told.ticket = ticket->number;
        tell(guest, &told);
    }
    drop_ticket(guest, place);
}

/* Deadlines, callers that died, and what has to be tried again: now and then, for each look asks the kernel. */
static void look_after_tickets(struct guest *guest) {
    struct ticket **place = &guest->tickets;
    const uint64_t now = now_ms();
    if (now < guest->next_look_ms) return;
    guest->next_look_ms = now + TICK_MS;
    while (*place) {
        struct ticket *ticket = *place;
        if (!still_waits(guest, ticket->id))
            drop_ticket(guest, place);
        else if (ticket->state == TICKET_PYTHON && now >= ticket->deadline_ms)
            refuse_late(guest, place);
        else if (ticket->state == TICKET_LATER || (ticket->deed.give_up_ms && now >= ticket->deed.give_up_ms))
            take_up(guest, place);
        if (*place == ticket) place = &ticket->next;
    }
}

static void hear(struct guest *guest, const struct awaited *awaited) {
    nfds_t i;
    if (awaited->fds[0].revents) silence(guest->wake);
    for (i = 2; i < awaited->count; i++) {
        struct ticket **place = awaited->fds[i].revents ? find_ticket(guest, awaited->tickets[i]) : NULL;
        if (place && *place && (*place)->state == TICKET_SOCKET) take_up(guest, place);
    }
    if (awaited->fds[1].revents & POLLIN)
        receive_call(guest);
    else if (awaited->fds[1].revents)
        guest->deserted = 1;
}

/* One turn: without the mutex it closes, lets others in and waits; with it, it answers what has come. 0 or -errno. */
static int take_turn(struct guest *guest, struct awaited *awaited) {
    struct place *returned;
    int ready, result;
    list_awaited(guest, awaited);
    ready = guest->tickets ? TICK_MS : -1;
    returned = take_returned(&guest->borrowed);
    pthread_mutex_unlock(&guest->lock);
    close_all(returned);
    make_way(guest);
    ready = poll(awaited->fds, awaited->count, ready);
    result = ready < 0 && errno != EINTR ? -errno : 0;
    pthread_mutex_lock(&guest->lock);
    if (guest->gone) return 0;
    if (ready > 0) hear(guest, awaited);
    if (guest->tickets) look_after_tickets(guest);
    return result;
}

static void *serve(void *argument) {
    struct guest *guest = argument;
    struct awaited *awaited = malloc(sizeof *awaited);
    int listener, result = awaited ? 0 : -ENOMEM;
    pthread_mutex_lock(&guest->lock);
    while (!guest->gone && !result) result = take_turn(guest, awaited);
    listener = guest->listener;
    guest->listener = -1;
    guest->gone = 1;
    pthread_mutex_unlock(&guest->lock);
    free(awaited);
    close_own(listener); /* what still waits fails with ENOSYS */
    forget_borrowed(&guest->borrowed);
    leave_guest(guest, result);
    return NULL;
}

int psb_notifier_run(struct psb_notifier *notifier) {
    int result;
    pthread_mutex_lock(&notifier->lock);
    while (!notifier->stopping && !notifier->failure) pthread_cond_wait(&notifier->change, &notifier->lock);
    result = notifier->failure;
    pthread_mutex_unlock(&notifier->lock);
    return result;
}

/* ---- what other threads call ------------------------------------------------------------------------------------- */

struct psb_notifier *psb_notifier_new(void) {
    return new_notifier();
}

void psb_notifier_stop(struct psb_notifier *notifier) {
    pthread_mutex_lock(&notifier->lock);
    notifier->stopping = 1;
    pthread_cond_broadcast(&notifier->something);
    pthread_cond_broadcast(&notifier->change);
    pthread_mutex_unlock(&notifier->lock);
}

void psb_notifier_free(struct psb_notifier *notifier) {
    while (notifier->guests) psb_notifier_remove(notifier, notifier->guests->number);
    release_notifier(notifier);
}

int64_t psb_notifier_add(struct psb_notifier *notifier, int listener, const struct psb_rules *rules) {
    int result;
    struct guest *guest = new_guest(notifier, listener, rules, &result);
    return guest ? enter_guest(guest, serve) : result;
}

/* Nobody finds a socket that is still here, so a connect that is to leave the cage's network starts anew. */
static void abort_fresh(struct guest *guest) {
    struct ticket **place = &guest->tickets;
    while (*place)
        if ((*place)->deed.fresh) {
            give(guest, (*place)->id, -ECONNABORTED);
            drop_ticket(guest, place);
        } else {
            place = &(*place)->next;
        }
}

int psb_notifier_rule(struct psb_notifier *notifier, uint32_t cage, const struct psb_rules *rules) {
    struct psb_rules copy, before;
    struct guest *guest;
    const int result = copy_rules(&copy, rules);
    if (result) return result;
    guest = visit_number(notifier, cage);
    before = copy;
    if (guest) {
        before = guest->rules;
        guest->rules = copy;
        abort_fresh(guest);
        ring(guest->wake);
        leave(guest);
    }
    free_rules(&before);
    return guest ? 0 : -ENOENT;
}

int psb_grant_address(struct psb_notifier *notifier, uint32_t cage, const uint8_t *synthetic, const uint8_t *real,
                      uint16_t first_port, uint16_t last_port, uint64_t milliseconds) {
    const uint64_t until_ms = now_ms() + milliseconds;
    struct guest *guest = visit_number(notifier, cage);
    int result;
    if (!guest) return -ENOENT;
    result = remember_name(&guest->names, synthetic, real, first_port, last_port, until_ms);
    leave(guest);
    return result;
}

int psb_notifier_remove(struct psb_notifier *notifier, uint32_t cage) {
    struct guest *guest = take_guest(notifier, cage);
    if (!guest) return -ENOENT;
    visit(guest);
    guest->gone = 1;
    while (guest->tickets) drop_ticket(guest, &guest->tickets);
    ring(guest->wake);
    pthread_mutex_unlock(&guest->lock);
    await_end(guest);
    return 0;
}

int psb_denials(struct psb_notifier *notifier, uint32_t cage, struct psb_denial *denials, size_t room, uint64_t *lost) {
    struct guest *guest = visit_number(notifier, cage);
    int count;
    if (!guest) return -ENOENT;
    count = copy_refusals(&guest->refusals, denials, room, lost);
    leave(guest);
    return count;
}

int64_t psb_last_told(struct psb_notifier *notifier, uint32_t cage) {
    struct guest *guest = visit_number(notifier, cage);
    int64_t last;
    if (!guest) return -ENOENT;
    pthread_mutex_lock(&notifier->lock);
    last = (int64_t)guest->tellings.serial;
    pthread_mutex_unlock(&notifier->lock);
    leave(guest);
    return last;
}

int psb_notifier_next(struct psb_notifier *notifier, struct psb_told *told) {
    return next_telling(notifier, told);
}

/* With its mutex held, where a call waits for Python; NULL where none of this number does. */
static struct guest *visit_ticket(struct psb_notifier *notifier, uint64_t number, struct ticket ***place) {
    struct guest *guest = visit_number(notifier, guest_of(number));
    if (!guest) return NULL;
    *place = find_ticket(guest, number);
    if (**place && (**place)->state == TICKET_PYTHON) return guest;
    leave(guest);
    return NULL;
}

static int answer(struct guest *guest, struct ticket **place, int kind, int64_t value, uint32_t flags) {
    struct ticket *ticket = *place;
    int result = -ENOENT;
    if (!still_waits(guest, ticket->id)) {
        drop_ticket(guest, place);
        return result;
    }
    switch (kind) {
    case PSB_ANSWER_ERRNO: result = give(guest, ticket->id, -value); break;
    case PSB_ANSWER_RETURN: result = give(guest, ticket->id, value); break;
    case PSB_ANSWER_PASS:
        if (guest->rules.action[ticket->deed.call] != PSB_ACTION_TELL) return -EINVAL;
        result = pass(guest, ticket->id);
        break;
    case PSB_ANSWER_INJECT: result = inject(guest, ticket->id, (int)value, flags); break;
    case PSB_ANSWER_CARRIED:
    case PSB_ANSWER_BEHALF:
        if (!is_network(ticket->deed.call)) return -EINVAL;
        ticket->deed.carried |= kind == PSB_ANSWER_CARRIED;
        if (act(guest, ticket->id, &ticket->deed, ticket)) return 0;
        result = 0;
        break;
    default: return -EINVAL;
    }
    if (!result || result == -ENOENT) drop_ticket(guest, place);
    return result;
}

int psb_answer(struct psb_notifier *notifier, uint64_t number, int kind, int64_t value, uint32_t flags) {
    struct ticket **place;
    struct guest *guest = visit_ticket(notifier, number, &place);
    struct place *returned;
    int result;
    if (!guest) return -ENOENT;
    result = answer(guest, place, kind, value, flags);
    returned = take_returned(&guest->borrowed);
    ring(guest->wake); /* there may be something to wait for */
    leave(guest);
    close_all(returned); /* by this thread, at once: a port that the caller lets go of is free for its next bind */
    return result;
}

/* Takes a call out of reach of deadlines and other answers, with a listener that outlives the cage's removal. */
static int take_exec(struct psb_notifier *notifier, uint64_t number, struct ticket *taken, struct guest *alone) {
    struct ticket **place;
    struct guest *guest = visit_ticket(notifier, number, &place);
    alone->listener = -1;
    if (!guest) return -ENOENT;
    if ((*place)->deed.call == PSB_CALL_EXEC) {
        *taken = **place;
        alone->listener = fcntl(guest->listener, F_DUPFD_CLOEXEC, 0);
        alone->rules.init_pid = guest->rules.init_pid;
        drop_ticket(guest, place);
    }
    leave(guest);
    return alone->listener < 0 ? -ENOENT : 0;
}

int psb_answer_exec(struct psb_notifier *notifier, uint64_t number, const char *expected, size_t size,
                    const struct psb_image *image) {
    struct guest alone = {.listener = -1};
    struct ticket ticket;
    int result = take_exec(notifier, number, &ticket, &alone);
    if (result) return result;
    result = is_init(ticket.deed.tid, alone.rules.init_pid)
                 ? pass(&alone, ticket.id)
                 : pass_exec(&alone, ticket.id, &ticket.deed, expected, size, image);
    close_own(alone.listener);
    return result;
}

int psb_waits(struct psb_notifier *notifier, uint64_t number) {
    struct ticket **place;
    struct guest *guest = visit_ticket(notifier, number, &place);
    if (guest) leave(guest);
    return guest != NULL;
}
