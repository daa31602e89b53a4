/* What an error is called. */
#ifndef PSB_LAUNCHER_ERRNO_TEXT_H
#define PSB_LAUNCHER_ERRNO_TEXT_H

/* strerror(3), in the words of the Python that built this program. */
const char *errno_text(int number);

#endif
