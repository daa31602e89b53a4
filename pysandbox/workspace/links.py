"""Where a link that a cage has made leads, once the tree has it: out of the tree, by its text or by a link on its way.

Each link of a workspace is judged by itself. Its text is followed through the tree as it is now; what a commit brings
beside it are directories, files, and links that are judged likewise, so that of several which lead out together one has
the mark.
"""

from __future__ import annotations

import errno
import os
import posixpath

from pysandbox.launch import native
from pysandbox.launch.below import open_below
from pysandbox.workspace.risk import leads_out

BENEATH = native.RESOLVE_BENEATH | native.RESOLVE_NO_MAGICLINKS
OUT = (errno.EXDEV, errno.ELOOP, errno.EAGAIN)  # beyond the tree; by a magic link or too many; nobody could say


def leaves(tree: int, path: bytes, target: bytes) -> bool:
    """Whether a link at `path` below the open directory `tree` leads out of it. What is not there leads nowhere."""
    if leads_out(path, target):
        return True
    way = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))  # of `..` it has none but the first
    try:
        os.close(open_below(tree, b"" if way == b"." else way, os.O_PATH, resolve=BENEATH))
    except OSError as error:
        return error.errno in OUT
    return False
