/* A terminal between a user and a cage (pysandbox/cli/terminal.py): ours in raw mode, the cage's own behind it. */
#ifndef PSB_LAUNCHER_TERMINAL_H
#define PSB_LAUNCHER_TERMINAL_H

#include <stddef.h>

#define KEYS 65536

struct streams;

struct terminal {
    int pty; /* -1: there is none, or it has nothing to say any more */
    int input_ended;
    size_t sent, typed; /* of `keys`: read, and not yet taken by the pty */
    char keys[KEYS];
};

/* Opens one of the cage's own as the command's streams: 0, or -1 where only Python can tell why. */
int open_terminal(struct streams *streams, int init_pid, int user);

/* The user's terminal in raw mode, and as it was. */
void enter_raw_mode(void);
void leave_raw_mode(void);
/* Whether it was left, for a stop of ours, and is another job's still: who reads it then is stopped. It becomes raw
 * again as soon as we are in front; the shell does not tell. */
int is_left(void);
/* For a stop of ours: what was typed and not read yet is nobody's then, the shell's least of all. */
void leave_raw_mode_empty(void);
/* The key that stops there, by the user's own settings; 0: none. */
unsigned char own_stop_key(void);

void begin_terminal(struct terminal *terminal, int pty);
void copy_size(int screen, int pty);
int wants_keys(const struct terminal *terminal);
void take_keys(struct terminal *terminal); /* they are to be sent */
void send_keys(struct terminal *terminal);
/* One piece from the pty to the screen: 1; 0 when there is none, or it is closed; -1 when the screen is gone. */
int show(const struct terminal *terminal);

#endif
