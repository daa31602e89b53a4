/* Sending descriptors. */
#ifndef PSB_PASSING_H
#define PSB_PASSING_H

#include <sys/socket.h>
#include <sys/types.h>

/* sendmsg(2) that never raises SIGPIPE. */
ssize_t send_descriptors(int to, const struct msghdr *message);

#endif
