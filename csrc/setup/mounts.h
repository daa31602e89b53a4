/* What other steps of the mount plan use of mounts.c: places below `staging`, sources of the host. */
#ifndef PSB_SETUP_MOUNTS_H
#define PSB_SETUP_MOUNTS_H

#include "setup.h"

struct path {
    char text[4096];
};

struct object {
    long fd;
    int is_directory;
};

/* -1: it is too long. */
int join_path(struct path *path, const char *staging, const char *inside);
void fd_path(char *text, long fd);
/* The source, reached without any symlink and still what was looked at. */
int open_source(const struct psb_mount *mount, const char *path, struct object *source, struct psb_error *error);
/* Mounts `type` or binds `source` at the step's target, then applies the step's attributes. */
int mount_at(const struct psb_mount *mount, const char *staging, const char *source, const char *type,
             unsigned long flags, int directory, enum psb_step step, struct psb_error *error);

#endif
