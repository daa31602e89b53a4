/* The class of a system call (enum psb_call_class), by its number. */
#ifndef PSB_CALL_CLASS_H
#define PSB_CALL_CLASS_H

#include <stdint.h>

#include "notify.h"

uint32_t class_of(int number);
/* Whether a call of the class is about a socket. */
int is_network(uint32_t call);

#endif
