"""Training workloads beside what other simulators say of them: docs/scores.md."""

from __future__ import annotations

import pytest

import scores

#: Largest deviation, but for those that the page explains: [least, most] of ours over theirs.
ALLOWED = 0.05
EXPLAINED = {
    ("astra-sim", "reduce-scatter, 4 ranks"): (0.93, 0.95),
    ("astra-sim", "all-to-all, 4 ranks"): (0.42, 0.46),
    ("astra-sim", "all-to-all, 8 ranks"): (0.22, 0.25),
    ("astra-sim", "all-to-all, 16 ranks"): (0.12, 0.14),
    ("htsim", "ring of 16, 30 steps of 1 MB"): (0.93, 0.95),
}
#: Ten seconds and more each; the page names them.
LONG = {
    "GPT-13B, 128 A100",
    *(f"all-reduce of 256, Spectrum-X, {size} MiB" for size in (256, 512)),
    *(f"all-reduce of 256, DCN+, {size} MiB" for size in (32, 64, 128, 256, 512)),
}
CASES = [(name, case) for name, (cases, _) in scores.SCORES.items() for case in cases if case not in LONG]


@pytest.mark.parametrize(("simulator", "case"), CASES)
def test_a_number_is_as_near_the_other_simulators_as_the_page_says(simulator: str, case: str) -> None:
    least, most = EXPLAINED.get((simulator, case), (1 - ALLOWED, 1 + ALLOWED))
    assert least <= scores.here(simulator, case) / scores.recorded(simulator)[case] <= most


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_astra_sims_all_to_all_is_one_message_and_one_hop_after_the_other(ranks: int) -> None:
    hops = 4 * ranks * (ranks - 1) / 2
    hop = scores.MIB / 4 / ranks / (50 * 1.024**3) + 500 + 10
    theirs = scores.recorded("astra-sim")[f"all-to-all, {ranks} ranks"]
    assert theirs == pytest.approx(hops * hop / 1e3, rel=2e-3)
