#ifndef PSB_HOST_STANDARD_STREAMS_H
#define PSB_HOST_STANDARD_STREAMS_H

/* Call it before anything of a cage's is opened: the null device stands then where 0, 1 or 2 was closed. */
void occupy_standard_streams(void);

#endif
