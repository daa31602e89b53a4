/* Threads of this project's own: every signal is blocked in them, so the program's handlers never run there. */
#ifndef PSB_HOST_THREAD_H
#define PSB_HOST_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* 0, or -errno. */
int start_joinable_thread(pthread_t *thread, void *(*run)(void *), void *argument);
int start_detached_thread(void *(*run)(void *), void *argument, size_t stack_bytes);

#endif
