/* START HERE for run-time decisions: the loop that receives calls and answers them from tables.
 *
 * One thread runs psb_notifier_run for all cages of a supervisor; others answer what Python decided. One mutex guards
 * everything (notifier.h), is taken here alone, and nothing that is done under it blocks. A call that cannot be
 * answered yet is a ticket (tickets.c): it waits for Python (until its deadline), or for a socket (for as long as its
 * caller lives). */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "answers.h"
#include "behalf.h"
#include "bell.h"
#include "direct.h"
#include "image.h"
#include "notifier.h"
#include "notify.h"
#include "tickets.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, uint64_t)
#endif
#define SYNC_WAKE_UP 1ULL

#define TICK_MS 50 /* how often the callers of waiting calls are looked after */
#define WAKE_TAG (1ULL << 63)

/* struct seccomp_notif of a newer kernel may be longer than ours. */
union notification {
    struct seccomp_notif call;
    uint8_t room[256];
};

/* ---- telling Python ---------------------------------------------------------------------------------------------- */

static void tell(struct psb_notifier *notifier, const struct psb_told *told) {
    if (queue_telling(&notifier->tellings, told)) pthread_cond_signal(&notifier->something);
}

static void note_denial(struct psb_notifier *notifier, struct guest *guest, uint32_t call, const struct deed *deed) {
    struct psb_told told;
    if (!count_refusal(&guest->refusals, call, deed)) return;
    describe(&told, PSB_TOLD_REFUSED, guest->number, call, deed);
    tell(notifier, &told);
}

/* ---- guests ------------------------------------------------------------------------------------------------------ */

static struct guest *find_guest(struct psb_notifier *notifier, uint32_t number) {
    struct guest *guest = notifier->guests;
    while (guest && guest->number != number) guest = guest->next;
    return guest;
}

static void poke(const struct psb_notifier *notifier) {
    ring(notifier->wake);
}

/* ---- doing it on behalf -------------------------------------------------------------------------------------------
 */

static void await_python(struct psb_notifier *notifier, const struct guest *guest, struct ticket *ticket,
                         enum psb_told_kind kind) {
    struct psb_told told;
    ticket->state = TICKET_PYTHON;
    ticket->deadline_ms = now_ms() + guest->rules.deadline_ms;
    describe(&told, kind, guest->number, ticket->call, &ticket->deed);
    told.ticket = ticket->number;
    tell(notifier, &told);
}

/* The list may have become shorter since the call was decided, or began to wait. */
static int may_go_on(const struct guest *guest, struct deed *deed) {
    if (!is_inet(deed) || deed->connecting || deed->fresh) return 1;
    look_up_name(&guest->names, &guest->rules, deed);
    return way_of(deed, &guest->rules) != 0;
}

/* Goes on with a deed; when it is done the caller has its answer. 0: it is over; 1: it waits, as a ticket. */
static int act(struct psb_notifier *notifier, struct guest *guest, uint64_t id, struct deed *deed,
               struct ticket *ticket, uint32_t call) {
    enum deed_outcome outcome = DEED_DONE;
    if (may_go_on(guest, deed)) {
        outcome = carry_out(deed, &guest->rules, &notifier->pidfds);
    } else {
        note_denial(notifier, guest, call, deed);
        deed->value = -EPERM;
    }
    if (outcome == DEED_DONE) {
        if (deed->refused_control) note_denial(notifier, guest, call, deed);
        finish(guest, id, deed);
        return 0;
    }
    if (outcome == DEED_PASS) {
        pass(guest, id);
        return 0;
    }
    if (!ticket) ticket = new_ticket(notifier, guest, id, call, deed);
    if (!ticket) {
        give(guest, id, -ENOMEM);
        return 0;
    }
    switch (outcome) {
    case DEED_WAIT_READY: await_socket(notifier, ticket); break;
    case DEED_WAIT_CARRIER: await_python(notifier, guest, ticket, PSB_TOLD_STRANDED); break;
    default: ticket->state = TICKET_LATER;
    }
    return 1;
}

