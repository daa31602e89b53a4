"""What the user has looked at and trusts of the recipes that come with projects: a digest for each file.

Kept in the user's own state directory, where no cage writes unless it was granted. A digest is of the bytes that were
shown; a changed file is not trusted. The file must be the user's own, as ssh demands of its keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from pysandbox.errors import PolicyError
from pysandbox.policy.places import OURS, state_home
from pysandbox.policy.search import known

VERSION = 1


def trust_file() -> str:
    return os.path.join(state_home(known(os.environ)), OURS, "trust.json")


def pins() -> Mapping[str, str]:
    """Real path to SHA-256. Nothing trusted yet is an empty mapping; a file that cannot be believed is an error."""
    import json

    file = trust_file()
    try:
        with open(file, "rb") as stream:
            _demand_ours(os.fstat(stream.fileno()), file)
            document = json.loads(stream.read())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", file=file, suggestion="mend or remove it") from None
    except ValueError as error:
        raise PolicyError(f"is not JSON: {error}", file=file, suggestion="remove it, and trust again") from None
    files = document.get("files") if isinstance(document, dict) and document.get("version") == VERSION else None
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise PolicyError("is not a record of trust", file=file, suggestion="remove it, and trust again")
    return files


def _demand_ours(status: os.stat_result, file: str) -> None:
    if status.st_uid not in (0, os.geteuid()) or stat.S_IMODE(status.st_mode) & 0o022:
        raise PolicyError(
            "can be written by somebody else", file=file, suggestion="make it yours: chmod go-w, or remove it"
        )


def pin(path: str, digest: str | None) -> None:
    """Trust the file with this digest, or with None no longer. Raises OSError where the record cannot be written."""
    import fcntl
    import json

    file = trust_file()
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    with open(f"{file}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once must not lose one
        files = {**pins(), os.path.realpath(path): digest}
        kept = {name: value for name, value in sorted(files.items()) if value is not None}
        descriptor = os.open(f"{file}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump({"version": VERSION, "files": kept}, stream, indent=2)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(f"{file}.new", file)
