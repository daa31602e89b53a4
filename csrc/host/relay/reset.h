/* Resets of connections (RST): the peer learns of it at once. */
#ifndef PSB_RELAY_RESET_H
#define PSB_RELAY_RESET_H

/* Resets a connection even if another descriptor of the socket is open, and drops what it had still to send. Works for
 * a connect that is under way and for a listener, too. 0, or -errno. */
int reset_connection(int fd);
/* Makes a close of our own socket send a reset, without waiting for its peer (SO_LINGER). */
void reset_hard(int fd);

#endif
