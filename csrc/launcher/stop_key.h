/* Ctrl-Z for a command that no shell in the cage attends to (pysandbox/cli/stop_key.py). */
#ifndef PSB_LAUNCHER_STOP_KEY_H
#define PSB_LAUNCHER_STOP_KEY_H

struct terminal;

/* Whether it is among the keys that were typed last, and the kernel lets it come to nothing. */
int is_stop_typed(const struct terminal *terminal);

/* Stops our process group as the key would; returns when we go on. */
void stop_our_group(void);

#endif
