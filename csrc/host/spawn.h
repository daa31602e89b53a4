/* What the extension offers the launcher (read by cffi, preprocessor lines stripped). Every function returns 0 or
 * -errno, may be called from any thread, and holds no lock. -EINTR is for the caller to answer with another call: in
 * between Python runs its signal handlers, so that Ctrl-C works (PEP 475). */

struct psb_opened {
    int32_t pid;     /* of cage-init, in the caller's PID namespace */
    int32_t pidfd;   /* close-on-exec */
    int32_t control; /* close-on-exec; closing it ends the cage */
    struct psb_error error;
};

/* Carries out a plan and leaves cage-init waiting for its first message. On failure nothing is left behind, and
 * opened->error says which step failed. */
int psb_open_cage(const struct psb_plan *plan, int init_fd, struct psb_opened *opened);

/* Sends one message with its descriptors (SCM_RIGHTS). Never blocks for longer than cage-init needs to read. */
int psb_send(int control, const void *message, size_t size, const int *fds, size_t n_fds);

/* Takes the listener of a cage that was set up with PSB_SETUP_LISTENER: its descriptor (close-on-exec), or -errno. */
int psb_take_listener(int control, int pidfd);

/* Tells cage-init that an order follows at once; never blocks, and it does not matter whether it arrives. */
void psb_nudge(int control);

/* Waits until a report pipe holds a record. Returns 1, 0 at end-of-file (cage-init is gone), or -errno. */
int psb_read_report(int fd, struct psb_report *report);

/* openat2 below `root_fd` with the given RESOLVE_* flags: the descriptor, or -errno. O_CLOEXEC is added. */
int psb_open_inside(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);
/* The same with no capability in effect, so that the kernel asks what the user may, and not what root may. `user`: as
 * that user and group, for a cage that root has started as another; 0: as the caller's own. */
int psb_open_powerless(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve, uint32_t user);

/* The null device on a read-only mount of nobody's: it is read and written like any, and who owns its node (root)
 * cannot change the node through the descriptor. -EPERM where the caller may not mount. */
int psb_open_null(void);

/* The calling thread from now on wants that long a turn on the CPU, and so gets it sooner. */
int psb_take_short_turns(uint64_t nanoseconds);

/* A digest of what the extension and cage-init must agree on; cage-init has the same in its file. */
const char *psb_abi(void);
/* The magic number of the file system that a descriptor is on (statfs(2)), or -errno. */
int64_t psb_file_system(int fd);

/* Covers what `target` (O_PATH, of a running cage) is with an unreadable file or directory, by a mount in its mount
 * namespace; `user` as above. 0, or -errno. */
int psb_cover(int init_pidfd, int target, int directory, uint32_t user);

/* Name of a step, or NULL past the end. */
const char *psb_step_name(int step);
