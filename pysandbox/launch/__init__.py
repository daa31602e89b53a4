"""Carries out a Plan: the extension, cage-init's messages, standard streams, saved plans. Nothing here decides what a
cage may do.

START HERE: `native`, which opens a cage, and `orders`, which speaks with its cage-init.

    structs.py   a Plan as C structs            numbers.py   the kernel's numbers for its words
    stdio.py     the descriptors of a command   relay.py, intake.py   output and input that pass through the host
    plans.py     kept plans on disk             kept.py      one of them as bytes
    scratch.py   directories that cages share   placeholder.py   a file in place of one that is denied and absent
    confine.py   a ConfinementPlan onto this process
    netns.py     what is made in the network namespace of a cage
    private.py, own_lock.py, below.py, contents.py, located.py, removal.py   files of the host, which others may change
    ids.py, owner.py, proctext.py   names of cages; whose something is; text of /proc that a cage helps to write
    worker.py, forgotten.py   the background thread of a Runtime; what was collected before it was closed
    no_thread.py   what is said where no thread can be started
"""
