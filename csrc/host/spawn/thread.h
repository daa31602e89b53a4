/* Threads of this project's own: every signal is blocked in them, so the program's handlers never run there. */
#ifndef PSB_HOST_THREAD_H
#define PSB_HOST_THREAD_H

#include <pthread.h>
#include <stddef.h>

#define THREAD_STACK (1 << 20) /* bytes, for what moves a stream or looks at files */

/* 0, or -errno. `stack_bytes` is asked for, since each C library has another idea of what is enough. */
int start_joinable_thread(pthread_t *thread, void *(*run)(void *), void *argument, size_t stack_bytes);
int start_detached_thread(void *(*run)(void *), void *argument, size_t stack_bytes);

#endif
