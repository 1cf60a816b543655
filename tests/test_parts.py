"""Small parts with rules of their own."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from onramp import _sim, tables, validate
from onramp.folders import staged, unused
from onramp.metrics import bootstrap_ratio, number, over_seeds
from onramp.plots.cdf import cdf
from onramp.plots.style import envelope
from onramp.progress import span
from onramp.scenario import quantity, to_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCES = sorted((ROOT / "python/onramp").rglob("*.py"))

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text("ab_-. é", min_size=1)
VALUES = st.recursive(
    st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc_", min_size=1), VALUES, max_size=4))
def test_dicts_survive_being_written_as_toml(document: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(document)) == document


@pytest.mark.parametrize(
    ("text", "value"), [("16us", 16e-6), ("100Gbps", 1e11), ("32MiB", 2**25), ("1500ns", 1.5e-6), ("43B", 43)]
)
def test_quantities_are_read_in_base_units(text: str, value: float) -> None:
    assert quantity(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (2.306, "2.31"),
        (48.44, "48.4"),
        (1234.5, "1,234"),
        (12, "12"),
        (None, "–"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_interval_over_seeds_is_students() -> None:
    mean, half = over_seeds([1.0, 2.0, 3.0])
    assert mean == 2 and half == pytest.approx(4.303 / np.sqrt(3))


def test_bootstrap_of_a_constant_ratio_is_that_ratio() -> None:
    times = np.random.default_rng(1).exponential(1.0, 500)
    low, high = bootstrap_ratio(2 * times, times, ["mean"])["mean"]
    assert low == pytest.approx(2) and high == pytest.approx(2)


def test_envelope_keeps_the_extremes() -> None:
    y = np.zeros(100_000)
    y[[777, 55_555]] = 5, -3
    _, drawn = envelope(np.arange(100_000.0), y)
    assert len(drawn) <= 3000 and drawn.max() == 5 and drawn.min() == -3


def test_envelope_reaches_the_last_point() -> None:
    x = np.arange(4001.0)
    _, drawn = envelope(x, x, 1000)
    assert len(drawn) == 2000 and drawn[-1] == 4000


def test_cdf_rises_from_zero_at_the_smallest_to_one_at_the_largest_value() -> None:
    for n in (1, 7, 100_000):
        x, share = cdf(np.arange(n, dtype=float))
        assert share[0] == 0 and share[-1] == 1 and x[0] == 0 and x[-1] == n - 1
        assert (np.diff(x)[1:] > 0).all() and (np.diff(share) > 0).all()


@pytest.mark.parametrize(("seconds", "text"), [(3.4, "3 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_spans_are_said_as_people_do(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_row_groups_do_not_depend_on_how_rows_arrive(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tables")
    names = ["a", "b"]
    n = 2 * tables.Writer.ROWS + 1000
    time, name, value = np.arange(n, dtype="<u8"), np.zeros(n, "<u4"), np.ones(n)
    for step in (1000, n, 70_001):
        writer = tables.Writer(folder / f"{step}.parquet", tables.SCHEMAS["series"])
        for i in range(0, n, step):
            part = slice(i, i + step)
            columns = {
                "time_ps": time[part].tobytes(),
                "series": name[part].tobytes(),
                "value": value[part].tobytes(),
            }
            writer.add(tables.rows("series", columns, names=names))
        writer.close()
    assert len({path.read_bytes() for path in folder.iterdir()}) == 1


def test_every_key_of_a_scenario_is_documented() -> None:
    """What a resolved scenario writes out is what docs/scenario.md explains."""
    text = (ROOT / "docs" / "scenario.md").read_text()
    kinds = ["dcqcn", "timely", "dctcp", "hpcc"]
    demo = (ROOT / "scenarios" / "demo.toml").read_text()
    for kind in kinds:
        resolved = tomllib.loads(_sim.Loaded(demo, "demo", ".", [("transport.kind", kind)]).text)
        for section in resolved.values():
            for table in section if isinstance(section, list) else [section]:
                missing = [key for key in table if f"`{key}`" not in text] if isinstance(table, dict) else []
                assert not missing


TCP: dict[str, object] = {"transport": {"kind": "cubic"}}
HUYGENS: dict[str, object] = {"clock.sync": "huygens", "onramp": {}}
#: Keys that only some scenarios have, and changes that make one of these. Without a name a whole section.
ONLY_WITH: dict[str, list[dict[str, object]]] = {
    "clock": [HUYGENS],
    "linux": [TCP],
    "host.max_burst": [{"transport.kind": "hpcc", "host.pacing": "burst"}],
    "host.shaping": [{"host.shaper": shaper} for shaper in ("carousel", "htb", "fq")],
    "onramp.threshold_floor": [HUYGENS],
    "switch.queue": [{"switch.loss": "lossy", "switch.trim": "64B"}],
}
#: Defaults that are no value.
NO_VALUE = {"none", "all", "no limit", "required"}


def _documented() -> dict[str, str]:
    """Keys of docs/scenario.md's tables with their defaults."""
    section, found = "", {}
    for line in (ROOT / "docs" / "scenario.md").read_text().splitlines():
        if head := re.match(r"(?:##|\*\*) ?(Top level|`\[+([a-z.]+)\]+`)", line):
            section = f"{head[2]}." if head[2] else ""
        elif row := re.match(r"\| `(\w+)` \|", line):
            cells = [cell.strip() for cell in line.split(" | ")]
            # Of [host.shaping] a last column says what a key goes with.
            if len(cells) >= 3 and section not in ("network.", "transport.", "traffic."):
                found[section + row[1]] = cells[2].removesuffix("|").strip()
    return found


