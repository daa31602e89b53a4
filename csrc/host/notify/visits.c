/* See visits.h. */
#include "visits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "cages.h"

void visit(struct notified_cage *cage) {
    __atomic_add_fetch(&cage->visitors, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&cage->lock);
    __atomic_sub_fetch(&cage->visitors, 1, __ATOMIC_SEQ_CST);
}

void leave(struct notified_cage *cage) {
    pthread_mutex_unlock(&cage->lock);
    release_cage(cage);
}

struct notified_cage *visit_number(struct psb_notifier *notifier, uint32_t number) {
    struct notified_cage *cage = find_cage(notifier, number);
    if (!cage) return NULL;
    visit(cage);
    if (!cage->gone) return cage;
    leave(cage);
    return NULL;
}

struct notified_cage *visit_pending(struct psb_notifier *notifier, uint64_t number, struct pending_call ***place) {
    struct notified_cage *cage = visit_number(notifier, cage_of(number));
    if (!cage) return NULL;
    *place = find_pending(cage, number);
    if (**place && (**place)->state == WAIT_PYTHON) return cage;
    leave(cage);
    return NULL;
}

int hold_waiting(struct psb_notifier *notifier, uint64_t pending, struct call_facts *facts) {
    struct pending_call **place;
    struct notified_cage *cage = visit_pending(notifier, pending, &place);
    if (!cage) return -ENOENT;
    memcpy(facts, &(*place)->req.facts, sizeof *facts);
    facts->caller.listener = fcntl(cage->listener, F_DUPFD_CLOEXEC, 0);
    leave(cage);
    return facts->caller.listener < 0 ? -EMFILE : 0;
}
