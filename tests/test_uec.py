"""NSCC and RCCC with packet trimming held against uet-htsim: completion times of flows."""

from __future__ import annotations

import pytest

import uec

#: Largest deviation of the longest, the median and the mean completion time.
ALLOWED = {"tail": 0.05, "median": 0.05, "mean": 0.05}

#: The same of single cases; docs/uec.md says what is known of them.
APART = {("NSCC and RCCC, incast 15:1, 2 MB", "mean"): 0.06}


@pytest.mark.parametrize("case", uec.CASES)
def test_completion_times_are_those_of_uet_htsim(case: str) -> None:
    ours, theirs = uec.ours(case), uec.recorded()[case]
    for key, allowed in ALLOWED.items():
        assert ours[key] == pytest.approx(theirs[key], rel=APART.get((case, key), allowed)), key


def test_a_flow_alone_takes_the_time_it_takes_in_uet_htsim() -> None:
    ours, theirs = uec.ours("one flow, 2 MB"), uec.recorded()["one flow, 2 MB"]
    assert ours["tail"] == pytest.approx(theirs["tail"], rel=1e-4)
