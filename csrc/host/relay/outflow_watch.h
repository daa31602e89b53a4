/* The wait for the first byte of every stream of output, in one thread; see outflow_watch.c. */
#ifndef PSB_HOST_OUTFLOW_WATCH_H
#define PSB_HOST_OUTFLOW_WATCH_H

struct watched {
    int source;
    void *stream;
    void (*serve)(void *stream); /* there is something: in a thread of its own */
    void (*end)(void *stream);   /* nothing has ever come, and nothing will */
};

/* Calls one of the two, once; until then it is kept where it is. 0 or -errno. */
int watch_source(struct watched *watched);

#endif
