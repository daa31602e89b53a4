/* Detached trees of the host's: mounts that are nowhere yet (open_tree(2)). Raw system calls only. */
#ifndef PSB_HOST_TREES_H
#define PSB_HOST_TREES_H

/* A detached copy of what is mounted at a path, reached without any symlink, and below it: its descriptor, or -errno.
 */
long take_tree(const char *path);
/* Swaps the ids of a detached tree (idmap.h), or leaves them as they are; nothing of it is shared with the host's
 * mounts afterwards. 0, or -errno. */
long map_tree(int tree, int idmap_fd);
long make_private(int tree);

#endif
