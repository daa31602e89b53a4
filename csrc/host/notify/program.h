/* Which file an execve names, while its caller is held. */
#ifndef PSB_PROGRAM_H
#define PSB_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

struct call_facts;

/* The real path of the program, as the cage names it, and in *asked a digest of how it was written: its size; 0 where
 * it names nothing that could run; -EAGAIN where the look would have to wait for a disk, which it never does, or leads
 * through a process of /proc. */
int64_t find_program(const struct call_facts *facts, char *to, size_t room, uint64_t *asked);

#endif
