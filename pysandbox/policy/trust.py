"""What the user has looked at and trusts of the recipes that come with projects: a digest for each file.

Kept in the user's own state directory, where no cage writes unless it was granted. A digest is of the bytes that were
shown; a changed file is not trusted. The file must be the user's own, as ssh demands of its keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from pysandbox.errors import PolicyError
from pysandbox.policy.places import OURS, state_home
from pysandbox.policy.reading import read_regular
from pysandbox.policy.search import known
from pysandbox.policy.user_home import make_own

VERSION = 1


def trust_file() -> str:
    return os.path.join(state_home(known(os.environ)), OURS, "trust.json")


def pins() -> Mapping[str, str]:
    """Place (`search.place_of`) to SHA-256. Nothing trusted yet is an empty mapping; a file that cannot be believed is
    an error."""
    import json

    file = trust_file()
    try:
        document = json.loads(read_regular(file, lambda found: _check_ours(found, file)))
    except PolicyError:
        raise
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", file=file, suggestion="mend or remove it") from None
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"is not JSON: {error}", file=file, suggestion="remove it, and trust again") from None
    files = document.get("files") if isinstance(document, dict) and document.get("version") == VERSION else None
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise PolicyError("is not a record of trust", file=file, suggestion="remove it, and trust again")
    return files


def _check_ours(status: os.stat_result, file: str) -> None:
    if status.st_uid not in (0, os.geteuid()) or stat.S_IMODE(status.st_mode) & 0o022:
        raise PolicyError(
            "can be written by somebody else", file=file, suggestion="make it yours: chmod go-w, or remove it"
        )


def pin(digests: Mapping[str, str | None]) -> None:
    """Trust the files at these places with these digests, or with None no longer. Raises OSError where the record
    cannot be written."""
    import fcntl
    import json

    file = trust_file()
    with suppress(FileExistsError):
        make_own(os.path.dirname(file))
    with open(f"{file}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once must not lose one
        files = {**pins(), **digests}
        kept = {name: value for name, value in sorted(files.items()) if value is not None}
        descriptor = os.open(f"{file}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump({"version": VERSION, "files": kept}, stream, indent=2)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(f"{file}.new", file)
