/* What a filter may hand over, by number. Whatever is not here is PSB_CALL_OTHER, and refused. */
#include "call_class.h"

#include <sys/syscall.h>

#include "path_calls.h"

uint32_t class_of(int number) {
    switch (number) {
    case SYS_connect: return PSB_CALL_CONNECT;
    case SYS_bind: return PSB_CALL_BIND;
    case SYS_listen: return PSB_CALL_LISTEN;
    case SYS_sendto: return PSB_CALL_SENDTO;
    case SYS_sendmsg:
    case SYS_sendmmsg: return PSB_CALL_SENDMSG;
    case SYS_execve:
    case SYS_execveat: return PSB_CALL_EXEC;
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
#endif
    case SYS_openat: return PSB_CALL_OPEN;
#ifdef SYS_rename
    case SYS_rename:
#endif
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2: return PSB_CALL_RENAME;
    default: return names_paths(number) ? PSB_CALL_PATH : PSB_CALL_OTHER;
    }
}

int is_network(uint32_t call) {
    static const uint8_t NETWORK[PSB_CALL_CLASSES] = {
        [PSB_CALL_CONNECT] = 1, [PSB_CALL_BIND] = 1,    [PSB_CALL_LISTEN] = 1,
        [PSB_CALL_SENDTO] = 1,  [PSB_CALL_SENDMSG] = 1,
    };
    return NETWORK[call];
}
