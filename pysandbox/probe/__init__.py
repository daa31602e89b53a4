"""What this host can do (facts, features) and what the named paths are (paths). Reads; changes nothing.

facts.py       what the compiler is told           host.py       the host's part of it, asked once
features.py    each feature, and how it is tried   kernel.py     which kernel answers
restriction.py why it refuses what a cage needs    cgroups.py    where groups of cages may be made
paths.py       the paths' part                     matching.py   what patterns match now
base_paths.py  what each policy asks, kept while it holds
guards.py, planted.py, searched.py, repository.py, configured.py, linked.py   what a cage may write that the host obeys
small_file.py  a plain file that a cage may have made      unchanged.py   directories that need no second look
executables.py files that are listed to be run     accounts.py   the caller's own lines of passwd and group
file_systems.py, mounted.py, opening.py            what lies on what, and what its clocks say
state.py, kept.py, prebuilt.py                     what pysandbox keeps for itself, and has built
"""
