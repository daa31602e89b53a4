"""Which places a look from a command may lead to: what is shown already, what holds more than a toolchain, what is
secret, and where a cage may have written what the look goes by.

The last are the places in which no grant follows a link either (`compile.links`): what the policy lets be written, what
earlier cages of this program could write, and the working directory, unless that holds the home directory itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pysandbox.policy.below import covers
from pysandbox.policy.places import config_home, state_home
from pysandbox.shapes import Self, dataclass, replace

# Below the home directory: no Python is installed there, and whoever says so is after something else.
PRIVATE = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".mozilla", ".password-store", ".netrc",
           ".git-credentials", ".pki", ".local/share/keyrings", ".local/state")  # fmt: skip
SHARED = (".local", ".local/share", ".local/lib", ".cache")  # many programs keep their files there


@dataclass(frozen=True, slots=True)
class Ground:
    """All paths are real. `chosen`: the environments that the user chose, or that this very program runs in."""

    homes: tuple[str, ...]
    loose: tuple[str, ...]
    shown: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, shown: Sequence[str], written: Sequence[str], env: Mapping[str, str], cwd: str, home: str,
        *, before: Sequence[str] = (),
    ) -> Self:  # fmt: skip
        """`shown` and `written` by the policy; `before`: what earlier cages of this program could write."""
        here = os.path.realpath(cwd)
        homes = tuple(dict.fromkeys(os.path.realpath(each) for each in (home, env.get("HOME") or home)))
        loose = (*written, *before, *(() if any(covers(here, each) for each in homes) else (here,)))
        private = [f"{each}/{name}" for each in homes for name in PRIVATE]
        private += [config_home(env), state_home(env)]
        ground = cls(homes, loose, tuple(shown), (), tuple(os.path.realpath(each) for each in private))
        named = [sys.prefix, *([env["VIRTUAL_ENV"]] if env.get("VIRTUAL_ENV") else [])]
        return replace(ground, chosen=tuple(ground.not_led(named)))

    def not_led(self, paths: Sequence[str]) -> list[str]:
        """Where these really are; but not what a link leads to that a cage may have made."""
        led = [(path, os.path.realpath(path)) for path in paths]
        return [real for path, real in led if not self.leads_out(path, real)]

    def is_loose(self, path: str) -> bool:
        """Whether a cage may have made this name."""
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return any(covers(each, name) for each in self.loose for name in (path, place))

    def leads_out(self, name: str, real: str) -> bool:
        """Whether a cage may have made `name`, and what it leads to lies elsewhere."""
        return self.is_loose(name) and not any(covers(each, real) for each in self.loose)

    def is_shown(self, real: str) -> bool:
        return any(covers(each, real) for each in self.shown)

    def is_wide(self, real: str) -> bool:
        """Whether much else lies there, or may."""
        if real == "/" or any(covers(real, home) for home in self.homes):
            return True
        return real in (f"{home}/{name}" for home in self.homes for name in SHARED)

    def is_private(self, real: str) -> bool:
        return any(covers(each, real) for each in self.private)
