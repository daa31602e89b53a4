/* What the host says to cage-init, and hears of it (read by cffi, preprocessor lines stripped). Each returns 0 or
 * -errno unless it says otherwise, may be called from any thread, and holds no lock. -EINTR is for the caller to answer
 * with another call: in between Python runs its signal handlers, so that Ctrl-C works (PEP 475). */
#ifndef PSB_HOST_MESSAGES_H
#define PSB_HOST_MESSAGES_H

#include <stddef.h>

#include "../../abi.h"

/* Sends one message with its descriptors (SCM_RIGHTS). Never blocks for longer than cage-init needs to read. */
int psb_send(int control, const void *message, size_t size, const int *fds, size_t n_fds);
/* As psb_send, to any socket, but never waits: -EAGAIN. */
int psb_pass(int to, const void *message, size_t size, const int *fds, size_t n_fds);

/* Takes the listener of a cage that was set up with PSB_SETUP_LISTENER: its descriptor (close-on-exec), or -errno. */
int psb_take_listener(int control, int pidfd);

/* Takes the upper layers of a cage that was made with PSB_MOUNT_UPPER, which its setup has sent: a descriptor of their
 * directory (close-on-exec), or -errno. To be called once, before anything is sent. */
int psb_take_upper(int control);

/* Tells cage-init that an order follows at once; never blocks, and it does not matter whether it arrives. */
void psb_wake_hint(int control);

/* Waits until a report pipe holds a record. Returns 1, 0 at end-of-file (cage-init is gone), or -errno. */
int psb_read_report(int fd, struct psb_report *report);

#endif