def _keys(document: Mapping[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for key, value in document.items():
        found.add(prefix + key)
        if isinstance(value, dict):
            found |= _keys(value, f"{prefix}{key}.")
    return found


def test_every_documented_key_is_written_out_where_it_counts() -> None:
    text = (ROOT / "scenarios" / "demo.toml").read_text()
    demo = {
        k: v for k, v in tomllib.loads(text).items() if k in ("duration", "network", "traffic", "transport")
    }

    def written(changes: Mapping[str, object]) -> set[str]:
        return _keys(validate(demo, {"onramp": {}, **changes}).document)

    always = written({})
    documented = _documented()
    assert {"seed", "host.pacing", "host.shaping.cost", "measure.cwnd", "linux.mtu"} <= set(documented)
    for key, default in documented.items():
        if default in NO_VALUE:
            continue
        only = next((of for of in ONLY_WITH if key == of or key.startswith(f"{of}.")), None)
        somewhere = set().union(*map(written, ONLY_WITH[only])) if only else set()
        assert key in always | somewhere, key


def test_every_documented_key_of_a_transport_is_written_out() -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| (.*) \|$", _section("## `[transport]`"), re.MULTILINE)
    checked = 0
    for names, keys in rows:
        for kind in re.findall("`([a-z-]+)`", names):
            if "|" in keys or kind.startswith(("kind", "custom")):
                continue
            transport = validate({**MINIMAL, "transport": {"kind": kind}}).document["transport"]
            for key in re.findall(r"`([a-z_]+)`(?! none)", keys):
                assert key in transport, (kind, key)
                checked += 1
    assert checked > 40


MINIMAL: dict[str, Any] = {
    "duration": "1ms",
    "network": {"kind": "star", "hosts": 3},
    "traffic": [{"kind": "background", "workload": "WebSearch", "load": 0.1}],
}


def _section(title: str) -> str:
    text = (ROOT / "docs" / "scenario.md").read_text()
    return text[text.index(title) :].split("\n## ")[0]


def test_runs_beside_each_other_take_different_names(tmp_path: Path) -> None:
    first, second = unused(tmp_path / "run"), unused(tmp_path / "run")
    assert first != second
    for folder in (first, second):
        with staged(folder) as stage:
            (stage / "summary.json").write_text("{}")
    assert (first / "summary.json").exists() and (second / "summary.json").exists()


def test_a_name_that_was_taken_for_nothing_is_given_back(tmp_path: Path) -> None:
    target = unused(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt), staged(target):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_no_module_imports_one_that_imports_it_whether_for_types_or_in_a_function() -> None:
    files = {".".join(p.relative_to(ROOT / "python").with_suffix("").parts): p for p in SOURCES}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    imports = {
        name: {
            full if (full := f"{node.module}.{one.name}") in (*files, "onramp._sim") else node.module
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module
            for one in node.names
        }
        for name, path in files.items()
    }
    graphlib.TopologicalSorter({name: known - {name} for name, known in imports.items()}).prepare()
