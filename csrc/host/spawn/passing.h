/* Sending descriptors. */
#ifndef PSB_PASSING_H
#define PSB_PASSING_H

#include <sys/socket.h>
#include <sys/types.h>

/* sendmsg(2) that never raises SIGPIPE, with these flags besides. Any thread. Where a process may set no limits, as one
 * that has confined itself, it is no more than that. */
ssize_t send_descriptors(int to, const struct msghdr *message, int flags);
/* Whether an error of it says that the kernel is short of something for now, which others may have taken: then the
 * message may be sent later, and the socket is as it was. */
int is_passing_shortage(int error);

#endif
