/* What wakes a thread that waits in epoll: an eventfd, readable from the first wake_loop until clear_wakeup. */
#ifndef PSB_WAKEUP_H
#define PSB_WAKEUP_H

/* Close-on-exec, the caller's to close; -1 with errno. */
int new_wakeup(void);
/* Wakes the loop. From any thread; never blocks. Several before the loop reads count as one. */
void wake_loop(int wakeup);
void clear_wakeup(int wakeup);

#endif
