/* One letter of the grammar is one kind of value: a number, a word, or a struct whose fields are drawn; flags are those
 * that the kernel knows as often as not. */
#define _GNU_SOURCE
#include "values.h"

#include <asm/ioctls.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "calls.h"

#define ROOM 512
static union {
    uint64_t words[ROOM / 8];
    uint8_t bytes[ROOM];
} noise[8];
static unsigned turn;

static void *room(void) {
    return noise[turn++ % 8].bytes;
}

static uint64_t flags(void) {
    static const uint64_t known[] = {0x80000, 0x800,  0x1000, 0x100,    0x10000000, 0x20000000, 0x40000000,
                                     0x4000,  0x2000, 0x400,  0x200000, 0x1,        0x2,        0x4,
                                     0x8,     0x10,   0x20,   0x41,     0x241,      0x410000};
    uint64_t value = draw() % 3 ? 0 : known[draw() % (sizeof known / sizeof *known)];
    if (draw() % 2) value |= known[draw() % (sizeof known / sizeof *known)];
    return draw() % 8 ? value : 1ULL << draw() % 48;
}

uint64_t small(void) {
    static const uint64_t odd[] = {0, 1, 4096, 65535, 65534, (uint64_t)-1, 0x7fffffff, 0xffffffff, 1ULL << 40};
    return draw() % 3 ? draw() % 40 : odd[draw() % (sizeof odd / sizeof *odd)];
}

static uint64_t descriptor(void) {
    return draw() % 12 ? draw() % 24 : (uint64_t)-1;
}

/* This one's own, its parent's, init's, and whoever has the number outside. */
static uint64_t process(void) {
    switch (draw() % 5) {
    case 0: return (uint64_t)getppid();
    case 1: return 1;
    case 2: return 2 + draw() % 4000;
    default: return (uint64_t)getpid();
    }
}

static const char *word(void) {
    static const char *const words[] = {"tmpfs",      "proc",
                                        "overlay",    "sysfs",
                                        "cgroup2",    "bpf",
                                        "user",       "keyring",
                                        "asymmetric", "source",
                                        "lowerdir",   "ro",
                                        "user.x",     "security.capability",
                                        "trusted.x",  "system.posix_acl_access",
                                        "logon",      "_uid.0",
                                        "/name",      "mqueue",
                                        "devpts",     ""};
    return words[draw() % (sizeof words / sizeof *words)];
}

static void *random_bytes(void) {
    uint64_t *words = room();
    size_t i;
    for (i = 0; i < ROOM / 8; i++) words[i] = draw() % 3 ? 0 : draw() % 2 ? small() : draw();
    return words;
}

/* Namespaces and shared tables; an ordinary fork's signal. */
static uint64_t clone_flags(void) {
    static const uint64_t known[] = {0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000,   0x2000000,
                                     0x80,       0x200,   0x400,      0x8000,     0x1000,    0x100000000, 0x200000000};
    return known[draw() % (sizeof known / sizeof *known)] | (draw() % 3 ? 0 : 17);
}

static void *vectors(void) {
    struct iovec *all = room();
    size_t i;
    for (i = 0; i < 4; i++)
        all[i] = (struct iovec){draw() % 6 ? (void *)random_bytes() : (void *)draw(), draw() % ROOM};
    return all;
}

static void *address(void) {
    static const uint16_t ports[] = {1, 9, 22, 53, 80, 443, 6379, 8080};
    const uint16_t port = htons(ports[draw() % 8]);
    void *to = random_bytes();
    switch (draw() % 6) {
    case 0: *(struct sockaddr_in *)to = (struct sockaddr_in){AF_INET, port, {htonl(INADDR_LOOPBACK)}, {0}}; break;
    case 1: *(struct sockaddr_in *)to = (struct sockaddr_in){AF_INET, port, {htonl(0xcb007107)}, {0}}; break;
    case 2: *(struct sockaddr_in6 *)to = (struct sockaddr_in6){AF_INET6, port, 0, IN6ADDR_LOOPBACK_INIT, 1}; break;
    case 3: {
        struct sockaddr_un *name = to;
        memset(name, 0, sizeof *name);
        name->sun_family = AF_UNIX;
        strncpy(name->sun_path + draw() % 2, draw_path(), sizeof name->sun_path - 2);
        break;
    }
    case 4:
        *(struct sockaddr_nl *)to = (struct sockaddr_nl){AF_NETLINK, 0, (uint32_t)small(), (uint32_t)small()};
        break;
    default: *(uint16_t *)to = (uint16_t)(draw() % 46);
    }
    return to;
}

static void *question(void) {
    struct nlmsghdr *header = random_bytes();
    header->nlmsg_len = draw() % 3 ? 32 : (uint32_t)small();
    header->nlmsg_type = (uint16_t)(draw() % 3 ? RTM_BASE + draw() % 100 : draw() % 64);
    header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags());
    return header;
}

/* SCM_RIGHTS, SCM_CREDENTIALS, IP_PKTINFO, IPV6_HOPLIMIT, SO_MARK, and what nobody knows. */
static void *ancillary(size_t *size) {
    static const struct {
        int level, type;
    } known[] = {{SOL_SOCKET, 1}, {SOL_SOCKET, 1}, {SOL_SOCKET, 2},  {SOL_SOCKET, 4}, {0, 8},
                 {41, 50},        {41, 52},        {SOL_SOCKET, 36}, {17, 103},       {279, 1}};
    uint8_t *to = random_bytes();
    size_t at = 0;
    while (at + 64 < ROOM && draw() % 3) {
        struct cmsghdr *header = (struct cmsghdr *)(void *)(to + at);
        const size_t which = draw() % (sizeof known / sizeof *known), have = draw() % 40;
        header->cmsg_len = draw() % 6 ? CMSG_LEN(have) : small();
        header->cmsg_level = draw() % 8 ? known[which].level : (int)small();
        header->cmsg_type = draw() % 8 ? known[which].type : (int)small();
        memset(to + at + sizeof *header, 0, have);
        *(int *)(void *)(to + at + sizeof *header) = (int)descriptor();
        at += CMSG_SPACE(have);
    }
    *size = draw() % 8 ? at : small();
    return to;
}

