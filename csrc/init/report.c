/* What cage-init tells the host: one fixed record at a time, whole (it is shorter than PIPE_BUF), on the command's own
 * pipe. The pipe is empty and the records are few, so the write never blocks; a host that went away is no error. */
#include "init.h"

#define PIPE_BUF_LEAST 512 /* _POSIX_PIPE_BUF; the kernel's is a page */

_Static_assert(sizeof(struct psb_report) <= PIPE_BUF_LEAST, "a record is written whole");

void report(int fd, const struct psb_report *record) {
    sys_write(fd, record, sizeof *record);
}
