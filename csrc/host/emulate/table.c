/* Everything that the supervisor emulates for a caged process: the socket's family, and the call.
 *
 * What a policy hands over and this table does not hold is refused. A row is sound when nothing of the call asks for a
 * capability: the supervisor's user owns the cage's namespaces, so that the kernel would say yes where it says no to
 * the caller, whatever effective_caps.h has taken away. What each row could ask, and why it does not, is said here; the
 * rest is in tests/security/test_nothing_is_done_with_more_power_than_the_caller_s.py, which has an attack for each
 * row. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "emulate.h"

static const struct psb_behalf_row TABLE[] = {
    {AF_INET, PSB_CALL_CONNECT},  /* nothing */
    {AF_INET, PSB_CALL_BIND},     /* CAP_NET_BIND_SERVICE: low ports are refused (emulate.c) */
    {AF_INET, PSB_CALL_LISTEN},   /* nothing */
    {AF_INET, PSB_CALL_SENDTO},   /* nothing */
    {AF_INET, PSB_CALL_SENDMSG},  /* CAP_NET_RAW, CAP_NET_ADMIN by ancillary data: there is a list of it */
    {AF_INET6, PSB_CALL_CONNECT}, /* as IPv4 */
    {AF_INET6, PSB_CALL_BIND},      {AF_INET6, PSB_CALL_LISTEN}, {AF_INET6, PSB_CALL_SENDTO},
    {AF_INET6, PSB_CALL_SENDMSG},   {AF_UNIX, PSB_CALL_CONNECT}, /* CAP_DAC_OVERRIDE of the supervisor's own:
                                                                    effective_caps.h. The peer sees the supervisor */
    {AF_UNIX, PSB_CALL_LISTEN},                                  /* nothing */
    {AF_UNIX, PSB_CALL_SENDTO},                                  /* as a connect */
    {AF_UNIX, PSB_CALL_SENDMSG},   /* CAP_SETUID, CAP_SYS_ADMIN by SCM_CREDENTIALS: refused */
    {AF_NETLINK, PSB_CALL_BIND},   /* CAP_NET_ADMIN for groups: none (netlink.c) */
    {AF_NETLINK, PSB_CALL_SENDTO}, /* CAP_NET_ADMIN for what changes anything: queries only */
    {AF_NETLINK, PSB_CALL_SENDMSG},
};

int is_done_on_behalf(const struct call_facts *facts) {
    size_t i;
    for (i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (TABLE[i].family == facts->domain && TABLE[i].call == facts->call) return 1;
    return 0;
}

int psb_behalf_table(struct psb_behalf_row *rows, size_t room) {
    const size_t count = sizeof TABLE / sizeof *TABLE;
    memcpy(rows, TABLE, (count < room ? count : room) * sizeof *rows);
    return (int)count;
}

enum call_outcome refuse(struct emulated_call *req) {
    req->value = -EPERM;
    req->refused = REFUSED_CALL;
    return CALL_DONE;
}
