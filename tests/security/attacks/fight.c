/* Uses all the CPU it gets for argv[2] seconds and does what it can against being stopped: argv[1] says how.
 * Says "on" when it begins. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static timer_t timers[64];
static int armed;

static void nothing(int number) { (void)number; }

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void arm(void)
{
    for (int k = 0; k < 64; k++) {
        struct itimerspec when = {{0, 3000000}, {0, 1000000 + 40000 * k}};
        timer_settime(timers[k], 0, &when, NULL);
    }
}

static void make_timers(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    for (int k = 0; k < 64; k++)
        timer_create(CLOCK_MONOTONIC, &event, &timers[k]);
    armed = 1;
    arm();
}

static void spin(double seconds)
{
    for (double end = now() + seconds; now() < end;) {
        if (armed) /* a stop takes the pending SIGCONT away, and the timer with it */
            arm();
        for (volatile int i = 0; i < 20000; i++)
            ;
    }
}

static void *wake_all(void *unused)
{
    struct timespec nap = {0, 200000};
    for (;;) {
        kill(-1, SIGCONT);
        nanosleep(&nap, NULL);
    }
    return unused;
}

static void helpers(int how_many, int with_timers)
{
    for (int k = 0; k < how_many; k++)
        if (fork() == 0) {
            if (with_timers)
                make_timers();
            for (;;) {
                struct timespec nap = {0, 2000000};
                if (with_timers)
                    arm();
                kill(-1, SIGCONT);
                nanosleep(&nap, NULL);
            }
        }
}

/* A new process every 5 ms, each of which wakes all others; the last one goes on. */
static void rotate(double seconds)
{
    for (int k = 0; k < 4; k++)
        if (fork() == 0)
            goto turn;
    for (double end = now() + seconds; now() < end;)
        pause();
    return;
turn:
    make_timers();
    for (double end = now() + seconds; now() < end;) {
        kill(-1, SIGCONT);
        spin(0.005);
        if (fork() != 0)
            _exit(0);
        make_timers();
    }
}

/* Children that nobody waits for: the kernel drops what they have used. */
static void unwaited(double seconds)
{
    signal(SIGCHLD, SIG_IGN);
    for (double end = now() + seconds; now() < end;) {
        if (fork() == 0) {
            spin(0.004);
            _exit(0);
        }
        wait(NULL);
    }
}

int main(int argc, char **argv)
{
    const char *how = argv[1];
    double seconds = atof(argv[argc - 1]);
    pthread_t thread;

    signal(SIGCONT, nothing);
    puts("on");
    fflush(stdout);
    if (!strcmp(how, "timers"))
        make_timers();
    if (!strcmp(how, "helpers"))
        helpers(3, 0);
    if (!strcmp(how, "helpers with timers"))
        helpers(3, 1);
    if (!strcmp(how, "threads"))
        for (int k = 0; k < 4; k++)
            pthread_create(&thread, NULL, wake_all, NULL);
    if (!strcmp(how, "rotation"))
        rotate(seconds);
    else if (!strcmp(how, "unwaited children"))
        unwaited(seconds);
    else if (!strcmp(how, "children")) {
        for (double end = now() + seconds; now() < end; wait(NULL))
            if (fork() == 0) {
                spin(0.004);
                _exit(0);
            }
    } else
        spin(seconds);
    return 0;
}