static void *message(void) {
    struct msghdr *to = random_bytes();
    size_t size = 0;
    memset(to, 0, sizeof *to);
    if (draw() % 3 == 0) to->msg_name = address(), to->msg_namelen = (socklen_t)(draw() % 128);
    to->msg_iov = vectors(), to->msg_iovlen = draw() % 4;
    to->msg_control = ancillary(&size), to->msg_controllen = size;
    to->msg_flags = (int)flags();
    return to;
}

/* Requests of terminals, files, sockets, namespaces, seccomp's listener, and of any driver. */
static uint64_t request(void) {
    static const uint64_t known[] = {
        TIOCSTI,  0x541c,     TIOCSCTTY,  TIOCNOTTY,  TCSETS,     TIOCSETD,   TIOCGPTPEER, FIONBIO,    FIOASYNC,
        FIONREAD, 0x40086602, 0x80086601, 0x40049409, 0x4020940d, 0xc0189436, 0x8914,      0x8924,     0x89a0,
        0x894c,   0xb701,     0xb702,     0xb703,     0xb70a,     0xc0502100, 0xc0182101,  0x40182103, 0x5331,
        0x5,      0xc0045877, 0xc0045878, 0x5452,     0x8901,     0x8902,     0xae01,      0xaa00};
    return draw() % 3 ? known[draw() % (sizeof known / sizeof *known)] : draw() & 0xffffffff;
}

static void *filter(void) {
    static struct {
        uint16_t code;
        uint8_t jt, jf;
        uint32_t k;
    } code[2] = {{0x20, 0, 0, 0}, {0x06, 0, 0, 0x7fff0000}};
    static struct {
        uint16_t length;
        void *code;
    } program;
    program.length = draw() % 6 ? 2 : (uint16_t)small();
    program.code = code;
    code[1].k = draw() % 3 ? 0x7fff0000 : draw() % 2 ? 0x7fc00000 : 0x50001;
    return &program;
}

static void *arguments_of_a_program(void) {
    char **list = room();
    list[0] = "guest", list[1] = "1", list[2] = draw() % 4 ? NULL : (char *)draw(), list[3] = NULL;
    return list;
}

static void *filled(uint64_t first, uint64_t second, uint64_t third) {
    uint64_t *words = random_bytes();
    words[0] = first, words[1] = second, words[2] = third;
    if (draw() % 4) memset(words + 3, 0, ROOM - 24);
    return words;
}

long draw_argument(char letter) {
    switch (letter) {
    case '0': return 0;
    case 'a': return (long)(draw() % 3 ? draw() % 2 ? AF_UNIX : AF_INET : draw() % 46);
    case 'A': return (long)arguments_of_a_program();
    case 'b': return draw() % 8 ? (long)random_bytes() : (long)(draw() % 2 ? 0 : draw());
    case 'B': return (long)filled(draw() % 12, draw() % 8, draw() % 64);
    case 'c': return (long)(draw() % 3 ? draw() % 40 : 1024 + draw() % 40);
    case 'C': return (long)filled(clone_flags(), (uint64_t)(uintptr_t)room(), 0);
    case 'd': return draw() % 3 ? -100 : (long)descriptor();
    case 'D': return (long)address();
    case 'f': return (long)descriptor();
    case 'F': return (long)filter();
    case 'g': return (long)(draw() % 3 ? 0 : draw() % 65);
    case 'H': return (long)filled(flags(), draw() % 2 ? 0 : 0644, draw() % 2 ? 0 : draw() % 64);
    case 'i': return (long)request();
    case 'k': return (long)word();
    case 'l': return draw() % 2 ? SOL_SOCKET : (long[]){0, 6, 17, 41, 270, 279, 263}[draw() % 7];
    case 'L': return (long)filled(draw() & 0xffff, draw() & 3, draw() & 3);
    case 'm': return (long)((long[]){0644, 04755, 0, 0777, 0020666, 0060666, 0010644, 0140755}[draw() % 8]);
    case 'M': return (long)message();
    case 'o': return (long)(draw() % 90);
    case 'p': return draw() % 16 ? (long)draw_path() : (long)random_bytes();
    case 'P': return (long)process();
    case 'Q': return (long)question();
    case 'R': return (long)filled(small(), small(), 0);
    case 's': return (long)clone_flags();
    case 'S': return (long)filled(flags(), flags(), draw() & 0x1f0000);
    case 't': return (long)((1 + draw() % 5) | (draw() % 2 ? 0x80000 : 0x800));
    case 'T': return draw() % 4 ? (long)filled(0, draw() % 1000000, 0) : 0;
    case 'U': return (long)filled(0, flags(), flags());
    case 'V': return (long)vectors();
    case 'W': return (long)filled(0, (uint64_t)(uintptr_t)room(), 2);
    case 'x': return (long)flags();
    case 'y':
        return (long)(draw() % 6 ? draw() % 80
                                 : (uint64_t[]){0x59616d61, 0x53564d41, 0x4d4d444b, 0x41555856}[draw() % 4]);
    case 'z': return (long)((long[]){8, 16, 24, 32, 64, 88, 110, 128}[draw() % 8]);
    default: return (long)small();
    }
}
