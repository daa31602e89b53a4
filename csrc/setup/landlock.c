/* Landlock (landlock(7)): the ruleset every command of the cage enters, and the domain of a cage-init without
 * namespaces. The structs are spelled here because the headers of the build host may know an older ABI; a field that a
 * kernel does not know must be zero, which the plan has seen to. */

#include "../uapi.h"
#include "setup.h"

struct ruleset_attr {
    uint64_t handled_fs, handled_net, scoped;
};

struct path_beneath {
    uint64_t access;
    int32_t parent_fd;
} __attribute__((packed));

/* Below a filter of ours openat2 is answered as by a kernel without it (a process that confines itself once more). What
 * a link leads to is then another inode, which is looked at below. */
static long open_of_rule(const struct psb_rule *rule) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long fd = sys_call(SYS_openat2, AT_FDCWD, rule->path, &how, sizeof how, 0, 0);
    return fd == -ENOSYS && rule->ino ? sys_open(rule->path, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0) : fd;
}

static int add_rule(int ruleset, const struct psb_rule *rule, struct psb_error *error) {
    long fd = open_of_rule(rule);
    struct path_beneath beneath = {rule->access, (int32_t)fd};
    int is_directory;
    long result;
    if (fd < 0 && rule->optional && !says_nothing_of_the_file(-fd)) return 0;
    if (fd < 0) return fail(error, PSB_STEP_LANDLOCK_RULE, fd, rule->path);
    result = check_inode(fd, rule->dev, rule->ino, &is_directory);
    if (result < 0) {
        sys_close((int)fd);
        return fail(error, result == -ESTALE ? PSB_STEP_SOURCE_CHANGED : PSB_STEP_LANDLOCK_RULE, result, rule->path);
    }
    result = sys_call(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0, 0, 0);
    sys_close((int)fd);
    return result < 0 ? fail(error, PSB_STEP_LANDLOCK_RULE, result, rule->path) : 0;
}

int make_ruleset(const struct psb_landlock *landlock, struct psb_error *error) {
    struct ruleset_attr attr = {landlock->handled_fs, landlock->handled_net, landlock->scoped};
    long ruleset;
    uint32_t i;
    if (!landlock->enabled) {
        ruleset = sys_open("/", O_PATH | O_CLOEXEC, 0); /* holds the descriptor's place */
        return ruleset < 0 ? fail(error, PSB_STEP_LANDLOCK_RULESET, ruleset, "/") : (int)ruleset;
    }
    ruleset = sys_call(SYS_landlock_create_ruleset, &attr, sizeof attr, 0, 0, 0, 0);
    if (ruleset < 0) return fail(error, PSB_STEP_LANDLOCK_RULESET, ruleset, NULL);
    for (i = 0; i < landlock->n_rules; i++)
        if (add_rule((int)ruleset, &landlock->rules[i], error)) return -1;
    return (int)ruleset;
}

/* Without a PID namespace cage-init gets a domain whose signals cannot leave it. Commands live in domains nested in
 * this one: they cannot signal cage-init, while its kill(-1) reaches all of them, orphans included, and nobody else. */
int scope_init_signals(const struct psb_plan *plan, struct psb_error *error) {
    /* A domain refuses links and renames between directories unless it says otherwise, whatever else it handles. */
    const struct psb_rule refer = {.path = "/", .access = LANDLOCK_ACCESS_FS_REFER};
    struct ruleset_attr attr = {LANDLOCK_ACCESS_FS_REFER, 0, LANDLOCK_SCOPE_SIGNAL};
    long ruleset, result;
    if (!plan->scope_signals) return 0;
    ruleset = sys_call(SYS_landlock_create_ruleset, &attr, sizeof attr, 0, 0, 0, 0);
    if (ruleset < 0) return fail(error, PSB_STEP_LANDLOCK_SCOPE, ruleset, NULL);
    if (add_rule((int)ruleset, &refer, error)) return -1;
    result = sys_call(SYS_landlock_restrict_self, ruleset, 0, 0, 0, 0, 0);
    sys_close((int)ruleset);
    return result < 0 ? fail(error, PSB_STEP_LANDLOCK_SCOPE, result, NULL) : 0;
}
