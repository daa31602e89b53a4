/* Calls with arguments that mean something, drawn from a grammar; see calls.c. */
#ifndef PSB_FUZZ_CALLS_H
#define PSB_FUZZ_CALLS_H

#include <stdint.h>

/* The next number of the seed that this process has (guest.c). */
uint64_t draw(void);
/* A path that was given, or one of the kernel's (guest.c). */
const char *draw_path(void);
/* One call of the table. */
void make_a_call_of_the_grammar(void);
/* A number from another table of calls: int 0x80, x32 (x86_64 alone). */
void make_a_call_of_another_table(void);

#endif
