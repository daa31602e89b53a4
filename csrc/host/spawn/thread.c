/* A new thread has the signal mask of the one that makes it, so signals are blocked while it is made. */
#include "thread.h"

#include <signal.h>

#include "child.h"

static int start_thread(pthread_t *thread, int state, void *(*run)(void *), void *argument, size_t stack_bytes) {
    pthread_attr_t attributes;
    sigset_t before;
    int result;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, state);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    block_signals(&before);
    result = -pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}

int start_joinable_thread(pthread_t *thread, void *(*run)(void *), void *argument, size_t stack_bytes) {
    return start_thread(thread, PTHREAD_CREATE_JOINABLE, run, argument, stack_bytes);
}

int start_detached_thread(void *(*run)(void *), void *argument, size_t stack_bytes) {
    pthread_t thread;
    return start_thread(&thread, PTHREAD_CREATE_DETACHED, run, argument, stack_bytes);
}