static void take_up(struct psb_notifier *notifier, struct ticket **place) {
    struct ticket *ticket = *place;
    struct guest *guest = find_guest(notifier, ticket->guest);
    if (!guest || !still_waits(guest, ticket->id) ||
        !act(notifier, guest, ticket->id, &ticket->deed, ticket, ticket->call))
        drop_ticket(notifier, place);
}

/* ---- one call -----------------------------------------------------------------------------------------------------
 */

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
    return call <= PSB_CALL_SENDMSG;
}

/* Everything that the decision rests on, read once; then the caller must still be waiting. */
static int read_call(struct psb_notifier *notifier, const struct guest *guest, uint64_t id, uint32_t call,
                     struct deed *deed) {
    int result = 0;
    if (is_network(call)) result = take_socket(deed, &notifier->pidfds);
    if (!result && is_network(call)) result = read_address(deed);
    if (!result && guest->rules.network && is_inet(deed)) deed->foreign = is_of_host(deed->socket, &guest->rules);
    if (!result && is_network(call) && is_inet(deed)) look_home(deed, &guest->rules);
    if (!still_waits(guest, id)) return -ENOENT;
    return result == -ESRCH ? -EPERM : result;
}

static void ask_python(struct psb_notifier *notifier, const struct guest *guest, uint64_t id, uint32_t call,
                       struct deed *deed) {
    struct ticket *ticket = new_ticket(notifier, guest, id, call, deed);
    if (!ticket) {
        give(guest, id, -EPERM);
        return;
    }
    deed->socket = -1; /* the ticket's now */
    await_python(notifier, guest, ticket, PSB_TOLD_ASKED);
}

static void pass_and_tell(struct psb_notifier *notifier, struct guest *guest, uint64_t id, uint32_t call,
                          const struct deed *deed) {
    struct psb_told told;
    if (call == PSB_CALL_OTHER) {
        note_denial(notifier, guest, call, deed);
        pass(guest, id);
        return;
    }
    describe(&told, PSB_TOLD_PASSED, guest->number, call, deed);
    if (call == PSB_CALL_EXEC) {
        const int at = deed->number == SYS_execveat;
        const int64_t size = read_text(deed->tid, deed->args[at], told.text, sizeof told.text);
        told.text_size = size > 0 ? (uint32_t)size : 0;
        told.text[told.text_size] = 0;
    }
    pass(guest, id);
    tell(notifier, &told);
}

/* The address decides what may be done with an IP socket; other families are the concern of `sealed`. The list holds in
 * monitor mode too: nothing there opens the network. */
static void decide_by_list(struct psb_notifier *notifier, struct guest *guest, uint64_t id, uint32_t call,
                           struct deed *deed) {
    if (act(notifier, guest, id, deed, NULL, call)) deed->socket = -1; /* the ticket's now */
}

static void decide(struct psb_notifier *notifier, struct guest *guest, uint64_t id, uint32_t call, struct deed *deed) {
    const uint32_t action = guest->rules.action[call];
    int result;
    if (action == PSB_ACTION_PASS || deed->tid == guest->rules.init_pid) {
        pass(guest, id);
        return;
    }
    if (action == PSB_ACTION_TELL) {
        pass_and_tell(notifier, guest, id, call, deed);
        return;
    }
    result = read_call(notifier, guest, id, call, deed);
    if (result)
        give(guest, id, result);
    else if (action == PSB_ACTION_ASK && !(is_network(call) && !is_inet(deed) && guest->rules.sealed))
        ask_python(notifier, guest, id, call, deed);
    else if (is_network(call))
        decide_by_list(notifier, guest, id, call, deed);
    else
        give(guest, id, -EPERM); /* a table holds no rule for it */
    end_deed(deed);
}

