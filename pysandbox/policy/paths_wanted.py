"""Which host paths a policy wants looked at: the one list that `probe.paths.look` walks and `compile` asks for again.

Both sides spell a path the same way (`absolute`), so that a fact looked up is a fact that was taken. Pure: nothing is
looked at here, nothing is decided. The working directory, the home directory and the staging candidates are always
looked at and need not be wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.errors import PolicyError
from pysandbox.policy import base_grants
from pysandbox.policy.model import GRANTING, Policy
from pysandbox.policy.option import Grant
from pysandbox.policy.patterns import covers_path, escape, literal
from pysandbox.policy.way_out import inspects

# With a list of executables: where shared libraries live on every distribution, and the dynamic linkers that compilers
# write into programs. Of a listed `/dir/*` nobody reads every file, so its programs may be for any of these.
LIBRARY_DIRECTORIES = ("/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
                       "/usr/local/lib", "/usr/local/lib64")  # fmt: skip
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1",
           "/lib/ld-musl-aarch64.so.1")  # fmt: skip

# Where distributions keep all the certificates that they trust in one file.
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
           "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/ssl/certs/ca-bundle.crt",
           "/var/lib/ca-certificates/ca-bundle.pem", "/usr/lib/ssl/cert.pem")  # fmt: skip

BASE = frozenset(grant.path for grant in base_grants.ALLOW)


def wanted_paths(policy: Policy, cwd: str) -> tuple[str, ...]:
    """Every absolute path that compiling `policy` in `cwd` asks a fact of, each once."""
    named = [absolute(grant.path, cwd) for name in GRANTING for grant in getattr(policy, name)]
    named += [path for _, _, path in hidden_paths(policy, cwd)]
    named += [absolute(executable_path(each), cwd) for each in policy.allow_execve]
    if policy.allow_execve:
        named += (*LIBRARY_DIRECTORIES, *LOADERS)
    if inspects(policy):
        named += BUNDLES
    named += [each.source.removeprefix("file:") for each in policy.secrets if each.source.startswith("file:")]
    named += policy.proxy_upstream_ca
    return tuple(dict.fromkeys(named))


def granted_paths(policy: Policy, cwd: str) -> tuple[str, ...]:
    """The absolute paths that a cage may be shown."""
    workdir = () if policy.workdir == "none" else (cwd,)
    return (*workdir, *(absolute(grant.path, cwd) for name in GRANTING for grant in getattr(policy, name)))


def hidden_paths(policy: Policy, cwd: str) -> Iterator[tuple[str, Grant, str]]:
    """What is denied or masked by its one path: (the key of the option, the entry, the absolute path)."""
    for key, grant, path in _hidden(policy, cwd):
        one = literal(path)
        if one is not None:
            yield key, grant, one


def hidden_patterns(policy: Policy, cwd: str) -> Iterator[tuple[str, Grant, str]]:
    """What is denied or masked by an absolute pattern (`policy.patterns`)."""
    for key, grant, path in _hidden(policy, cwd):
        if literal(path) is None:
            yield key, grant, path


def denies(policy: Policy, cwd: str, *paths: str) -> bool:
    """Whether one of these absolute paths is denied, or lies in what is: then no grant opens it."""
    denied = [path for key, _, path in _hidden(policy, cwd) if key == "filesystem.deny"]
    return any(covers_path(each, path) for each in denied for path in paths)


def _hidden(policy: Policy, cwd: str) -> Iterator[tuple[str, Grant, str]]:
    for key, grants in (("filesystem.deny", policy.deny), ("filesystem.mask", policy.mask)):
        for grant in grants:
            yield key, grant, grant.path if grant.path.startswith("/") else absolute(grant.path, escape(cwd))


def guarded_trees(policy: Policy, cwd: str) -> tuple[str, ...]:
    """The granted paths inside which policy files are hidden: all but those that the base has, granted by whomever."""
    workdir = () if policy.workdir == "none" else (cwd,)
    granted = {absolute(grant.path, cwd) for name in GRANTING for grant in getattr(policy, name)}
    return tuple(sorted({*workdir, *granted} - BASE))


def changed_trees(policy: Policy, cwd: str) -> tuple[str, ...]:
    """The trees inside which files are kept from being written (`policy.guarded`), on the host or in a layer apart."""
    return tuple(dict.fromkeys((*writable_trees(policy, cwd), *cow_trees(policy, cwd))))


def cow_trees(policy: Policy, cwd: str) -> tuple[str, ...]:
    """The trees of which what the cage writes stays apart."""
    workdir = (cwd,) if policy.workdir == "cow" else ()
    return (*workdir, *(absolute(grant.path, cwd) for grant in policy.cow))


def writable_trees(policy: Policy, cwd: str) -> tuple[str, ...]:
    """The trees of which the cage may write the host's own files."""
    workdir = (cwd,) if policy.workdir == "write" else ()
    return tuple(dict.fromkeys((*workdir, *(absolute(grant.path, cwd) for grant in policy.allow_write))))


def executable_path(entry: str) -> str:
    """The path of an entry of allow_execve: the file itself, or the directory of a `/dir/*`."""
    return entry if not entry.endswith("/*") else entry.removesuffix("/*") or "/"


def libraries_beside(program: str) -> tuple[str, ...]:
    """PREFIX/lib for a PREFIX/bin/program: where an interpreter under a home directory keeps its own libraries."""
    prefix, _, directory = program.rpartition("/")[0].rpartition("/")
    return (f"{prefix}/lib", f"{prefix}/lib64") if directory in ("bin", "sbin") else ()


def absolute(path: str, cwd: str) -> str:
    """`path` from the working directory. Dots and links stay as they are: only the look knows where they lead."""
    if path.startswith("/"):
        return path
    if path[:1] in "$~":  # as a name below cwd it would be absent, and a denial of it would deny nothing
        raise PolicyError(f"{path!r} was not expanded", suggestion='write "./" before a name that begins so')
    return f"{cwd}/{path}"
