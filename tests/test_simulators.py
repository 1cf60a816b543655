"""Files of other simulators, as their users bring them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import onramp
from conftest import Command
from onramp import programs
from onramp.result import Result

GOAL = """num_ranks 3
rank 0 {
a: calc 1000
b: send 100000b to 1 tag 1
b requires a
}
rank 1 {
a: recv 100000b from 0 tag 1
b: calc 3000
b requires a
}
rank 2 {
a: calc 2000
}
"""
SIMAI = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4 \
checkpoints: 0 checkpoint_initiates: 0
2
grads -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 4194304 0
attention -1 9000 ALLREDUCE 1048576 9000 ALLREDUCE 1048576 1000 NONE 0 0
"""
MATRIX = "Nodes 4\nConnections 2\n0->1 id 1 start 0 size 100000\n2->3 id 2 start 0 size 100000\n"


def varint(number: int) -> bytes:
    """As Protobuf writes numbers."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def delimited(content: bytes) -> bytes:
    return varint(len(content)) + content


def chakra(size: int) -> bytes:
    """A rank's trace: an all-reduce of `size` bytes among all."""
    names: Mapping[str, int] = {"comm_type": 0, "comm_size": size}
    attributes = [b"\x0a" + delimited(name.encode()) + b"\x48" + varint(n) for name, n in names.items()]
    node = b"\x08\x01\x18\x07" + b"".join(b"\x52" + delimited(attribute) for attribute in attributes)
    return delimited(b"") + delimited(node)


def traces(folder: Path, ranks: int, size: int = 1 << 20) -> Path:
    folder.mkdir()
    for rank in range(ranks):
        (folder / f"all_reduce.{rank}.et").write_bytes(chakra(size))
    return folder / "all_reduce.0.et"


def job(*files: str | Path, **more: Any) -> dict[str, Any]:
    return {
        "name": "job",
        "duration": "1ms",
        "network": {"kind": "star", "hosts": 8},
        "transport": {"kind": "dcqcn"},
        "traffic": [{"kind": "program", "file": str(file), **more} for file in files],
    }


