/* A short-lived child of the host that does one thing elsewhere; see vfork_child.c. */
#ifndef PSB_HOST_VFORK_CHILD_H
#define PSB_HOST_VFORK_CHILD_H

/* Runs run(argument) in a child that shares the caller's memory, and waits for its end. `flags` are those of clone(2):
 * CLONE_VM and CLONE_VFORK are added. The child makes raw system calls only, on what was prepared. 0, or -errno when
 * there was no child; how it went, `run` says in its argument. */
int run_in_vfork_child(int flags, void (*run)(void *), void *argument);

#endif
