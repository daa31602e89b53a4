/* Opening what a caged process may have made (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_OPEN_INSIDE_H
#define PSB_HOST_OPEN_INSIDE_H

#include <stdint.h>

/* openat2 below `root_fd` with the given RESOLVE_* flags: the descriptor, or -errno. O_CLOEXEC is added. */
int psb_open_inside(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);
/* As psb_open_inside, with no capability in effect: the kernel asks what the user may, and not what root may. With
 * `user`, as that user and group, for a cage that root has started as another; with 0, as the caller's own. */
int psb_open_powerless(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve, uint32_t user);
/* How a name in an open directory is changed. */
enum psb_name_change {
    PSB_NAME_MKDIR,
    PSB_NAME_UNLINK,
    PSB_NAME_RMDIR,
    PSB_NAME_RENAME
};
/* Changes `name`, one component, which is never followed: mkdirat(2) with `mode`, unlinkat(2), or renameat(2) to
 * `other` in `other_fd`; with no capability in effect and as `user`, as psb_open_powerless. 0, or -errno. */
int psb_change_name(int change, int fd, const char *name, uint32_t mode, int other_fd, const char *other,
                    uint32_t user);
/* renameat2(2) with RENAME_* `flags`, between names of one component in two open directories. 0, or -errno. */
int psb_rename_name(int fd, const char *name, int other_fd, const char *other, uint32_t flags);
/* syncfs(2): what was written to the file system behind a descriptor is on its disk. 0, or -errno. */
int psb_sync_file_system(int fd);
/* The magic number of the file system that a descriptor is on (statfs(2)), or -errno. */
int64_t psb_file_system(int fd);

#endif
