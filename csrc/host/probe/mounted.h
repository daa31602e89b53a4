/* Whether something is mounted at paths of a cage (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_MOUNTED_H
#define PSB_HOST_MOUNTED_H

/* 1 when something is mounted at each of these paths in the root directory of that process, reached by no symlink; 0
 * where not, or where that cannot be told. `paths` are absolute, one after the other, each with a NUL byte at its end;
 * an empty one is the last. */
int psb_all_mounted(int pid, const char *paths);

#endif
