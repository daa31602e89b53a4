"""The Python that a command is, or is run by, seen from the command's path: what a cage has to show for it to run.

    program.py       from the command to its interpreter, `#!` and links and pyenv's shims followed, to a Toolchain
    installation.py  what an environment (pyvenv.cfg) and an installation of Python look like, and what is theirs
    ground.py        which places may be granted by such a look, and which a cage may have written
    shebang.py       the `#!` line of a script

`policy.found_by_name` asks, and grants what is answered.

What a cage can write does not choose what the next one sees: from a place where one may have written, the way leads to
installations of Python and to nothing else.
"""
