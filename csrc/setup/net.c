/* The cage's network namespace holds loopback and nothing else; this raises it (NET-17). */
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/socket.h>

#include "setup.h"

int raise_loopback(const struct psb_plan *plan, struct psb_error *error) {
    struct ifreq request = {.ifr_ifrn.ifrn_name = "lo"};
    long result, fd;
    if (!plan->loopback) return 0;
    fd = sys_call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0) return fail(error, PSB_STEP_LOOPBACK, fd, "lo");
    request.ifr_ifru.ifru_flags = IFF_UP | IFF_RUNNING;
    result = sys_call(SYS_ioctl, fd, SIOCSIFFLAGS, &request, 0, 0, 0);
    sys_close((int)fd);
    return result < 0 ? fail(error, PSB_STEP_LOOPBACK, result, "lo") : 0;
}
