/* connect(2) with AF_UNSPEC dissolves a connection, even if other processes have the socket open. */
#include "reset.h"

#include <errno.h>
#include <sys/socket.h>

int reset_connection(int fd) {
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    return connect(fd, &nowhere, sizeof nowhere) < 0 ? -errno : 0;
}

void reset_hard(int fd) {
    const struct linger hard = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    (void)reset_connection(fd); /* a unix socket has none */
}