static int receive_call(struct psb_notifier *notifier, struct guest *guest) {
    union notification in;
    struct deed deed = {.socket = -1};
    memset(&in, 0, sizeof in);
    if (ioctl(guest->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0) return -errno;
    deed.tid = (int)in.call.pid;
    deed.number = in.call.data.nr;
    memcpy(deed.args, in.call.data.args, sizeof deed.args);
    decide(notifier, guest, in.call.id, class_of(deed.number), &deed);
    return 0;
}

/* ---- the loop -----------------------------------------------------------------------------------------------------
 */

static void refuse_late(struct psb_notifier *notifier, struct ticket **place) {
    const struct ticket *ticket = *place;
    const struct guest *guest = find_guest(notifier, ticket->guest);
    struct psb_told told;
    if (guest && !give(guest, ticket->id, -EPERM)) {
        describe(&told, PSB_TOLD_LATE, guest->number, ticket->call, &ticket->deed);
        told.ticket = ticket->number;
        tell(notifier, &told);
    }
    drop_ticket(notifier, place);
}

/* Deadlines, callers that died, and what has to be tried again: now and then, for each look asks the kernel. */
static void look_after_tickets(struct psb_notifier *notifier) {
    struct ticket **place = &notifier->tickets;
    const uint64_t now = now_ms();
    if (now < notifier->next_look_ms) return;
    notifier->next_look_ms = now + TICK_MS;
    while (*place) {
        struct ticket *ticket = *place;
        const struct guest *guest = find_guest(notifier, ticket->guest);
        if (!guest || !still_waits(guest, ticket->id))
            drop_ticket(notifier, place);
        else if (ticket->state == TICKET_PYTHON && now >= ticket->deadline_ms)
            refuse_late(notifier, place);
        else if (ticket->state == TICKET_LATER || (ticket->deed.give_up_ms && now >= ticket->deed.give_up_ms))
            take_up(notifier, place);
        if (*place == ticket) place = &ticket->next;
    }
}

static void hear(struct psb_notifier *notifier, const struct epoll_event *event) {
    struct guest *guest;
    if (event->data.u64 & WAKE_TAG) {
        silence(notifier->wake);
    } else if (event->data.u64 & TICKET_TAG) {
        struct ticket **place = find_ticket(notifier, event->data.u64 & ~TICKET_TAG);
        if (*place && (*place)->state == TICKET_SOCKET) take_up(notifier, place);
    } else {
        guest = find_guest(notifier, (uint32_t)event->data.u64);
        if (!guest) return;
        if (event->events & EPOLLIN)
            receive_call(notifier, guest);
        else if (event->events & (EPOLLHUP | EPOLLERR)) /* nobody is left under the filter */
            epoll_ctl(notifier->epoll, EPOLL_CTL_DEL, guest->listener, NULL);
    }
}

int psb_notifier_run(struct psb_notifier *notifier) {
    struct epoll_event event;
    int stopping = 0, result = 0;
    while (!stopping && !result) {
        const int ready = epoll_wait(notifier->epoll, &event, 1, notifier->tickets ? TICK_MS : -1);
        if (ready < 0 && errno != EINTR) result = -errno;
        pthread_mutex_lock(&notifier->lock);
        if (ready > 0) hear(notifier, &event);
        if (notifier->tickets) look_after_tickets(notifier);
        stopping = notifier->stopping;
        pthread_mutex_unlock(&notifier->lock);
    }
    return result;
}

/* ---- what other threads call ---------------------------------------------------------------------------------------
 */

struct psb_notifier *psb_notifier_new(void) {
    struct psb_notifier *notifier = calloc(1, sizeof *notifier);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_TAG};
    if (!notifier) return NULL;
    notifier->epoll = epoll_create1(EPOLL_CLOEXEC);
    notifier->wake = new_bell();
    pthread_mutex_init(&notifier->lock, NULL);
    pthread_cond_init(&notifier->something, NULL);
    if (notifier->epoll >= 0 && notifier->wake >= 0 &&
        !epoll_ctl(notifier->epoll, EPOLL_CTL_ADD, notifier->wake, &event))
        return notifier;
    psb_notifier_free(notifier);
    return NULL;
}

void psb_notifier_stop(struct psb_notifier *notifier) {
    pthread_mutex_lock(&notifier->lock);
    notifier->stopping = 1;
    pthread_cond_broadcast(&notifier->something);
    pthread_mutex_unlock(&notifier->lock);
    poke(notifier);
}

static void free_guest(struct guest *guest) {
    close(guest->listener);
    free((void *)(uintptr_t)guest->rules.endpoints);
    forget_names(&guest->names);
    free(guest);
}

