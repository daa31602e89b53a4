"""The paths to look at: everything that compiling asks for, and each once."""

from __future__ import annotations

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import absolute, guarded_trees, wanted_paths, writable_trees
from pysandbox.policy.recipe import with_base


def test_every_list_of_paths_is_wanted_once_and_from_the_working_directory() -> None:
    policy = Policy(allow=(Grant("/a"), Grant("b")), deny=(Grant("/a"),), mask=(Grant("/c"),))
    assert wanted_paths(policy, "/w") == ("/a", "/w/b", "/c")


def test_what_is_granted_is_looked_through_for_files_to_hide_and_what_is_writable_for_files_to_guard() -> None:
    policy = with_base(Policy(allow=(Grant("/r"),), allow_write=(Grant("/a"),), workdir="read"))
    assert (guarded_trees(policy, "/w"), writable_trees(policy, "/w")) == (("/a", "/r", "/w"), ("/a",))


@pytest.mark.parametrize("path", ["$HOME/x", "~/x"])
def test_a_path_that_was_not_expanded_is_no_path(path: str) -> None:
    with pytest.raises(PolicyError, match="not expanded"):
        absolute(path, "/w")
