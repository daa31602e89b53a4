#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include "host.h"
#include "streams.h"

#define END_OF_INPUT 4 /* Ctrl-D: what a pty has for an end of file */

static struct termios saved;
static int is_raw, was_raw;

static void set_raw(int when) {
    struct termios raw;
    if (!isatty(0) || tcgetattr(0, &saved)) return;
    raw = saved;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_cflag = (raw.c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    is_raw = !tcsetattr(0, when, &raw);
    was_raw |= is_raw;
}

void enter_raw_mode(void) {
    set_raw(TCSAFLUSH);
}

static void restore(int when) {
    if (is_raw) tcsetattr(0, when, &saved);
    is_raw = 0;
}

void leave_raw_mode(void) {
    restore(TCSADRAIN);
}

void leave_raw_mode_empty(void) {
    restore(TCSAFLUSH);
}

unsigned char own_stop_key(void) {
    return saved.c_lflag & ISIG ? saved.c_cc[VSUSP] : 0;
}

int is_left(void) {
    const pid_t front = was_raw && !is_raw ? tcgetpgrp(0) : 0;
    if (front < 0 || front == getpgrp()) set_raw(TCSADRAIN); /* what was typed meanwhile is the command's */
    return was_raw && !is_raw;
}

void copy_size(int screen, int pty) {
    struct winsize size;
    if (isatty(screen) && !ioctl(screen, TIOCGWINSZ, &size)) ioctl(pty, TIOCSWINSZ, &size);
}

/* The cage may have put anything at /dev: nothing is followed on the way, and it must be a real ptmx (5, 2). */
static int open_master(int init_pid, int user) {
    const uint64_t resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS, flags = O_RDWR | O_NOCTTY;
    struct stat found;
    char path[40];
    int root, fd;
    snprintf(path, sizeof path, "/proc/%d/root", init_pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return -1;
    fd = user ? psb_open_powerless(root, "dev/pts/ptmx", flags, 0, resolve, (uint32_t)user)
              : psb_open_inside(root, "dev/pts/ptmx", flags, 0, resolve);
    close(root);
    if (fd < 0 || (!fstat(fd, &found) && found.st_rdev == makedev(5, 2))) return fd;
    close(fd);
    return -1;
}

int open_terminal(struct streams *streams, int init_pid, int user) {
    const int master = open_master(init_pid, user);
    int slave, unlocked = 0;
    streams->user = user;
    streams->terminal = master;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked)) return -1;
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || give_to_user(slave, user)) return -1;
    streams->given[streams->n_given++] = slave;
    streams->child[0] = streams->child[1] = streams->child[2] = slave;
    copy_size(1, master); /* before anything runs there */
    return 0;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

void begin_terminal(struct terminal *terminal, int pty) {
    terminal->pty = pty;
    if (pty < 0) return;
    /* A command that does not read must not stop us from showing what it writes. */
    fcntl(pty, F_SETFL, fcntl(pty, F_GETFL) | O_NONBLOCK);
    copy_size(1, pty);
}

/* Only when the last ones are gone: what is typed ahead stays with the terminal. */
int wants_keys(const struct terminal *terminal) {
    return terminal->pty >= 0 && !is_left() && terminal->sent == terminal->typed && !terminal->input_ended;
}

void take_keys(struct terminal *terminal) {
    const ssize_t got = read(0, terminal->keys, sizeof terminal->keys);
    terminal->sent = 0;
    terminal->typed = got > 0 ? (size_t)got : 1;
    if (got <= 0) { /* EIO: the terminal has hung up */
        terminal->input_ended = 1;
        terminal->keys[0] = END_OF_INPUT;
    }
}

void send_keys(struct terminal *terminal) {
    const ssize_t some = write(terminal->pty, terminal->keys + terminal->sent, terminal->typed - terminal->sent);
    if (some >= 0)
        terminal->sent += (size_t)some;
    else if (errno != EAGAIN && errno != EINTR)
        terminal->sent = terminal->typed; /* EIO: nobody has the other side open */
}

static int show_all(const char *bytes, size_t size) {
    while (size) {
        const ssize_t some = write(1, bytes, size);
        struct pollfd one = {1, POLLOUT, 0};
        if (some < 0 && errno == EAGAIN) {
            poll(&one, 1, -1);
        } else if (some < 0 && errno != EINTR) {
            return -1;
        } else if (some > 0) {
            bytes += some;
            size -= (size_t)some;
        }
    }
    return 1;
}

int show(const struct terminal *terminal) {
    char bytes[4096];
    ssize_t got = -1;
    if (terminal->pty >= 0) do
            got = read(terminal->pty, bytes, sizeof bytes);
        while (got < 0 && errno == EINTR);
    return got <= 0 ? 0 : show_all(bytes, (size_t)got);
}
