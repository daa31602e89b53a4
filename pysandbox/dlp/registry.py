"""All detectors."""

from __future__ import annotations

from pysandbox.dlp.detector import Detector
from pysandbox.dlp.detectors import clouds, code, founding, keys, models, services

ALL: tuple[Detector, ...] = (*founding.ROWS, *keys.ROWS, *code.ROWS, *clouds.ROWS, *models.ROWS, *services.ROWS)
BY_NAME = {each.name: each for each in ALL}
BEARER = "bearer_token"  # whatever a more particular detector knows is that one's, not this one's