void psb_notifier_free(struct psb_notifier *notifier) {
    while (notifier->tickets) drop_ticket(notifier, &notifier->tickets);
    while (notifier->guests) {
        struct guest *guest = notifier->guests;
        notifier->guests = guest->next;
        free_guest(guest);
    }
    drop_tellings(&notifier->tellings);
    forget_pidfds(&notifier->pidfds);
    if (notifier->epoll >= 0) close(notifier->epoll);
    if (notifier->wake >= 0) close(notifier->wake);
    pthread_mutex_destroy(&notifier->lock);
    pthread_cond_destroy(&notifier->something);
    free(notifier);
}

static int copy_rules(struct psb_rules *to, const struct psb_rules *from) {
    struct psb_endpoint *endpoints = calloc(from->n_endpoints ? from->n_endpoints : 1, sizeof *endpoints);
    if (!endpoints) return -ENOMEM;
    if (from->n_endpoints) memcpy(endpoints, from->endpoints, from->n_endpoints * sizeof *endpoints);
    *to = *from;
    to->endpoints = endpoints;
    to->network = from->grants ? own_network() : 0;
    if (!from->grants || to->network) return 0;
    free(endpoints);
    return -ENOSYS;
}

int64_t psb_notifier_add(struct psb_notifier *notifier, int listener, const struct psb_rules *rules) {
    struct guest *guest = calloc(1, sizeof *guest);
    struct epoll_event event = {.events = EPOLLIN};
    int result = guest ? copy_rules(&guest->rules, rules) : -ENOMEM;
    if (result) {
        free(guest);
        close(listener);
        return result;
    }
    guest->listener = listener;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP); /* Linux 6.6; without it a wake-up is slower */
    pthread_mutex_lock(&notifier->lock);
    guest->number = ++notifier->last_guest;
    guest->next = notifier->guests;
    notifier->guests = guest;
    event.data.u64 = guest->number;
    result = epoll_ctl(notifier->epoll, EPOLL_CTL_ADD, listener, &event) < 0 ? -errno : 0;
    if (result) {
        notifier->guests = guest->next;
        free_guest(guest);
    }
    pthread_mutex_unlock(&notifier->lock);
    return result ? result : (int64_t)guest->number;
}

/* Nobody finds a socket that is still here, so a connect that is to leave the cage's network starts anew. */
static void abort_fresh(struct psb_notifier *notifier, const struct guest *guest) {
    struct ticket **place = &notifier->tickets;
    while (*place)
        if ((*place)->guest == guest->number && (*place)->deed.fresh) {
            give(guest, (*place)->id, -ECONNABORTED);
            drop_ticket(notifier, place);
        } else {
            place = &(*place)->next;
        }
}

int psb_notifier_rule(struct psb_notifier *notifier, uint32_t cage, const struct psb_rules *rules) {
    struct psb_rules copy;
    struct guest *guest;
    int result = copy_rules(&copy, rules);
    if (result) return result;
    pthread_mutex_lock(&notifier->lock);
    guest = find_guest(notifier, cage);
    if (guest) {
        struct psb_rules before = guest->rules;
        guest->rules = copy;
        copy = before;
        abort_fresh(notifier, guest);
    }
    pthread_mutex_unlock(&notifier->lock);
    free((void *)(uintptr_t)copy.endpoints);
    return guest ? 0 : -ENOENT;
}

int psb_grant_address(struct psb_notifier *notifier, uint32_t cage, const uint8_t *synthetic, const uint8_t *real,
                      uint16_t first_port, uint16_t last_port, uint64_t milliseconds) {
    const uint64_t until_ms = now_ms() + milliseconds;
    struct guest *guest;
    int result;
    pthread_mutex_lock(&notifier->lock);
    guest = find_guest(notifier, cage);
    result = guest ? remember_name(&guest->names, synthetic, real, first_port, last_port, until_ms) : -ENOENT;
    pthread_mutex_unlock(&notifier->lock);
    return result;
}

