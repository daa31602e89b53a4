"""One run as one page: what it ran, could and did reach, was refused and used; no script, no request, nothing to trust.

page.py  the page: its sections   frame.py  the frame of every page   pictures.py  the drawings   markup.py  escaping
style.py  the look
"""

from __future__ import annotations

from pysandbox.audit.report.page import page

__all__ = ["page"]
