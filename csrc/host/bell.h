/* What wakes a thread that waits in epoll: an eventfd, readable from the first ring until it is silenced. */
#ifndef PSB_BELL_H
#define PSB_BELL_H

/* Close-on-exec, the caller's to close; -1 with errno. */
int new_bell(void);
/* From any thread, and never blocks. Rings that nobody has heard are one. */
void ring(int bell);
void silence(int bell);

#endif
