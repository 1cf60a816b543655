"""`onramp new controller`: a controller in a library of its own, in every command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import onramp
from conftest import ROOT, Command
from onramp import controller

#: Beside the template's: a constant window; one that checks its telemetry; three that fail.
MORE = """
macro_rules! constant {
    ($name:ident, $at_ack:expr, $permit:expr) => {
        struct $name;
        impl Controller for $name {
            type Parameters = u64;
            fn read(keys: &Keys<'_>) -> Result<u64, String> { keys.bytes("window", 10_000) }
            fn new(_: &u64, _: &Env) -> Self { Self }
            fn on_ack(&mut self, _: &u64, _: &Env, ack: &Ack<'_>) { ($at_ack)(ack) }
            fn permit(&mut self, window: &u64, _: &Env, _: u64) -> Permit { ($permit)(*window) }
        }
    };
}
const FREE: f64 = f64::INFINITY;
constant!(Fixed, |_: &Ack<'_>| (), |window| Permit { window, rate: FREE });
constant!(Reads, |ack: &Ack<'_>| assert_eq!((ack.hops.len(), ack.hops[0].rate()), (1, 100e9)),
    |window| Permit { window, rate: FREE });
constant!(Panics, |ack: &Ack<'_>| assert!(ack.acked < 3, "third\nACK"),
    |window| Permit { window, rate: FREE });
constant!(NotANumber, |_: &Ack<'_>| (), |window| Permit { window, rate: f64::NAN });
"""
NAMES = "".join(
    f', "{name}" => {kind}'
    for name, kind in {"fixed": "Fixed", "reads": "Reads", "panics": "Panics", "nan": "NotANumber"}.items()
)

pytestmark = pytest.mark.skipif(not shutil.which("cargo"), reason="needs cargo")


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crate as written, with more controllers."""
    folder = tmp_path_factory.mktemp("crates") / "my-own"
    controller.write(folder)
    code = folder / "src" / "lib.rs"
    named = '{ "aimd" => Aimd'
    text = code.read_text()
    assert named in text
    code.write_text(text.replace(named, named + NAMES) + MORE)
    subprocess.run(["cargo", "test", "--quiet"], cwd=folder, check=True)
    subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=folder, check=True)
    return folder


def scenario(crate: Path, name: str, **transport: Any) -> dict[str, Any]:
    """A long flow over one switch."""
    library = str(crate / "target" / "release" / "libmy_own.so")
    return {
        "name": "long",
        "duration": "1ms",
        "network": {"kind": "star", "hosts": 3, "host_rate": "100Gbps", "link_delay": "1us"},
        "transport": {"kind": "custom", "library": library, "name": name, **transport},
        "measure": {"links": ["s0->h0"]},
        "traffic": [{"kind": "long", "src": ["h1"], "dst": "h0", "stop": "1ms"}],
    }


def test_a_new_crate_runs_in_every_command(crate: Path, command: Command, tmp_path: Path) -> None:
    file = str(crate / "scenario.toml")
    for arguments in (["explain", file, "--trial", "0"], ["compare", file, "--out", str(tmp_path / "c")]):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
    done = command("sweep", file, "--vary", "transport.decrease=0.5,0.9", "--out", str(tmp_path / "s"))
    assert done.returncode == 0, done.stderr
    # What was run is kept, library and all.
    kept = next((tmp_path / "s").glob("*/inputs"))
    assert [each.name for each in kept.iterdir()] == ["libmy_own.so"]
    assert command("verify", str(kept.parent)).returncode == 0


def test_a_constant_window_gives_a_window_a_round_trip(crate: Path) -> None:
    for window in (10_000, 30_000):
        done = onramp.run(scenario(crate, "fixed", window=f"{window}B"))
        rate = pc.mean(done.series["value"].slice(10, 80)).as_py() * 100e9
        # Two links of 1 us each way, 1048 B on both there, 60 B back.
        round_trip = 4e-6 + 2 * (1048 + 60) * 8 / 100e9
        assert rate == pytest.approx(window / 1000 * 1048 * 8 / round_trip, rel=0.01)


def test_telemetry_is_read(crate: Path) -> None:
    with_it = scenario(crate, "reads", feedback={"kind": "int"})
    assert onramp.run(with_it).summary["complete"]
    with pytest.raises(onramp.OnRampError, match=r"reads.* failed: src/lib.rs:.*index out of bounds"):
        onramp.run(scenario(crate, "reads"))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_controller_that_fails_ends_the_run_with_its_reason(crate: Path, threads: int) -> None:
    with pytest.raises(
        onramp.OnRampError, match=r"^long: controller .panics. failed: src/lib.rs:.*: third ACK$"
    ):
        onramp.run(scenario(crate, "panics"), threads=threads)
    with pytest.raises(onramp.OnRampError, match=r"nan. failed: permit has a rate of NaN"):
        onramp.run(scenario(crate, "nan"), threads=threads)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"window": "3us"}, r'window = "3us": must be bytes, such as "4KB"'),
        ({"windov": "3KB"}, "windov: is no key of it; its keys are window"),
        ({"name": "none"}, 'has no controller "none", only aimd, fixed, reads, panics, nan'),
        ({"library": "gone.so"}, "gone.so: is not there; `cargo build --release` makes it"),
        ({"library": str(ROOT / "README.md")}, "cannot be loaded: .*invalid ELF header"),
        ({"feedback": {"kind": "rcp"}}, 'must be "int" with a library'),
    ],
)
def test_what_is_wrong_is_said_before_the_run(crate: Path, change: dict[str, Any], said: str) -> None:
    given = scenario(crate, "fixed")
    given["transport"] |= change
    with pytest.raises(onramp.ScenarioError, match=said):
        onramp.validate(given)


def test_a_library_of_another_version_is_refused(crate: Path, tmp_path: Path) -> None:
    code = tmp_path / "old.c"
    code.write_text("struct { unsigned version; } ONRAMP_CONTROLLERS = { 7 };\n")
    subprocess.run(["gcc", "-shared", "-o", tmp_path / "old.so", code], check=True)
    with pytest.raises(onramp.ScenarioError, match="is of version 7 of the interface; this simulator has"):
        onramp.validate(scenario(crate, "fixed", library=str(tmp_path / "old.so")))


def test_another_library_is_another_result(crate: Path, tmp_path: Path) -> None:
    given = scenario(crate, "fixed")
    before = onramp.validate(given).digest
    changed = tmp_path / "changed.so"
    changed.write_bytes(Path(given["transport"]["library"]).read_bytes() + b"\0")
    given["transport"]["library"] = str(changed)
    assert onramp.validate(given).digest != before


def test_nothing_is_written_over(crate: Path, command: Command, tmp_path: Path) -> None:
    done = command("new", "controller", str(crate))
    assert (done.returncode, done.stderr) == (2, f"onramp: {crate}: is not empty; choose another FOLDER\n")
    done = command("new", "controller", str(tmp_path / "9th"))
    assert done.returncode == 2 and "is no name for a crate" in done.stderr
    (tmp_path / "file").touch()
    done = command("new", "controller", str(tmp_path / "file"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