def test_each_rank_of_chakra_has_a_file_that_the_result_keeps(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    first = traces(tmp_path / "a", 4)
    other = traces(tmp_path / "b", 4, 2 << 20)
    path = write(job(first, other))
    digest = onramp.validate(path).digest
    assert command("run", path, "--out", "out").returncode == 0
    result = Result(tmp_path / "out")
    assert result.collectives["ranks"].to_pylist() == [4, 4]
    assert len(list((tmp_path / "out/inputs").iterdir())) == 8
    # Another rank's file, now with a computation, is part of the run, too. Results need no originals.
    (first.parent / "all_reduce.3.et").write_bytes(chakra(1 << 20) + delimited(b"\x08\x02\x18\x04"))
    assert onramp.validate(path).digest != digest
    for file in [*first.parent.iterdir(), *other.parent.iterdir()]:
        file.unlink()
    verified = command("verify", "out")
    assert verified.returncode == 0, verified.stderr


def test_collectives_of_a_single_rank_have_no_bandwidth(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    traces(tmp_path / "a", 1)
    ran = command("run", write(job("a/all_reduce.0.et")), "--out", "out")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "bandwidth" not in ran.stdout
    part = Result(tmp_path / "out").summary["collective"]
    assert part["collectives"] == 1 and part["algbw"] is part["busbw"] is part["kinds"][0]["busbw"] is None


def test_ranks_without_a_host_or_a_file_are_one_line(write: Callable[..., Path], tmp_path: Path) -> None:
    first = traces(tmp_path / "a", 9)
    with pytest.raises(onramp.ScenarioError, match=r"has 9 ranks, for 8 hosts: each needs one$"):
        onramp.validate(write(job(first)))
    (advice,) = onramp.validate(write(job(first, ranks=2))).advice
    assert str(advice).endswith('7 ranks that have files, beyond the 2 of "ranks"')
    (first.parent / "all_reduce.8.et").unlink()
    (first.parent / "all_reduce.2.et").unlink()
    with pytest.raises(onramp.ScenarioError, match=r"cannot read \S+all_reduce.2.et"):
        onramp.validate(write(job(first)))
    with pytest.raises(onramp.ScenarioError) as wrong:
        onramp.validate(write(job(first, ranks=0)))
    assert str(wrong.value).endswith("traffic[0].ranks: must be at least 1") and "\n" not in str(wrong.value)


def test_buffers_that_are_too_large_and_packed_files_are_one_line(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    huge = tmp_path / "huge.txt"
    huge.write_text(SIMAI.replace("4194304", str(9 * 10**18)))
    with pytest.raises(onramp.ScenarioError, match=r"are more than 16777216 messages$"):
        onramp.validate(write(job(huge)))
    packed = tmp_path / "job.goal"
    packed.write_bytes(gzip.compress(GOAL.encode()))
    with pytest.raises(onramp.ScenarioError, match=r"it is compressed, gunzip it first$"):
        onramp.validate(write(job(packed)))


@pytest.mark.parametrize(
    ("name", "content", "ranks"),
    [("job.goal", GOAL, 3), ("job.txt", SIMAI, 4), ("job.cm", MATRIX, 4), ("job.tm", MATRIX, 4)],
)
def test_a_scenario_for_a_program_is_written_and_runs(
    name: str, content: str, ranks: int, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / name).write_text(content)
    instead = command("run", f"theirs/{name}")
    assert instead.returncode == 2
    assert instead.stderr == (
        f"onramp: theirs/{name}: is a program, not a scenario: "
        f"`onramp new job.toml --program theirs/{name}` writes one that runs it\n"
    )
    done = command("new", "job.toml", "--program", f"theirs/{name}")
    assert done.returncode == 0, done.stderr
    assert command("run", "job.toml", "--out", "out").returncode == 0
    found = programs.by_rank(Result(tmp_path / "out").operations)
    assert [rank.rank for rank in found] == list(range(ranks))


def test_the_first_ranks_trace_tells_how_many_there_are(command: Command, tmp_path: Path) -> None:
    traces(tmp_path / "a", 20)
    assert command("new", "job.toml", "--program", "a/all_reduce.0.et").returncode == 0
    assert onramp.validate(tmp_path / "job.toml").document["traffic"][0]["ranks"] == 20


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("none.goal", "--program none.goal: cannot read"),
        ("job.csv", "--program job.csv: its name is none of .et, .txt, .goal, .bin, .cm, .tm"),
        ("job.goal", '--program job.goal: job.goal:1: is not "num_ranks" and their number'),
        ("far.goal", 'new.toml is not written: traffic[0].file: "far.goal": operation 0 of rank 0 is with'),
    ],
)
def test_a_program_that_cannot_be_leaves_no_file(
    program: str, said: str, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "job.goal").write_text("")
    (tmp_path / "far.goal").write_text("num_ranks 2\nrank 0 {\na: send 100b to 7 tag 1\n}\nrank 1 {\n}\n")
    done = command("new", "new.toml", "--program", program)
    assert done.returncode == 2 and done.stderr.startswith(f"onramp: {said}")
    assert done.stderr.count("\n") == 1 and not (tmp_path / "new.toml").exists()


def test_a_scenario_by_another_name_tells_its_own_mistakes(command: Command, tmp_path: Path) -> None:
    (tmp_path / "scenario.txt").write_text('duration = "1ms"\n')
    done = command("run", "scenario.txt")
    assert done.returncode == 2 and "network" in done.stderr and "--program" not in done.stderr


def test_ranks_and_kinds_add_up_to_the_iteration(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "job.goal").write_text(GOAL)
    ran = command("run", write(job("job.goal")), "--out", "out")
    assert ran.returncode == 0, ran.stderr
    assert "\nJob  " in ran.stdout and "Collective time" not in ran.stdout
    result = Result(tmp_path / "out")
    [whole] = programs.iterations(result.operations)
    first, second, third = programs.by_rank(result.operations)
    assert [rank.computed_us for rank in (first, second, third)] == [1, 3, 2]
    # The first sends after its computation, which costs it nothing; the second waits, and ends last.
    assert first.finished_us == 1 and third.exposed_us == 0
    assert second.finished_us == whole.duration_us == pytest.approx(3 + second.exposed_us)
    assert whole.exposed == pytest.approx(1 - 6 / (3 * whole.duration_us))
    shown = command("show", "out", "--ranks", "--json")
    assert [rank["computed_us"] for rank in json.loads(shown.stdout)] == [1, 3, 2]
    kinds = {kind["operation"]: kind for kind in result.summary["collective"]["kinds"]}
    assert kinds["receive"]["count"] == kinds["send"]["count"] == 1
    assert kinds["receive"]["exposed"] == pytest.approx(second.exposed_us / (3 * whole.duration_us))
    assert kinds["send"]["exposed"] == 0


def test_kinds_of_a_training_job_have_their_bandwidths(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "job.txt").write_text(SIMAI)
    ran = command("run", write(job("job.txt", repeat=3)), "--out", "out")
    assert ran.returncode == 0 and "Communication, the most exposed first" in ran.stdout
    assert command("report", "out").returncode == 0
    assert "Communication, the most exposed first" in (tmp_path / "out/index.html").read_text()
    kinds = Result(tmp_path / "out").summary["collective"]["kinds"]
    # In each iteration two data parallel collectives and, of two groups, two tensor parallel ones each.
    assert sorted((kind["ranks"], kind["bytes"], kind["count"]) for kind in kinds) == [
        (2, 1 << 20, 12),
        (2, 4 << 20, 6),
    ]
    assert all(0 < kind["busbw"] < 12.5 and 0 < kind["exposed"] < 1 for kind in kinds)


def test_a_job_that_is_cut_off_says_so_and_has_no_iteration(
    write: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "job.goal").write_text(GOAL)
    path = write({**job("job.goal", repeat=4), "duration": "1us", "time_limit": "31us"})
    ran = command("run", path, "--out", "out")
    assert ran.returncode == 0
    assert "Unfinished at time_limit, 0.031 ms: 1 operation (" in ran.stdout
    assert Result(tmp_path / "out").summary["collective"]["iteration_ms"] is not None
    assert command("run", path, "--out", "none", "--set", "time_limit=5us").returncode == 0
    assert Result(tmp_path / "none").summary["collective"]["iteration_ms"] is None
