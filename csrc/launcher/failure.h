/* What is said of a command that failed, when its cage is gone (pysandbox/cli/why_failed.py). */
#ifndef PSB_LAUNCHER_FAILURE_H
#define PSB_LAUNCHER_FAILURE_H

/* How a command ended that did not end well. */
enum failed_how {
    FAILED_ENDED,      /* somebody ended it, or its time did; or this program failed, and has said so */
    FAILED_BY_ITSELF,  /* it says so, or made a mistake that a signal ended */
    FAILED_BY_A_FILTER /* of system calls */
};

/* `status` is what wait(2) has for it. */
enum failed_how how_failed(int status);

/* Whether the end may have been the cage's doing, so that Python is to look: a program that was not found, or an
 * argument that names a file which most cages do not show, or which is not in `cwd`, where it began; a host was looked
 * for, or a filter ended it. */
int may_be_the_cage(enum failed_how how, int code, int no_route, const char *cwd, char *const *argv);

#endif
