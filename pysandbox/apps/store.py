"""What is installed for this user: the key that signs, and for each app its grant, its files and its last run.

    $XDG_STATE_HOME/pysandbox/apps/key            0600, made once
    .../APP_ID/grant                              the signed record
    .../APP_ID/package/                           the files it is of
    .../APP_ID/denials.jsonl, journal.jsonl       of the last run
    .../APP_ID/files/                             its workspace, where none is named

The directory is 0700, and no cage reaches it (`probe.kept`): whoever could write here could grant.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from pysandbox.apps.entrypoint import wider_entrypoint
from pysandbox.apps.grant import AppGrant, GrantKey, reduce_request, sign, verify, wider
from pysandbox.apps.kernel.tree import DEBUGGED, WORKSPACE
from pysandbox.apps.manifest import AppManifest, matches_app_id, version_key
from pysandbox.apps.package import AppPackage
from pysandbox.apps.scope import Scopes
from pysandbox.errors import AppError, PolicyError
from pysandbox.launch.private import is_private, make_private
from pysandbox.launch.removal import remove_tree
from pysandbox.policy.refusal import did_you_mean, shown
from pysandbox.probe.state import apps_directory
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.apps.outcome import AppOutcome

KEY_BYTES = 32
GRANT, PACKAGE, DENIALS, JOURNAL = "grant", "package", "denials.jsonl", "journal.jsonl"
REMOVE_KEY = "look what is there, remove it, then revoke the apps, and install them again"
INSTALL_AGAIN = "look who changed it, then revoke it, and install the app again"
NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC


class Installed(NamedTuple):
    grant: AppGrant
    package: AppPackage

    @property
    def manifest(self) -> AppManifest:
        return self.package.manifest()


class AppStore:
    """`directory` None: the user's own. Raises AppError where it, or the key in it, is open to others."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = os.path.abspath(apps_directory() if directory is None else directory)
        try:
            make_private(self.directory)
            _require_own(os.lstat(self.directory), self.directory, stat.S_IFDIR)
            self.key = self._key()
        except OSError as error:
            raise AppError(f"{self.directory} cannot be where apps are installed: {error.strerror}",
                           "make it writable to you, or name another one: XDG_STATE_HOME") from None  # fmt: skip

    # ---- install ------------------------------------------------------------------------------------------------

    def install(
        self, package: AppPackage, *, allow: tuple[str, ...] | None = None, reduce: Scopes | None = None,
        accept: bool = False,
    ) -> AppGrant:  # fmt: skip
        """Grants what `allow` names of what the app asks for, under scopes no wider than `reduce`; without an `allow`,
        what its last version was granted, and no more of it. Raises AppError for an update that widens and was not
        accepted, and for an older version.
        """
        manifest = package.manifest()
        with self._alone():
            old = self.granted(manifest.app_id)
            if allow is None:
                allow = tuple(each for each in manifest.requested if old is not None and each in old.granted)
                reduce = old.scopes if reduce is None and old is not None else reduce
            grant = reduce_request(manifest, package.digest, allow, reduce, int(time.time()))
            if old is not None:
                _require_newer(grant, old)
                _require_accepted(grant, [*wider(grant, old), *wider_entrypoint(manifest, self._before(old))], accept)
            self._write(grant, package)
        return grant

    def _before(self, old: AppGrant) -> AppManifest | None:
        """The manifest of the installed version, None where its files are not those that were granted."""
        try:
            package = self._package(old.app_id)
            return package.manifest() if package.digest == old.package else None
        except (AppError, PolicyError):
            return None

    @contextmanager
    def _alone(self, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        """One installs at a time, and nobody reads meanwhile: what was asked of a grant is so when it is replaced."""
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | NO_LINK)
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)

    def _write(self, grant: AppGrant, package: AppPackage) -> None:
        """Raises AppError where there is no room, and then what was installed stays. The grant comes last: until it is
        there, the files are those of no grant, and nothing runs."""
        place = self._place(grant.app_id)
        fresh = draft = None
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            fresh = tempfile.mkdtemp(prefix=".new-", dir=place)
            package.write(fresh)
            draft = _draft(place, (sign(grant, self.key),))
            remove_tree(os.path.join(place, PACKAGE))
            os.rename(fresh, os.path.join(place, PACKAGE))
            os.rename(draft, os.path.join(place, GRANT))
        except BaseException as error:
            for each in filter(None, (fresh, draft)):
                remove_tree(each)
            if isinstance(error, OSError):
                raise AppError(f"{grant.app_id} cannot be installed in {place}: {error.strerror}",
                               "make room there, or make it writable to you") from None  # fmt: skip
            raise

    # ---- what is there ------------------------------------------------------------------------------------------

    def app_ids(self) -> list[str]:
        return sorted(each for each in os.listdir(self.directory)
                      if os.path.lexists(os.path.join(self.directory, each, GRANT)))  # fmt: skip

    def granted(self, app_id: str) -> AppGrant | None:
        """The verified grant, None for none. Raises AppError."""
        record = self._read(app_id, GRANT)
        return None if record is None else verify(record, self.key, app_id)

    def grants(self) -> Iterator[AppGrant]:
        for each in self.app_ids():
            if (grant := self.granted(each)) is not None:
                yield grant

    def load(self, app_id: str) -> Installed:
        """Grant and package, which fit each other. Raises AppError."""
        with self._alone(fcntl.LOCK_SH):
            grant = self.require(app_id)
            package = self._package(app_id)
        if package.digest != grant.package:
            raise AppError(f"the files of {app_id} are not those that were granted", "install the app again")
        return Installed(grant, package)

    def _package(self, app_id: str) -> AppPackage:
        path = os.path.join(self._place(app_id), PACKAGE)
        try:
            return AppPackage.read(path)
        except OSError as error:
            raise AppError(f"the files of {app_id} cannot be read: {error.strerror}", "install the app again") from None

    def require(self, app_id: str) -> AppGrant:
        """Raises AppError."""
        grant = self.granted(app_id)
        if grant is None:
            near = did_you_mean(app_id, self.app_ids())
            raise AppError(f"{shown(app_id)} is not installed", near or "pysandbox app list shows what is")
        return grant

    def revoke(self, app_id: str) -> AppGrant | None:
        """Nothing of it runs again; its workspace stays. A run that goes on keeps what it began with. None for a grant
        that did not hold, which goes like any other."""
        with self._alone():
            grant, place = self._found(app_id), self._place(app_id)
            remove_tree(os.path.join(place, GRANT))
            remove_tree(os.path.join(place, PACKAGE))
        return grant

    def _found(self, app_id: str) -> AppGrant | None:
        """None for a record that does not hold. Raises AppError where there is none."""
        try:
            return self.require(app_id)
        except AppError:
            if not os.path.lexists(os.path.join(self._place(app_id), GRANT)):
                raise
            return None

    def workspace(self, app_id: str, *, debug: bool = False) -> str:
        """The directory of an app that was given none, made if need be; a package in debugging has one of its own,
        whatever app it says it is."""
        path = os.path.join(self._place(app_id), DEBUGGED if debug else WORKSPACE)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    # ---- files --------------------------------------------------------------------------------------------------

    def keep(self, app_id: str, name: str, content: bytes | Iterable[bytes]) -> None:
        """Replaces a file as a whole, or leaves it as it was."""
        place = self._place(app_id)
        os.makedirs(place, mode=0o700, exist_ok=True)
        fresh = _draft(place, (content,) if isinstance(content, bytes) else content)
        os.rename(fresh, os.path.join(place, name))

    def keep_run(self, app_id: str, outcome: AppOutcome) -> None:
        """Log and journal of one run. Raises AppError where one cannot be written: a journal of another run than the
        log's stays nowhere."""
        journal = outcome.written.pieces() if outcome.written is not None else ()
        with self._alone():
            try:
                self.keep(app_id, DENIALS, outcome.log.text())
                self.keep(app_id, JOURNAL, journal)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(os.path.join(self._place(app_id), JOURNAL))
                raise self._unwritable(app_id, error) from None

    def require_writable(self, app_id: str) -> None:
        """Raises AppError where the log of a run could not be kept: asked before it has any effect."""
        place = self._place(app_id)
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            fd, path = tempfile.mkstemp(prefix=".new-", dir=place)
            os.close(fd)
            os.unlink(path)
        except OSError as error:
            raise self._unwritable(app_id, error) from None

    def _unwritable(self, app_id: str, error: OSError) -> AppError:
        return AppError(f"log and journal of {app_id} cannot be kept in {self._place(app_id)}: {error.strerror}",
                        "make room there, or make it writable to you")  # fmt: skip

    def last(self, app_id: str, name: str) -> bytes:
        """The log or the journal of the last run. Raises AppError."""
        content = self._read(app_id, name)
        if content is None:
            raise AppError(f"{shown(app_id)} has not run", f"run it: pysandbox app run {app_id}")
        return content

    def _read(self, app_id: str, name: str) -> bytes | None:
        path = os.path.join(self._place(app_id), name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | NO_LINK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise AppError(f"{path} cannot be read: {error.strerror}", INSTALL_AGAIN) from None
        return _own_bytes(fd, path)

    def _place(self, app_id: str) -> str:
        if not matches_app_id(app_id):
            raise AppError(f"{shown(app_id)} is no app_id", "pysandbox app list shows those that are installed")
        return os.path.join(self.directory, app_id)

    def _key(self) -> GrantKey:
        path = os.path.join(self.directory, "key")
        if not os.path.lexists(path):
            self._make_key(path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | NO_LINK)
        except OSError as error:
            raise AppError(f"the key of the grants cannot be opened: {path}: {error.strerror}", REMOVE_KEY) from None
        secret = _own_bytes(fd, path)
        if len(secret) != KEY_BYTES:
            raise AppError(f"the key of the grants is not whole: {path}", REMOVE_KEY)
        return GrantKey.of(secret)

    def _make_key(self, path: str) -> None:
        """Whole when it has its name: another one, who comes at the same time, reads no half of it."""
        fd, fresh = tempfile.mkstemp(prefix=".new-", dir=self.directory)
        try:
            with open(fd, "wb") as made:
                made.write(os.urandom(KEY_BYTES))
                made.flush()
                os.fsync(fd)
            with suppress(FileExistsError):  # of the other one, then
                os.link(fresh, path, follow_symlinks=False)
        finally:
            os.unlink(fresh)


def _draft(place: str, content: Iterable[bytes]) -> str:
    """The path of a new file of that content, on the disk as a whole, or no file. Raises OSError."""
    fd, path = tempfile.mkstemp(prefix=".new-", dir=place)
    try:
        with open(fd, "wb") as stream:
            stream.writelines(content)
            stream.flush()
            os.fsync(fd)
    except BaseException:
        os.unlink(path)
        raise
    return path


def _own_bytes(fd: int, path: str) -> bytes:
    """All of a file of this user alone; closes it. Raises AppError."""
    try:
        _require_own(os.fstat(fd), path, stat.S_IFREG)
        with open(fd, "rb", closefd=False) as stream:
            return stream.read()
    finally:
        os.close(fd)


def _require_own(found: os.stat_result, path: str, kind: int) -> None:
    """A file or directory of this user alone."""
    if stat.S_IFMT(found.st_mode) != kind or not is_private(found):
        raise AppError(f"{path} is not yours alone", f"look who uses it, then chmod go= {path}")


def _require_newer(new: AppGrant, old: AppGrant) -> None:
    if version_key(new.version) < version_key(old.version):
        raise AppError(
            f"{new.app_id} {old.version} is installed, and {new.version} is older", "revoke it first if that is meant"
        )


def _require_accepted(new: AppGrant, added: list[str], accept: bool) -> None:
    if added and not accept:
        more = ". ".join(added)
        raise AppError(f"{new.app_id} {new.version} would get more: {more}", "accept it (--accept), or reduce it")
