/* The user namespace: one uid and one gid mapped, setgroups denied (user_namespaces(7)); then what hangs on it. */
#include <linux/keyctl.h>

#include "../uapi.h"
#include "setup.h"

static int write_all(long fd, const char *path, const char *text, enum psb_step step, struct psb_error *error) {
    long written;
    if (fd < 0) return fail(error, step, fd, path);
    written = sys_write((int)fd, text, text_length(text));
    sys_close((int)fd);
    return written < 0 ? fail(error, step, written, path) : 0;
}

static int write_file(const char *path, const char *text, enum psb_step step, struct psb_error *error) {
    return write_all(sys_open(path, O_WRONLY | O_CLOEXEC, 0), path, text, step, error);
}

/* A file about this very process. It is root's while the memory is not dumpable, which a change of user takes away; and
 * the memory is the host's, where another thread may be changing its user just now: hence more than one try. */
static int write_own(const struct psb_plan *plan, const char *path, const char *text, enum psb_step step,
                     struct psb_error *error) {
    long fd = sys_open(path, O_WRONLY | O_CLOEXEC, 0), tries;
    for (tries = 0; plan->unrooted && fd == -EACCES && tries < 1024; tries++) {
        sys_call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0, 0);
        fd = sys_open(path, O_WRONLY | O_CLOEXEC, 0);
    }
    return write_all(fd, path, text, step, error);
}

/* "<inside> <outside> 1": the only map an unprivileged writer may make. */
static void map_line(char *line, uint32_t inside, uint32_t outside) {
    size_t n = text_number(line, inside);
    line[n++] = ' ';
    n += text_number(line + n, outside);
    text_copy(line + n, 3, " 1");
}

int enter_user_namespace(const struct psb_plan *plan, struct psb_error *error) {
    char line[64];
    if (!(plan->namespaces & CLONE_NEWUSER)) return 0;
    if (write_own(plan, "/proc/self/setgroups", "deny", PSB_STEP_SETGROUPS, error)) return -1;
    map_line(line, plan->inside_uid, plan->outside_uid);
    if (write_own(plan, "/proc/self/uid_map", line, PSB_STEP_UID_MAP, error)) return -1;
    map_line(line, plan->inside_gid, plan->outside_gid);
    return write_own(plan, "/proc/self/gid_map", line, PSB_STEP_GID_MAP, error);
}

/* inotify and fanotify are counted per user, through every namespace: a cage would take what its user's own programs
 * need (128 instances on most hosts). Its user namespace may be given less, which only one who is powerful in it can
 * change. Where the kernel has no such file, or /proc/sys is read-only (a container's), there is nothing to be given.
 */
int leave_inotify_to_the_user(const struct psb_plan *plan, struct psb_error *error) {
    static const char *const counts[][2] = {
        {"/proc/sys/user/max_inotify_instances", "16"},
        {"/proc/sys/user/max_inotify_watches", "32768"},
        {"/proc/sys/user/max_fanotify_groups", "16"}, /* Linux 5.13; of which a user has 128, too */
        {"/proc/sys/user/max_fanotify_marks", "32768"},
    };
    if (!(plan->namespaces & CLONE_NEWUSER)) return 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (!write_file(counts[i][0], counts[i][1], PSB_STEP_USER_COUNTS, error)) continue;
        if (error->number != ENOENT && error->number != EACCES && error->number != EROFS) return -1;
        error->step = PSB_STEP_NONE;
    }
    return 0;
}

/* A session keyring of its own. Keyrings are counted per user (kernel.keys.maxkeys, 200): the thousandth cage must
 * still start, so a full quota is no failure. It opens nothing: add_key, request_key and keyctl are refused by every
 * seccomp profile, and /proc/keys is masked. */
int leave_host_keyring(const struct psb_plan *plan, struct psb_error *error) {
    long result;
    if (plan->unconfined) return 0;
    result = sys_call(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0, 0);
    if (result >= 0 || result == -ENOSYS || result == -EDQUOT || result == -EPERM || result == -EACCES) return 0;
    return fail(error, PSB_STEP_KEYRING, result, NULL);
}

int set_hostname(const struct psb_plan *plan, struct psb_error *error) {
    long result;
    if (!(plan->namespaces & CLONE_NEWUTS)) return 0;
    result = sys_call(SYS_sethostname, plan->hostname, text_length(plan->hostname), 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_HOSTNAME, result, plan->hostname);
    result = sys_call(SYS_setdomainname, "(none)", 6, 0, 0, 0, 0);
    return result < 0 ? fail(error, PSB_STEP_HOSTNAME, result, "(none)") : 0;
}
