/* Put before the C library of a host: the moment between a listener and the connect that it is for becomes longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONGER_US 15000

int getsockname(int fd, struct sockaddr *address, socklen_t *size) {
    int (*real)(int, struct sockaddr *, socklen_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "getsockname");
    usleep(LONGER_US);
    return real(fd, address, size);
}
