/* The timer's signal is a real-time one that nobody had a handler for; its handler does nothing, which is enough. Each
 * thread that needs a timer makes one and keeps it: arming it is all that a call pays for. */
#include "eintr_timer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 20000000L

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int wake_up_signal; /* 0: none is free */
static pthread_key_t own_timer;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void wake_up(int number) {
    (void)number;
}

static void delete_timer(void *timer) {
    timer_delete(*(timer_t *)timer);
    free(timer);
}

static void prepare(void) {
    struct sigaction wanted = {.sa_handler = wake_up}, now; /* no SA_RESTART: the call is to fail with EINTR */
    int number;
    if (pthread_key_create(&own_timer, delete_timer)) return;
    for (number = SIGRTMAX; number >= SIGRTMIN && !wake_up_signal; number--)
        if (!sigaction(number, NULL, &now) && now.sa_handler == SIG_DFL && !sigaction(number, &wanted, NULL))
            wake_up_signal = number;
}

/* This thread's timer, made at its first use; the signal is let through to the thread for good. */
static timer_t *timer_of_thread(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = wake_up_signal};
    timer_t *timer = pthread_getspecific(own_timer);
    sigset_t wanted;
    if (timer) return timer;
    timer = malloc(sizeof *timer);
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    if (!timer || timer_create(CLOCK_MONOTONIC, &event, timer) < 0) {
        free(timer);
        return NULL;
    }
    sigemptyset(&wanted);
    sigaddset(&wanted, wake_up_signal);
    pthread_sigmask(SIG_UNBLOCK, &wanted, NULL);
    pthread_setspecific(own_timer, timer);
    return timer;
}

static void set(long nanoseconds) {
    const struct itimerspec often = {{0, nanoseconds}, {0, nanoseconds}};
    timer_t *timer;
    pthread_once(&prepared, prepare);
    timer = wake_up_signal ? timer_of_thread() : NULL;
    if (timer) timer_settime(*timer, 0, &often, NULL);
}

void arm_eintr_timer(void) {
    set(PATIENCE_NS);
}

void end_interrupting(void) {
    set(0);
}
