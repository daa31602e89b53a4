/* A new thread has the signal mask of the one that makes it, so signals are blocked while it is made. */
#include "thread.h"

#include <signal.h>

#include "child.h"

static int start_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    sigset_t before;
    int result;
    block_signals(&before);
    result = -pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

int start_joinable_thread(pthread_t *thread, void *(*run)(void *), void *argument) {
    return start_thread(thread, NULL, run, argument);
}

int start_detached_thread(void *(*run)(void *), void *argument, size_t stack_bytes) {
    pthread_attr_t attributes;
    pthread_t thread;
    int result;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    result = start_thread(&thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return result;
}
