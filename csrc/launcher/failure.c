/* See failure.h. The look is cheap and coarse: what it lets by, Python holds against the view of the cage, once the
 * command is over and has failed. */
#include "failure.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "exit_codes.h"

#define GIT_FAILED 128 /* pysandbox/cli/needs.py: and no signal has the number 0 */

static int is_below(const char *path, const char *directory) {
    const size_t size = strlen(directory);
    return !strncmp(path, directory, size) && (!path[size] || path[size] == '/');
}

/* What a cage shows as a rule: the system, and the directory that the command begins in. */
static int is_usual(const char *path, const char *cwd) {
    static const char *const SYSTEM[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc"};
    size_t i;
    for (i = 0; i < sizeof SYSTEM / sizeof *SYSTEM; i++)
        if (is_below(path, SYSTEM[i])) return 1;
    return is_below(path, cwd) || !strcmp(path, "/");
}

static int names_another_file(const char *argument, const char *cwd) {
    const char *value = *argument == '-' ? strchr(argument, '=') : argument;
    char path[PATH_MAX];
    if (!value) return 0;
    value += *value == '=';
    if (!strncmp(value, "/dev/fd/", 8)) return 1; /* what a shell's <(...) gives: not the cage's */
    return *value && realpath(value, path) && !is_usual(path, cwd);
}

/* What tools do over a network alone: the words of pysandbox/cli/no_network.py, which looks whose they are. */
static int is_fetching(const char *argument) {
    static const char *const WORDS[] = {"add",  "audit", "ci",      "clone", "download",  "fetch", "get",
                                        "i",    "index", "install", "lock",  "ls-remote", "pip",   "publish",
                                        "pull", "push",  "search",  "sync",  "update",    "view",  "wheel"};
    size_t i;
    for (i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!strcmp(argument, WORDS[i])) return 1;
    return 0;
}

/* A URL, or scp's user@host:path. */
static int names_a_host(const char *argument) {
    const char *at = strchr(argument, '@');
    return strstr(argument, "://") || (at && strchr(at, ':'));
}

/* Programs that trace others: the words of pysandbox/cli/needs.py. */
static int is_tracer(const char *program) {
    static const char *const NAMES[] = {"gdb", "gdbserver", "lldb", "ltrace", "strace"};
    const char *slash = strrchr(program, '/');
    size_t i;
    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (!strcmp(slash ? slash + 1 : program, NAMES[i])) return 1;
    return 0;
}

/* The signals are those of pysandbox/cli/why_failed.py. */
enum failed_how how_failed(int status) {
    static const int BY_SOMEBODY[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL, SIGPIPE};
    size_t i;
    if (!WIFSIGNALED(status)) return FAILED_BY_ITSELF;
    if (WTERMSIG(status) == SIGSYS) return FAILED_BY_A_FILTER;
    for (i = 0; i < sizeof BY_SOMEBODY / sizeof *BY_SOMEBODY; i++)
        if (WTERMSIG(status) == BY_SOMEBODY[i]) return FAILED_ENDED;
    return FAILED_BY_ITSELF;
}

int may_be_the_cage(enum failed_how how, int code, int no_route, const char *cwd, char *const *argv) {
    if (code <= 0 || how == FAILED_ENDED) return 0;
    if (no_route || how == FAILED_BY_A_FILTER) return 1;
    if (code == NOT_EXECUTABLE || code == NOT_FOUND || code == GIT_FAILED) return 1;
    if (is_tracer(argv[0])) return 1;
    for (argv++; *argv; argv++)
        if (names_another_file(*argv, cwd) || names_a_host(*argv) || is_fetching(*argv)) return 1;
    return 0;
}
