/* See path_calls.h. What is not here is not watched: chdir(2) is cage-init's own, the rest rarely meets what a cage
 * lacks. The names are those of compile.watched, which hands the calls over; a test compares the two. */
#include "path_calls.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "../emulate/call_facts.h"
#include "notify.h"

#define NO (-1)
#define FOLLOWS 1, AT_SYMLINK_NOFOLLOW
#define STAYS 0, 0

static const struct path_argument ROWS[] = {
#ifdef SYS_open
    {SYS_open, NO, 0, 1, PSB_WANTED_READ, 1, O_NOFOLLOW},  {SYS_creat, NO, 0, NO, PSB_WANTED_CREATE, 1, 0},
    {SYS_stat, NO, 0, NO, PSB_WANTED_LOOK, 1, 0},          {SYS_lstat, NO, 0, NO, PSB_WANTED_LOOK, STAYS},
    {SYS_access, NO, 0, NO, PSB_WANTED_LOOK, 1, 0},        {SYS_readlink, NO, 0, NO, PSB_WANTED_LOOK, STAYS},
    {SYS_mkdir, NO, 0, NO, PSB_WANTED_MAKE, STAYS},        {SYS_mknod, NO, 0, NO, PSB_WANTED_MAKE, STAYS},
    {SYS_rmdir, NO, 0, NO, PSB_WANTED_REMOVE, STAYS},      {SYS_unlink, NO, 0, NO, PSB_WANTED_REMOVE, STAYS},
    {SYS_rename, NO, 0, NO, PSB_WANTED_REMOVE, STAYS},     {SYS_rename, NO, 1, NO, PSB_WANTED_MAKE, STAYS},
    {SYS_link, NO, 0, NO, PSB_WANTED_LOOK, STAYS},         {SYS_link, NO, 1, NO, PSB_WANTED_MAKE, STAYS},
    {SYS_symlink, NO, 1, NO, PSB_WANTED_MAKE, STAYS},      {SYS_chmod, NO, 0, NO, PSB_WANTED_CHANGE, 1, 0},
    {SYS_chown, NO, 0, NO, PSB_WANTED_CHANGE, 1, 0},       {SYS_lchown, NO, 0, NO, PSB_WANTED_CHANGE, STAYS},
#endif
#ifdef SYS_newfstatat
    {SYS_newfstatat, 0, 1, 3, PSB_WANTED_LOOK, FOLLOWS},
#endif
#ifdef SYS_renameat
    {SYS_renameat, 0, 1, NO, PSB_WANTED_REMOVE, STAYS},    {SYS_renameat, 2, 3, NO, PSB_WANTED_MAKE, STAYS},
#endif
    {SYS_openat, 0, 1, 2, PSB_WANTED_READ, 1, O_NOFOLLOW}, {SYS_execve, NO, 0, NO, PSB_WANTED_RUN, 1, 0},
    {SYS_execveat, 0, 1, 4, PSB_WANTED_RUN, FOLLOWS},      {SYS_statx, 0, 1, 2, PSB_WANTED_LOOK, FOLLOWS},
    {SYS_faccessat, 0, 1, NO, PSB_WANTED_LOOK, 1, 0},      {SYS_faccessat2, 0, 1, 3, PSB_WANTED_LOOK, FOLLOWS},
    {SYS_readlinkat, 0, 1, NO, PSB_WANTED_LOOK, STAYS},    {SYS_mkdirat, 0, 1, NO, PSB_WANTED_MAKE, STAYS},
    {SYS_mknodat, 0, 1, NO, PSB_WANTED_MAKE, STAYS},       {SYS_unlinkat, 0, 1, NO, PSB_WANTED_REMOVE, STAYS},
    {SYS_renameat2, 0, 1, NO, PSB_WANTED_REMOVE, STAYS},   {SYS_renameat2, 2, 3, NO, PSB_WANTED_MAKE, STAYS},
    {SYS_linkat, 0, 1, NO, PSB_WANTED_LOOK, STAYS},        {SYS_linkat, 2, 3, NO, PSB_WANTED_MAKE, STAYS},
    {SYS_symlinkat, 1, 2, NO, PSB_WANTED_MAKE, STAYS},     {SYS_truncate, NO, 0, NO, PSB_WANTED_WRITE, 1, 0},
    {SYS_fchmodat, 0, 1, NO, PSB_WANTED_CHANGE, 1, 0},     {SYS_fchownat, 0, 1, 4, PSB_WANTED_CHANGE, FOLLOWS},
    {SYS_utimensat, 0, 1, 3, PSB_WANTED_CHANGE, FOLLOWS},
};

int path_arguments(int number, const struct path_argument **rows) {
    size_t i;
    int count = 0;
    for (i = 0; i < sizeof ROWS / sizeof *ROWS && count < PSB_LOOKS; i++)
        if (ROWS[i].number == number) rows[count++] = &ROWS[i];
    return count;
}

int names_paths(int number) {
    const struct path_argument *rows[PSB_LOOKS];
    return path_arguments(number, rows) > 0;
}

/* An open makes, writes or reads; one of O_PATH only looks. */
static uint32_t wanted_by_open(uint64_t flags, uint64_t *lookup) {
    const int writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
    if (flags & O_PATH) return PSB_WANTED_LOOK;
    if (!(flags & O_CREAT)) return writes ? PSB_WANTED_WRITE : PSB_WANTED_READ;
    if (flags & O_EXCL) *lookup = O_NOFOLLOW;
    return writes && !(flags & O_EXCL) ? PSB_WANTED_CREATE : PSB_WANTED_MAKE;
}

uint32_t wanted_by(const struct call_facts *facts, const struct path_argument *row, uint64_t *lookup) {
    const uint64_t flags = row->flags < 0 ? 0 : facts->args[row->flags];
    *lookup = !row->follows || flags & row->unfollowing ? O_NOFOLLOW : 0;
    return row->wanted == PSB_WANTED_READ ? wanted_by_open(flags, lookup) : row->wanted;
}
