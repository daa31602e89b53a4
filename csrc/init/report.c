/* What cage-init tells the host: one fixed record at a time, whole (it is shorter than PIPE_BUF), on the command's own
 * pipe. The pipe is empty and the records are few, so the write never blocks; a host that went away is no error. */
#include "init.h"

void fill(void *to, uint8_t value, size_t size) {
    volatile uint8_t *bytes = to;
    while (size--) *bytes++ = value;
}

void report(int fd, const struct psb_report *record) {
    sys_write(fd, record, sizeof *record);
}
