/* Ending what a socket of a caged process does (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_CUT_H
#define PSB_HOST_CUT_H

/* Ends the connection of an IP socket, and drops what it has not sent: 0 or -errno. */
int psb_cut_socket(int fd);

#endif
