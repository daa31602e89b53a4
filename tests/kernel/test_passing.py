"""Descriptors are sent with a raised limit for a moment, in which nobody waits: neither another sender, nor a fork, and
no copy of the process keeps that limit (csrc/host/spawn/passing.c). The budget for what messages carry is a process's
own, not its parent's (csrc/host/notify/borrowed.c).

The kernel's answers are made up: the first send is refused for descriptors on their way, the next for want of room.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests._support.ccode import compile_c
from tests._support.tree import REPOSITORY

HOST = REPOSITORY / "csrc" / "host"
PASSING = """
#include <assert.h>
#include <sys/wait.h>
#include <unistd.h>

static int calls, polled, is_raised_when_sent;
static struct rlimit own;

static int is_own(void) {
    struct rlimit now;
    return !getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == own.rlim_cur && now.rlim_max == own.rlim_max;
}

ssize_t __wrap_sendmsg(int to, const struct msghdr *message, int flags) {
    (void)to, (void)message;
    calls++;
    assert(flags & MSG_NOSIGNAL);
    errno = calls % 2 ? ETOOMANYREFS : EAGAIN;
    if (calls % 2) return -1;
    assert(flags & MSG_DONTWAIT);
    is_raised_when_sent += !is_own();
    return calls < 4 ? -1 : 1;
}

/* While one waits for room, others send and fork. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout) {
    pid_t child;
    int status;
    assert(count == 1 && fds[0].events == POLLOUT && timeout == -1 && is_own());
    assert(!pthread_mutex_trylock(&raising) && !pthread_mutex_unlock(&raising));
    polled++;
    child = fork();
    if (!child) {
        calls = 3;
        _exit(!is_own() || send_with_more(0, NULL, MSG_NOSIGNAL) != 1);
    }
    assert(waitpid(child, &status, 0) == child && !status);
    return 1;
}

static void *forks(void *count) {
    int i, status;
    for (i = 0; i < *(int *)count; i++) {
        const pid_t child = fork();
        if (!child) {
            alarm(10);
            calls = 3;
            _exit(!is_own() || send_with_more(0, NULL, MSG_NOSIGNAL) != 1);
        }
        assert(waitpid(child, &status, 0) == child && !status);
    }
    *(int *)count = 0;
    return NULL;
}

int main(void) {
    const struct msghdr none = {0};
    int ends[2], left = 300;
    pthread_t other;
    assert(!getrlimit(RLIMIT_NOFILE, &own));
    own.rlim_cur = own.rlim_max / 2;
    assert(!setrlimit(RLIMIT_NOFILE, &own) && !pipe(ends));
    assert(send_descriptors(ends[1], &none, 0) == 1);
    assert(calls == 4 && polled == 1 && is_raised_when_sent == 2 && is_own());

    calls = 0; /* who would rather not wait, by either of the two ways, is told so */
    assert(send_descriptors(ends[1], &none, MSG_DONTWAIT) == -1 && errno == EAGAIN && calls == 2 && is_own());
    calls = 0;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    assert(send_descriptors(ends[1], &none, 0) == -1 && errno == EAGAIN && calls == 2 && is_own());
    assert(polled == 1);

    assert(!pthread_create(&other, NULL, forks, &left));
    while (__atomic_load_n(&left, __ATOMIC_SEQ_CST)) {
        calls = 3;
        send_with_more(0, NULL, MSG_NOSIGNAL);
    }
    return pthread_join(other, NULL) || !is_own();
}
"""
BUDGET = """
#include <assert.h>
#include <sys/wait.h>

int take_fd(struct pidfds *cache, const struct target *caller, int fd) { (void)cache, (void)caller; return fd; }
void forget_pidfds(struct pidfds *cache) { (void)cache; }
void arm_eintr_timer(void) {}
void end_interrupting(void) {}

int main(void) {
    const struct rlimit few = {8, 8};
    const struct target nobody = {0};
    struct borrowed borrowed = {0};
    int status;
    pid_t child;
    assert(!setrlimit(RLIMIT_NOFILE, &few) && budget_for_messages() == 2);
    assert(borrow_for_message(&borrowed, &nobody, 5) == 5 && borrow_for_message(&borrowed, &nobody, 6) == 6);
    assert(borrow_for_message(&borrowed, &nobody, 7) == -EAGAIN);
    child = fork();
    if (!child) _exit(borrow_for_message(&borrowed, &nobody, 7) != 7);
    assert(waitpid(child, &status, 0) == child && !status);
    assert(borrow_for_message(&borrowed, &nobody, 7) == -EAGAIN);
    return 0;
}
"""


def compiled(file: Path, source: str, *flags: str) -> Path:
    return compile_c(file.read_text() + source, "-D_GNU_SOURCE", f"-I{file.parent}", "-pthread", *flags)


def test_nobody_waits_while_the_limit_is_raised_and_no_copy_keeps_it() -> None:
    program = compiled(HOST / "spawn" / "passing.c", PASSING, "-Wl,--wrap=sendmsg,--wrap=poll")
    subprocess.run([program], timeout=60, check=True)


def test_a_forked_process_has_a_budget_of_its_own() -> None:
    subprocess.run([compiled(HOST / "notify" / "borrowed.c", BUDGET)], timeout=60, check=True)
