/* A process that keeps the descriptors it has, and nothing else (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_CONFINE_INSPECTOR_H
#define PSB_HOST_CONFINE_INSPECTOR_H

/* From now on the calling process, which has one thread, opens no file and makes no socket, connection, process or
 * program, and reaches no other process. Irrevocable. 0, or -errno where a part of it cannot be had. */
int psb_confine_inspector(void);
/* As that, for a process that accepts at listening sockets which it is given, and ends with the thread that started
 * it. */
int psb_confine_reader(void);

#endif
