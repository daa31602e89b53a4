/* Who something on the host belongs to, so named that no later process is taken for it (pysandbox/launch/owner.py). */
#ifndef PSB_LAUNCHER_OWNER_H
#define PSB_LAUNCHER_OWNER_H

/* When a process started, in clock ticks: field 22 of proc_pid_stat(5). 0, or -1. */
int start_of(int pid, unsigned long long *start);

#endif
