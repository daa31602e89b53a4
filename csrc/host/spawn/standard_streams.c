/* A host that has closed one of 0, 1, 2: what is opened next would stand there, and be taken for a stream of the host's
 * and handed to a command. */
#include "standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

/* The lowest number that is free is the one of the stream, unless another thread was faster. */
static void occupy(int stream) {
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd > stream) close(fd);
}

void occupy_standard_streams(void) {
    struct pollfd each[3] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
    int stream;
    if (poll(each, 3, 0) <= 0) return; /* the usual case: nobody asks anything of them */
    for (stream = 0; stream < 3; stream++)
        if (each[stream].revents & POLLNVAL) occupy(stream);
}
