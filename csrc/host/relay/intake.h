/* The input of a command, on its way from a pipe or a stream socket of the host's; see intake.c. */
#ifndef PSB_HOST_INTAKE_H
#define PSB_HOST_INTAKE_H

/* Returns at the end of `source`, when nobody reads from `sink` (a pipe, empty) any more, or when `stop` is readable;
 * what was read of `sink` is then taken off `source`, and nothing else. `null`: a null device. The caller has SIGPIPE
 * blocked. 0, or -errno. */
int psb_take_in(int source, int sink, int stop, int null);

#endif