int psb_notifier_remove(struct psb_notifier *notifier, uint32_t cage) {
    struct guest **place;
    int result = -ENOENT;
    pthread_mutex_lock(&notifier->lock);
    for (place = &notifier->guests; *place && (*place)->number != cage;) place = &(*place)->next;
    if (*place) {
        struct guest *guest = *place;
        drop_tickets_of(notifier, cage);
        *place = guest->next;
        free_guest(guest); /* closing the listener takes it out of the epoll set */
        result = 0;
    }
    pthread_mutex_unlock(&notifier->lock);
    return result;
}

int psb_denials(struct psb_notifier *notifier, uint32_t cage, struct psb_denial *denials, size_t room, uint64_t *lost) {
    struct guest *guest;
    int count;
    pthread_mutex_lock(&notifier->lock);
    guest = find_guest(notifier, cage);
    count = guest ? copy_refusals(&guest->refusals, denials, room, lost) : -ENOENT;
    pthread_mutex_unlock(&notifier->lock);
    return count;
}

int psb_notifier_next(struct psb_notifier *notifier, struct psb_told *told) {
    struct telling *telling;
    pthread_mutex_lock(&notifier->lock);
    while (!notifier->tellings.first && !notifier->stopping) pthread_cond_wait(&notifier->something, &notifier->lock);
    telling = take_telling(&notifier->tellings);
    pthread_mutex_unlock(&notifier->lock);
    return telling ? hand_over(telling, told) : 0;
}

static int answer(struct psb_notifier *notifier, struct ticket **place, int kind, int64_t value, uint32_t flags) {
    struct ticket *ticket = *place;
    struct guest *guest = find_guest(notifier, ticket->guest);
    int result = -ENOENT;
    if (!guest || !still_waits(guest, ticket->id)) {
        drop_ticket(notifier, place);
        return result;
    }
    switch (kind) {
    case PSB_ANSWER_ERRNO: result = give(guest, ticket->id, -value); break;
    case PSB_ANSWER_RETURN: result = give(guest, ticket->id, value); break;
    case PSB_ANSWER_INJECT: result = inject(guest, ticket->id, (int)value, flags); break;
    case PSB_ANSWER_CARRIED:
    case PSB_ANSWER_BEHALF:
        if (!is_network(ticket->call)) return -EINVAL;
        ticket->deed.carried |= kind == PSB_ANSWER_CARRIED;
        if (act(notifier, guest, ticket->id, &ticket->deed, ticket, ticket->call)) {
            poke(notifier);
            return 0;
        }
        result = 0;
        break;
    default: return -EINVAL;
    }
    if (!result || result == -ENOENT) drop_ticket(notifier, place);
    return result;
}

int psb_answer(struct psb_notifier *notifier, uint64_t number, int kind, int64_t value, uint32_t flags) {
    struct ticket **place;
    int result = -ENOENT;
    pthread_mutex_lock(&notifier->lock);
    place = find_ticket(notifier, number);
    if (*place && (*place)->state == TICKET_PYTHON) result = answer(notifier, place, kind, value, flags);
    pthread_mutex_unlock(&notifier->lock);
    return result;
}

/* Takes a call out of reach of deadlines and other answers, with a listener that outlives the cage's removal. */
static int take_exec(struct psb_notifier *notifier, uint64_t number, struct ticket *taken, struct guest *alone) {
    struct ticket **place;
    alone->listener = -1;
    pthread_mutex_lock(&notifier->lock);
    place = find_ticket(notifier, number);
    if (*place && (*place)->state == TICKET_PYTHON && (*place)->call == PSB_CALL_EXEC) {
        const struct guest *guest = find_guest(notifier, (*place)->guest);
        *taken = **place;
        if (guest) alone->listener = fcntl(guest->listener, F_DUPFD_CLOEXEC, 0);
        if (guest) alone->rules.init_pid = guest->rules.init_pid;
        drop_ticket(notifier, place);
    }
    pthread_mutex_unlock(&notifier->lock);
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
    close(alone.listener);
    return result;
}

int psb_waits(struct psb_notifier *notifier, uint64_t number) {
    struct ticket **place;
    int waits;
    pthread_mutex_lock(&notifier->lock);
    place = find_ticket(notifier, number);
    waits = *place && (*place)->state == TICKET_PYTHON;
    pthread_mutex_unlock(&notifier->lock);
    return waits;
}
