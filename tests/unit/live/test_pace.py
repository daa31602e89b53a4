"""live/pace.py: how soon the next look comes."""

from __future__ import annotations

from pysandbox.live.pace import COST_SHARE, LATEST, NEAR, SOONEST, URGENT_SHARE, Pace

MIB = 1 << 20
LIMIT, COST = 256 * MIB, 0.015


def test_what_sleeps_far_from_its_limit_is_seldom_looked_at() -> None:
    pace = Pace()
    for second in range(3):
        pause = pace.pause(10 * MIB, 1 << 34, float(second), 0.001)
    assert pause == LATEST


def test_a_look_costs_a_tenth_at_most_where_nothing_grows() -> None:
    pace = Pace()
    pace.pause(200 * MIB, LIMIT, 0.0, COST)
    assert pace.pause(200 * MIB, LIMIT, 1.0, COST) == COST * COST_SHARE


def test_a_closer_look_that_comes_to_less_does_not_hide_that_there_is_more() -> None:
    blind, sees = Pace(), Pace()
    blind.pause(250 * MIB, LIMIT, 0.0, 0.001)
    sees.pause(250 * MIB, LIMIT, 0.0, 0.001, size=250 * MIB)
    assert blind.pause(190 * MIB, LIMIT, 0.1, COST) == COST * COST_SHARE
    assert sees.pause(190 * MIB, LIMIT, 0.1, COST, size=280 * MIB) <= COST * URGENT_SHARE


def test_what_comes_before_the_next_look_is_worth_half_of_the_time() -> None:
    pace = Pace()
    pace.pause(100 * MIB, LIMIT, 0.0, COST)
    assert pace.pause(200 * MIB, LIMIT, 0.01, COST) == COST


def test_one_that_did_not_see_all_is_repeated_at_once() -> None:
    assert Pace().pause(0, LIMIT, 0.0, 0.0, hurry=True) == SOONEST


def test_whether_a_crowd_is_worth_a_stop_depends_on_what_is_left() -> None:
    pace = Pace()
    assert pace.may_be_filled(LIMIT, NEAR)  # nothing is known yet
    pace.pause(0, 1 << 40, 0.0, 0.0)
    assert not pace.may_be_filled(1 << 40, NEAR)
