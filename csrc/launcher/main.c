/* START HERE for the command `pysandbox`: a run like one before starts from its kept plan, in a cage, without Python.
 *
 * This program decides nothing. Python compiled the plan, at an earlier run, and put by all that it depended on; here
 * each of these is looked at again. For everything else - another command than `run`, a first run, a plan that is not
 * as it was, whatever is odd - the Python command beside this file takes over by execve(2), with all that we were
 * given: arguments, environment, descriptors, signals. When it has kept the plan of a first run, it becomes this
 * program again (ADR 26). From the start of the command on there is no way back. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "errno_text.h"
#include "exit_codes.h"
#include "../host/spawn/secret.h"
#include "failure.h"
#include "holds.h"
#include "order.h"
#include "python.h"
#include "recall.h"
#include "run.h"

#define AFTER_FAILURE "after-failure"   /* pysandbox/cli/after_failure.py */
#define JUST_KEPT "PYSANDBOX_JUST_KEPT" /* between this program and pysandbox/cli/first_run.py */

extern char **environ;

/* Where this program lies, symlinks resolved. */
static int find_self(char *self) {
    const ssize_t size = readlink("/proc/self/exe", self, PATH_MAX - 1);
    const char *executed = (const char *)getauxval(AT_EXECFN);
    if (size > 0 && size < PATH_MAX - 1) {
        self[size] = 0;
        return 0;
    }
    return executed && realpath(executed, self) ? 0 : -1;
}

static int hand_over(const char *self, char **argv) {
    char *path = python_command(self);
    struct text line = {0};
    if (path) execve(path, argv, environ);
    add_text(&line, path ? path : PYTHON_COMMAND);
    add_text(&line, " cannot be executed (");
    add_text(&line, errno_text(errno));
    add_whole(&line, "); install pysandbox again: it belongs beside this command");
    say("error: ", line.failed ? PYTHON_COMMAND " cannot be executed" : line.bytes);
    return OUR_FAILURE;
}

/* With one of them closed, something of ours would be opened there. */
static int are_streams_open(void) {
    return fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0;
}

/* What can be told of the arguments here: a record must hold them. */
static int can_tell(char *const *argv) {
    struct text told = {0};
    int result = 1;
    for (; *argv && result; argv++) result = !add_json(&told, *argv);
    free(told.bytes);
    return result && !told.failed;
}

/* 0 when there is an entry for it. */
static int find_kept(const char *self, const struct request *request, struct kept *kept) {
    uint8_t secret[PSB_SECRET_SIZE], key[SHA256_SIZE];
    int result = psb_secret(secret);
    if (!result) result = make_key(key, self, request, secret);
    if (!result) result = recall(key, secret, kept);
    explicit_bzero(secret, sizeof secret);
    return result;
}

/* The exit code, or -1 when it is Python's to do. */
static int try_kept(const char *self, char **arguments, struct run *run) {
    static struct kept kept;
    struct request request;
    if (!are_streams_open() || split(arguments, &request) || !can_tell(request.argv)) return -1;
    if (find_kept(self, &request, &kept) || !may_begin(&kept)) return -1;
    run->kept = &kept;
    run->argv = request.argv;
    run->flags = request.flags;
    run->n_flags = (size_t)request.n_flags;
    run->services.arguments = arguments;
    run->services.self = self;
    if (!are_given(run)) return -1;
    return run_kept(run);
}

/* Python says the line that may help, and exits with the same code; where it cannot, there is none. */
static void tell_why(const char *self, int code, const struct run *run, int argc, char **argv) {
    char number[16], **told = calloc((size_t)argc + 5, sizeof *told);
    if (!told) return;
    snprintf(number, sizeof number, "%d", code);
    told[0] = argv[0];
    told[1] = AFTER_FAILURE;
    told[2] = number;
    told[3] = run->no_route ? "1" : "0";
    told[4] = run->how == FAILED_BY_A_FILTER ? "1" : "0";
    memcpy(told + 5, argv + 2, ((size_t)argc - 2) * sizeof *told);
    hand_over(self, told);
    _exit(code);
}

/* A line about a command that failed, where the cage may be why and nobody has said so. */
static void advise(const char *self, int code, const struct run *run, int argc, char **argv) {
    const char *cwd = text_named(run->kept, PSB_TEXT_CWD);
    if (run->told || !may_be_the_cage(run->how, code, run->no_route, cwd, run->argv)) return;
    if (run->kept->head->flags & PSB_KEPT_ALONE)
        say("", "if the sandbox may be why it failed: pysandbox run --why ...");
    else
        tell_why(self, code, run, argc, argv);
}

/* Whether a Python has just kept the plan, and is not to be asked for that again. It says so by a variable, for a list
 * of processes shows the arguments. */
static int was_just_kept(void) {
    const int is = getenv(JUST_KEPT) != NULL;
    unsetenv(JUST_KEPT);
    return is;
}

int main(int argc, char **argv) {
    static struct run run;
    char self[PATH_MAX];
    int code = -1;
    const int just_kept = was_just_kept();
    if (find_self(self)) {
        say("error: ", "cannot tell where this program is: is /proc mounted?");
        return OUR_FAILURE;
    }
    if (argc > 2 && !strcmp(argv[1], "run")) code = try_kept(self, argv + 2, &run);
    if (code < 0 && just_kept) setenv(JUST_KEPT, "1", 1);
    if (code < 0) return hand_over(self, argv);
    advise(self, code, &run, argc, argv);
    _exit(code);
}
