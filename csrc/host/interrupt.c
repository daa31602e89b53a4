/* The timer's signal is a real-time one that nobody had a handler for; its handler does nothing, which is enough. */
#include "interrupt.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE_NS 20000000L

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int wake_up_signal; /* 0: none is free */
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void wake_up(int number) {
    (void)number;
}

static void choose_signal(void) {
    struct sigaction wanted = {.sa_handler = wake_up}, now; /* no SA_RESTART: the call is to fail with EINTR */
    int number;
    for (number = SIGRTMAX; number >= SIGRTMIN && !wake_up_signal; number--)
        if (!sigaction(number, NULL, &now) && now.sa_handler == SIG_DFL && !sigaction(number, &wanted, NULL))
            wake_up_signal = number;
}

void begin_interrupting(struct interrupt *interrupt) {
    const struct itimerspec often = {{0, PATIENCE_NS}, {0, PATIENCE_NS}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID};
    sigset_t wanted;
    memset(interrupt, 0, sizeof *interrupt);
    pthread_once(&chosen, choose_signal);
    if (!wake_up_signal) return;
    event.sigev_signo = wake_up_signal;
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    if (timer_create(CLOCK_MONOTONIC, &event, &interrupt->timer) < 0) return;
    sigemptyset(&wanted);
    sigaddset(&wanted, wake_up_signal);
    pthread_sigmask(SIG_UNBLOCK, &wanted, &interrupt->before);
    interrupt->armed = 1;
    timer_settime(interrupt->timer, 0, &often, NULL);
}

void end_interrupting(struct interrupt *interrupt) {
    if (!interrupt->armed) return;
    timer_delete(interrupt->timer);
    pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
}
