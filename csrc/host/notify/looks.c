/* See looks.h. What is looked at is named by facts that never change and an inode number, so nothing of the call has to
 * stay for it. */
#include "looks.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "../emulate/direct.h"
#include "dispatch.h"
#include "visits.h"

static uint64_t inode_of(int socket) {
    struct stat about;
    return fstat(socket, &about) < 0 ? 0 : about.st_ino;
}

/* By a listener of its own: the loop may close the cage's meanwhile. Where there is no descriptor for that: shared. */
static int look(struct notified_cage *cage, struct call_facts *facts, uint64_t inode, int *close_on_exec) {
    int alone;
    facts->caller.listener = fcntl(cage->listener, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&cage->lock);
    alone = inode && facts->caller.listener >= 0 &&
            is_sole_reference(&facts->caller, (int)facts->args[0], inode, close_on_exec);
    if (facts->caller.listener >= 0) close_own(facts->caller.listener);
    visit(cage);
    return alone;
}

void look_for(struct notified_cage *cage, uint64_t number) {
    struct pending_call **place = find_pending(cage, number);
    struct call_facts facts;
    int alone, close_on_exec = 0;
    if (!*place || (*place)->state != WAIT_LOOK) return;
    facts = (*place)->req.facts;
    alone = look(cage, &facts, inode_of((*place)->req.socket), &close_on_exec);
    if (cage->gone) return;
    place = find_pending(cage, number);
    if (!*place || (*place)->state != WAIT_LOOK) return;
    (*place)->req.look = alone ? LOOKED_ALONE : LOOKED_SHARED;
    (*place)->req.close_on_exec = alone && close_on_exec;
    resume_call(cage, place);
}

void look_for_all(struct notified_cage *cage) {
    const struct pending_call *pending = cage->pending_calls;
    while (!cage->gone && pending) {
        const struct pending_call *next = pending->next;
        if (pending->state != WAIT_LOOK) {
            pending = next;
            continue;
        }
        look_for(cage, pending->number);
        pending = cage->pending_calls; /* any of them may have ended meanwhile */
    }
}
