/* The watch over the running command (pysandbox/cli/attend.py): its end, our signals, the clock and the terminal, in
 * one poll loop. */
#ifndef PSB_LAUNCHER_ATTEND_H
#define PSB_LAUNCHER_ATTEND_H

#include <stdint.h>

#include "services.h"
#include "streams.h"
#include "terminal.h"
#include "trail.h"

#define NO_CAUSE (-1)

struct attendance {
    int report, control;
    struct services *services;
    struct streams *streams;
    struct trail *trail;
    int cause; /* the exit code for having been ended by us, or NO_CAUSE */
    int insisted, ended;
    int64_t grace_ms, deadline, later; /* 0: none */
    int64_t interrupts[3];
    void (*act_later)(void *);
    void *argument;
    struct terminal terminal;
};

/* From now on the signals that are the command's arrive as bytes in a pipe. What the caller has us ignore stays
 * ignored. 0, or -1. */
int take_signals(void);
/* As it was, for the program that goes on in our place; what has arrived since comes to it, or ends it. */
void give_back_signals(void);
/* Whether one has arrived that ends a program which does nothing about it: SIGINT, SIGTERM or SIGHUP. */
int is_told_to_end(void);

/* Returns when the command has ended, or was killed because its grace ran out. */
void attend(struct attendance *attendance);
/* The command has ended: returns when all that it wrote has arrived, or nobody takes it. */
void let_through(const struct attendance *attendance);
/* The exit code of a command whose own is `own`. */
int code_after(const struct attendance *attendance, int own);

#endif
