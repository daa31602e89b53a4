"""The kernel behind the opcodes: what an app may have an effect on, each room with its wrappers.

kernel.py   Kernel: the rooms together, and the one way into them    owned.py   who owns which handle, asked again
fs.py       files of a workspace, by descriptor, with a trash        chan.py    channels between domains
tree.py     a workspace, held by a descriptor                        obeyed.py   what no app writes in one
win.py      windows, as a model that an observer draws               event.py   events to domains
"""
