/* What is said of a command that failed, when its cage is gone (pysandbox/cli/why_failed.py). */
#ifndef PSB_LAUNCHER_FAILURE_H
#define PSB_LAUNCHER_FAILURE_H

/* Whether the end may have been the cage's doing, so that Python is to look: a program that was not found, or an
 * argument that names a file which most cages do not show, or which is not in `cwd`, where it began; or a host was
 * looked for. */
int may_be_the_cage(int code, int no_route, const char *cwd, char *const *argv);

#endif
