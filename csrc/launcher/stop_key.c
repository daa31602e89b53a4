/* The kernel drops a SIGTSTP from the keyboard for an orphaned process group, one that nobody of its session could
 * continue (setpgid(2), POSIX 3.265). The command leads the session of the cage's terminal, so its own group is one.
 * Who could continue it is the user's shell, which knows us: in the foreground and with the signal's default action,
 * the command is stopped by us, and we with it. A shell in the cage ignores the signal, and its jobs are no orphans. */
#include "stop_key.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "terminal.h"

#define STATUS_ROOM 65536 /* a user may be in thousands of groups, which come first */

/* Bit N - 1 of either mask is signal N (proc_pid_status(5)). Of a process that cannot be read nothing is known. */
static int stops_by_default(pid_t pid) {
    static char status[STATUS_ROOM];
    unsigned long long ignored, caught;
    const char *line;
    ssize_t size;
    int fd;
    snprintf(status, sizeof status, "/proc/%d/status", (int)pid);
    fd = open(status, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size = read(fd, status, sizeof status - 1);
    close(fd);
    status[size > 0 ? size : 0] = 0;
    line = strstr(status, "\nSigIgn:");
    if (!line || sscanf(line, "\nSigIgn: %llx SigCgt: %llx", &ignored, &caught) != 2) return 0;
    return !((ignored | caught) >> (SIGTSTP - 1) & 1);
}

static int is_ignored(int number) {
    struct sigaction now;
    return sigaction(number, NULL, &now) || now.sa_handler == SIG_IGN;
}

/* Whoever leads a session (the one process of a container) has nobody to do it, nor who was told to ignore stops. */
static int can_be_continued(void) {
    return getpgrp() != getsid(0) && !is_ignored(SIGTSTP) && !is_ignored(SIGCONT);
}

/* The cage chooses what its terminal takes for a key that stops. It is the user's own alone, or a cage would choose the
 * letter of a text that is being pasted from which on the shell reads it. */
size_t typed_to_stop(const struct terminal *terminal) {
    struct termios inside; /* a master is asked for its slave's */
    const unsigned char key = own_stop_key();
    const char *at = key && !terminal->input_ended ? memchr(terminal->keys, key, terminal->typed) : NULL;
    pid_t leader, foreground;
    if (!at || tcgetattr(terminal->pty, &inside) || !(inside.c_lflag & ISIG) || inside.c_cc[VSUSP] != key) return 0;
    if (ioctl(terminal->pty, TIOCGSID, &leader) || ioctl(terminal->pty, TIOCGPGRP, &foreground)) return 0;
    if (leader <= 0 || leader != foreground || !stops_by_default(leader) || !can_be_continued()) return 0;
    return (size_t)(at - terminal->keys) + 1;
}

/* SIGSTOP, and raise(3): we have stopped when it returns, whatever threads there are. */
void stop_our_group(void) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    sigaction(SIGTSTP, &ignore, &before);
    kill(0, SIGTSTP);
    raise(SIGSTOP);
    sigaction(SIGTSTP, &before, NULL);
}
