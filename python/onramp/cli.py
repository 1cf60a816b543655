"""The `onramp` command."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onramp import (
    _sim,
    api,
    controller,
    examples,
    folders,
    programs,
    template,
    terminal,
    tracing,
)
from onramp.cache import Cache
from onramp.comparison import Comparison, Plan
from onramp.engine import Status, Stop, Watch
from onramp.errors import OnRampError, RunError, ScenarioError, of_os
from onramp.folders import unused
from onramp.progress import Progress
from onramp.result import Result
from onramp.scenario import OVERRIDES, dimension, load, quantity

if TYPE_CHECKING:
    from onramp.sweeps import Point

RESULTS = folders.RESULTS
#: Scenario of `onramp demo`.
DEMO = examples.FOLDER / "demo.toml"
INTERRUPTED = 130

SCENARIO = click.argument("scenario", type=click.Path(path_type=Path))
#: Eager, since `--force` asks whether it is there.
OUT = click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", is_eager=True, help="Folder for the results."
)


def _check_force(context: click.Context, _: click.Parameter, force: bool) -> bool:
    if force and context.params.get("out") is None:
        raise click.UsageError("--force replaces the folder of --out: give --out DIR")
    return force


FORCE = click.option(
    "--force", is_flag=True, callback=_check_force, help="Replace DIR of --out if it holds results."
)


def _pairs(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.UsageError(f"{option.opts[0]} {text}: write key=value, such as onramp.threshold=16us")
        pairs[key] = value
    return pairs


def _lists(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, list[str]]:
    return {key: values.split(",") for key, values in _pairs(context, option, given).items()}


def _seeds(context: click.Context, option: click.Parameter, given: str | None) -> list[int]:
    try:
        seeds = [int(seed) for seed in given.split(",")] if given else []
    except ValueError:
        raise click.UsageError(f"--seeds {given}: write whole numbers with commas, such as 1,2,3") from None
    if len(set(seeds)) < len(seeds):
        raise click.UsageError(f"--seeds {given}: has one twice; each seed is one run")
    return seeds


@contextmanager
def _drawing(folder: Path) -> Iterator[None]:
    """Pictures of results, which stay where there is no room for pictures."""
    try:
        yield
    except (OSError, RunError) as e:
        reason = of_os(folder, e) if isinstance(e, OSError) else e
        raise RunError(f"{reason}; the results are complete: onramp report {folder} draws them") from e


_CORES: Any = {
    "type": click.IntRange(min=1),
    "default": os.cpu_count() or 1,
    "show_default": "the machine's cores",
    "metavar": "N",
}

SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=_pairs,
    metavar="KEY=VALUE",
    help="Replace a value of the scenario.",
)
SEEDS = click.option(
    "--seeds", callback=_seeds, metavar="1,2,3", help="Several seeds, with 95% intervals over them."
)
SEED = click.option("--seed", type=click.IntRange(min=0), help="Replace the scenario's seed.")
THREADS = click.option("--threads", **_CORES, help="Of the simulator; the results do not depend on it.")
ON = click.option(
    "--on", type=click.Choice(["sim", "linux"]), default="sim", show_default=True, help="Where to run."
)
JOBS = click.option("--jobs", **_CORES, help="Runs at a time.")
#: Decides over --jobs.
DASK = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Run on the workers of this Dask scheduler instead; they need not share files with this machine.",
)


def _be_quiet(context: click.Context, _: click.Parameter, quiet: bool) -> None:
    context.meta["quiet"] = quiet


QUIET = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help="Show no progress."
)


def _progress(title: str, total: int, *, quiet: bool = False) -> Progress:
    return Progress(title, total, quiet=quiet or click.get_current_context().meta.get("quiet", False))


KEPT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the runs; what it has is not run again.",
)


def _vary(*, required: bool) -> Callable[[Any], Any]:
    return click.option(
        "--vary",
        multiple=True,
        required=required,
        callback=_lists,
        metavar="KEY=A,B,C",
        help="Values of a key; repeatable.",
    )


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="onramp-lab", prog_name="onramp")
def commands() -> None:
    """On-Ramp in the lab: datacenter scenarios with and without it."""


@commands.command()
@SCENARIO
@ON
@SET
@SEED
@THREADS
@OUT
@FORCE
@click.option(
    "--no-skip",
    "simulates_all",
    is_flag=True,
    help="Simulate all iterations of training jobs, not those that are the same once; results are equal.",
)
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of a table.")
@QUIET
def run(
    scenario: Path,
    on: str,
    overrides: dict[str, str],
    seed: int | None,
    threads: int,
    out: Path | None,
    force: bool,
    simulates_all: bool,
    as_json: bool,
) -> int:
    """Run SCENARIO: a table here, a result folder in DIR."""
    from onramp import plots

    loaded = load(scenario, overrides | ({} if seed is None else {"seed": str(seed)}), on, keep=True)
    _advise(loaded.advice)
    target = out or unused(RESULTS / f"{loaded.name}-{loaded.seed}")
    with Stop() as stop:
        with _progress(loaded.name, 1, quiet=as_json) as progress:
            watch = Watch(stop, progress)
            result = api.run_loaded(
                loaded, target, threads=threads, watch=watch, force=force, skip=not simulates_all
            )
        if not stop():
            with _drawing(target):
                plots.save_all({"": [result]}, target / "plots")
    _print_run(result, target, as_json=as_json)
    return 0 if result.summary["complete"] else INTERRUPTED


def _print_run(result: Result, place: Path, *, as_json: bool) -> None:
    """Print a run's table, or its summary, and where the rest is."""
    summary = result.summary
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return
    console = terminal.console()
    links = result.scenario.document["measure"]["links"]
    console.print(terminal.summary_table(summary, links, under_way=result.is_under_way))
    if kinds := terminal.kinds_table(summary):
        console.print("", kinds)
    texts = (
        terminal.deadlock_text,
        terminal.rough_text,
        terminal.unfinished_text,
        terminal.clock_text,
        terminal.skipping_text,
        terminal.engine_text,
    )
    lines = [*(text(summary) for text in texts), str(place)]
    console.print("", *filter(None, lines), sep="\n", soft_wrap=True)


@commands.command()
@SCENARIO
@SET
@SEED
@THREADS
@OUT
@FORCE
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="a free one",
    metavar="PORT",
    help="Port of the page, on 127.0.0.1.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of a table.")
@QUIET
def watch(
    scenario: Path,
    overrides: dict[str, str],
    seed: int | None,
    threads: int,
    out: Path | None,
    force: bool,
    port: int,
    opens: bool,
    as_json: bool,
) -> int:
    """Run SCENARIO in the simulator and show it in a browser while it goes.

    The page shows links, queues, flows and holds over time. It stays in DIR as watch.html, which needs no
    server; the other results are those of `onramp run`. Its address is printed first, on standard error.
    """
    from onramp import plots, watching

    given = overrides | ({} if seed is None else {"seed": str(seed)})
    loaded = load(scenario, given, "sim", keep=True)
    _advise(loaded.advice)
    board = watching.Board(loaded)
    server = watching.Server(board, port)
    target = out or unused(RESULTS / f"{loaded.name}-{loaded.seed}")
    with Stop() as stop, server:
        click.echo(server.url, err=True)
        if opens and not watching.open_browser(server.url):
            click.echo("there is no browser with a window here: open the address above", err=True)
        with _progress(loaded.name, 1, quiet=as_json) as progress:

            def report(label: str, status: Status | None) -> None:
                progress(label, status)
                board.report(label, status)

            observer = Watch(stop, report, board.picture)
            result = api.run_loaded(loaded, target, threads=threads, watch=observer, force=force)
        board.end(complete=result.summary["complete"], folder=target)
        with _drawing(target):
            page = board.write(target)
            if not stop():
                plots.save_all({"": [result]}, target / "plots")
    _print_run(result, page, as_json=as_json)
    return 0 if result.summary["complete"] else INTERRUPTED


@commands.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--ranks", is_flag=True, help="Print each rank's time instead: of training jobs and programs.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of a table.")
def show(folder: Path, ranks: bool, as_json: bool) -> int:
    """Print the table of a run, also of one under way or killed.

    DIR is the run's result folder, also before the end. Flows and requests of a simulation that has not ended
    are known up to ten seconds ago.
    """
    result = Result(folder, partial=True)
    if ranks:
        every = programs.by_rank(result.operations)
        if not every:
            kinds = {traffic["kind"] for traffic in result.scenario.document["traffic"]}
            jobs = kinds & {"collective", "program"}
            why = "it has not come so far" if jobs else "it has no collective and no program"
            raise OnRampError(f"{folder}: no rank is complete in it: {why}")
        if as_json:
            click.echo(json.dumps([dataclasses.asdict(one) for one in every]))
        else:
            terminal.console().print(terminal.ranks_table(every, result.scenario.loaded.hosts))
        return 0
    _print_run(result, result.folder, as_json=as_json)
    return 0


@commands.command()
@click.argument("scenarios", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="SCENARIO…")
@ON
@_vary(required=False)
@SET
@SEEDS
@OUT
@FORCE
@JOBS
@DASK
@click.option("--json", "as_json", is_flag=True, help="Print comparison.json instead of a table.")
@QUIET
def compare(
    scenarios: tuple[Path, ...],
    on: str,
    vary: dict[str, list[str]],
    overrides: dict[str, str],
    seeds: list[int],
    out: Path | None,
    force: bool,
    jobs: int,
    dask: str | None,
    as_json: bool,
) -> int:
    """Run SCENARIO with and without On-Ramp on the same arrivals.

    Several scenarios, or the values of --vary, are compared with the first of them instead. Where it was
    interrupted, the same command runs the rest. The last line is the path of an HTML page.
    """
    from onramp import report, sweeps

    if "seed" in vary:
        raise click.UsageError("--vary seed=…: all sides have the same seeds; give them with --seeds")
    if len(scenarios) > 1 or vary:
        sides = {
            _label(scenarios, path, values): load(path, overrides | values, on)
            for path in scenarios
            for values in sweeps.combinations(vary)
        }
        plan = Plan.of_several(sides, seeds)
    else:
        plan = Plan.of(scenarios[0], overrides, seeds, on)
    name = plan.name
    _advise(plan.advice)
    target = out or unused(RESULTS / f"{name}-compare-{'-'.join(map(str, plan.seeds))}", plan.resumes)
    missing = plan.runs if force else plan.missing(target)
    with Stop() as stop:
        with _progress(name, len(missing), quiet=as_json) as progress:
            found = api.compare_planned(
                plan, target, workers=dask or jobs, watch=Watch(stop, progress), force=force
            )
        if not stop():
            with _drawing(target):
                report.write([found], target / "index.html")
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _print_comparison(found)
        click.echo(target if stop.asked else target / "index.html")
    if not found.complete:
        rest = f"{len(plan.missing(target))} of {len(plan.runs)} runs are missing"
        click.echo(f"Incomplete: {rest}; the same command runs them.", err=True)
    if found.is_of_onramp and not found.arrivals.identical:
        return 1
    return 0 if found.complete else INTERRUPTED


@commands.command()
@SET
@SEEDS
@OUT
@FORCE
@JOBS
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the scenario to FILE; run nothing.",
)
@QUIET
@click.pass_context
def demo(context: click.Context, /, write: Path | None, **options: Any) -> int:
    """Compare DCQCN with and without On-Ramp on 320 servers, in less than a minute.

    The scenario comes with the package. With --write it is yours to change; `onramp compare FILE` runs it.
    """
    if write is None:
        return int(context.invoke(compare, scenarios=(DEMO,), on="sim", vary={}, as_json=False, **options))
    _write_new(write, DEMO.read_text(encoding="utf-8"))
    click.echo(write)
    return 0


@commands.command()
@click.argument("scenarios", type=click.Path(path_type=Path), nargs=-1, metavar="[SCENARIO…]")
@click.option("--draw", type=click.IntRange(min=1), metavar="N", help="Run N random scenarios as well.")
@click.option("--draw-seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of that draw.")
@click.option("--floor", is_flag=True, help="Hold Linux to itself, too, with links a nanosecond longer.")
@_vary(required=False)
@SET
@SEEDS
@KEPT
@JOBS
@DASK
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown tables.")
@click.option("--json", "as_json", is_flag=True, help="Print what agreement.json holds instead of tables.")
@QUIET
def agree(
    scenarios: tuple[Path, ...],
    draw: int | None,
    draw_seed: int,
    floor: bool,
    vary: dict[str, list[str]],
    overrides: dict[str, str],
    seeds: list[int],
    out: Path | None,
    jobs: int,
    dask: str | None,
    as_markdown: bool,
    as_json: bool,
) -> int:
    """Run each SCENARIO in the simulator and on Linux: how far their answers are apart.

    Equivalence tests are over all of them, by congestion control. The last line is the path of an HTML page.
    """
    from onramp import agreement, equivalence, markdown, report
    from onramp import draw as drawn

    if not scenarios and not draw:
        raise click.UsageError("give a SCENARIO, or --draw N")
    out = out or RESULTS / f"{'-'.join(p.stem for p in scenarios) or f'draw-{draw_seed}'}-agree"
    if draw:
        scenarios += tuple(drawn.write(Cache(out).folder / "cells", draw, draw_seed))
    points = agreement.grid(scenarios, overrides, vary, seeds, floor=floor)
    cache = Cache(out)
    wanted = agreement.scenarios(points)
    missing = cache.missing(wanted)
    title = f"{len(missing)} of {len(wanted)} runs missing"
    with Stop() as stop, _progress(title, len(missing), quiet=as_json or as_markdown) as progress:
        cache.run(wanted, workers=dask or jobs, watch=Watch(stop, progress))
    found = agreement.judge(points, cache)
    tests = equivalence.tests(found)
    floors = equivalence.tests(found, agreement.MOVED, "linux") if floor else []
    equivalence.write(cache.folder, tests, floors)
    titled = {"Equivalence": tests, "Linux again over Linux": floors}
    if as_json:
        click.echo(json.dumps([one.to_json() for one in found], indent=2, ensure_ascii=False))
    elif as_markdown and found:
        parts = [markdown.agreements(found), markdown.tests(tests)]
        click.echo("\n\n".join([*parts, *([markdown.tests(floors)] if floor else [])]))
    elif found:
        console = terminal.console()
        console.print(
            terminal.agreement_table(found[0]) if len(found) == 1 else terminal.overview_table(found)
        )
        notes = dict.fromkeys(note for one in found for note in one.notes)
        console.print("", *notes, sep="\n", soft_wrap=True)
        for title, of in titled.items():
            if of:
                console.print("", f"[bold]{title}[/]", terminal.equivalence_table(of), sep="\n")
                console.print("", *equivalence.lines(of), sep="\n", soft_wrap=True)
        report.write(found, cache.folder / "index.html", titled)
        click.echo(cache.folder / "index.html")
    if stop.asked:
        click.echo(f"Incomplete: {len(found)} of {len(points)}; the same command runs the rest.", err=True)
    return INTERRUPTED if stop.asked else 0


def _write_new(file: Path, text: str) -> None:
    """Write a file that is not there yet, or nothing."""
    if file.exists():
        raise OnRampError(f"{file}: exists; choose another FILE")
    with folders.replacing(file) as part:
        part.write_text(text, encoding="utf-8")


def _label(scenarios: Sequence[Path], path: Path, values: dict[str, str]) -> str:
    """A side's name: as short as tells it from the others."""
    stems = [other.stem for other in scenarios]
    name = str(path) if stems.count(path.stem) > 1 else path.stem
    pairs = [f"{key}={value}" for key, value in values.items()] if len(values) > 1 else values.values()
    return ", ".join([*([name] if len(scenarios) > 1 else []), *pairs])


def _advise(lines: Iterable[str]) -> None:
    """Lines on values that are hardly meant, each once."""
    for line in dict.fromkeys(lines):
        click.echo(f"warning: {line}", err=True)


def _print_comparison(found: Comparison) -> None:
    console = terminal.console()
    console.print(terminal.comparison_table(found))
    console.print("", *terminal.comparison_lines(found), sep="\n", soft_wrap=True)


@commands.command("forecast")
@click.argument("recordings", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RECORDING…")
@click.option(
    "--network",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="A scenario whose network, transport and hosts are the recorded ones; its traffic does not count.",
)
@click.option(
    "--threshold",
    "thresholds",
    callback=lambda _context, _option, given: given.split(",") if given else [],
    metavar="T,T,…",
    help="Thresholds to try, such as 30us,50us,auto.  [default: the scenario's]",
)
@click.option(
    "--hosts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Lines ADDRESS,HOST.  [default: addresses in their order are the network's hosts in theirs]",
)
@click.option(
    "--gap",
    default="20us",
    show_default=True,
    metavar="TIME",
    help="Flows of several hosts to one that begin within this time of each other are a request's answers.",
)
@OUT
@FORCE
@JOBS
@DASK
@click.option("--json", "as_json", is_flag=True, help="Print forecast.json instead of a table.")
@QUIET
def forecast_command(
    recordings: tuple[Path, ...],
    network: Path,
    thresholds: list[str],
    hosts: Path | None,
    gap: str,
    out: Path | None,
    force: bool,
    jobs: int,
    dask: str | None,
    as_json: bool,
) -> int:
    """Say what On-Ramp would gain for the traffic of each RECORDING.

    `onrampctl record` writes them, one on each host at the same time. Their flows are simulated with and
    without On-Ramp. The last line is the path of an HTML page.
    """
    from onramp import forecast, report

    gap_ns = _time_ns("--gap", gap)
    target = out or unused(RESULTS / f"{network.stem}-forecast")
    with folders.staged(target, force=force) as folder:
        made = forecast.plan(recordings, network, folder, thresholds, hosts=hosts, gap_ns=gap_ns)
        _advise(line for scenario in made.runs.values() for line in scenario.advice)
        with Stop() as stop, _progress(made.without.name, len(made.runs), quiet=as_json) as progress:
            found = forecast.execute(made, folder, workers=dask or jobs, watch=Watch(stop, progress))
        report.write([found, *found.comparisons.values()], folder / "index.html")
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        console = terminal.console()
        console.print(terminal.forecast_table(found))
        console.print("", *found.notes, sep="\n", soft_wrap=True)
        click.echo(target / "index.html")
    return INTERRUPTED if len(found.comparisons) < len(made.with_) else 0


def _time_ns(option: str, text: str) -> int:
    try:
        if dimension(text) == "s":
            return round(quantity(text) * 1e9)
    except ValueError:
        pass
    raise click.UsageError(f"{option} {text}: is no time, such as 20us")


@commands.command("trace")
@SCENARIO
@click.argument("flows", type=click.IntRange(min=0), nargs=-1, metavar="FLOW…")
@click.option("--request", type=click.IntRange(min=0), metavar="N", help="Trace all flows of request N.")
@click.option(
    "--on",
    type=click.Choice(["sim", "linux", "both"]),
    default="sim",
    show_default=True,
    help="Where to run; the flows are the same.",
)
@SET
@SEED
@THREADS
@OUT
@FORCE
@click.option("--plot", is_flag=True, help="Draw bytes sent, acknowledged and in flight, too.")
@click.option("--html", is_flag=True, help="Write a page with each packet's way over time, too.")
@click.option("--json", "as_json", is_flag=True, help="Print trace.json instead of a table.")
@QUIET
def trace_command(
    scenario: Path,
    flows: tuple[int, ...],
    request: int | None,
    on: str,
    overrides: dict[str, str],
    seed: int | None,
    threads: int,
    out: Path | None,
    force: bool,
    plot: bool,
    html: bool,
    as_json: bool,
) -> int:
    """Run SCENARIO and capture the packets of each FLOW at both its hosts.

    FLOW is a number as in flows.parquet, N one as in requests.parquet. The pcap files in DIR are for
    Wireshark and the like: TCP, and of the simulator RDMA as RoCEv2. With --html, DIR also has a page of
    space and time: each packet's way from port to port in the simulator, and from host to host on Linux.
    """
    if not flows and request is None:
        raise click.UsageError("Missing argument 'FLOW…', or --request N")
    given = overrides | ({} if seed is None else {"seed": str(seed)})
    loaded, chosen = tracing.prepare(scenario, given, flows, on, request=request)
    name = f"{next(iter(loaded.values())).name}-trace"
    numbers = [*flows, *([] if request is None else [f"request-{request}"])]
    target = out or unused(RESULTS / f"{name}-{'-'.join(map(str, numbers))}")
    with Stop() as stop:
        with _progress(name, len(loaded), quiet=as_json) as progress:
            found = api.trace_loaded(
                loaded,
                chosen,
                target,
                threads=threads,
                watch=Watch(stop, progress),
                force=force,
                html=html,
            )
        drawn: list[Path] = []
        if plot and not stop():
            from onramp.plots import trace as plots

            drawn = plots.save_all(found)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        console = terminal.console()
        if len(found.substrates) > 1:
            for flow in chosen:
                console.print(terminal.trace_table(found, flow), "")
        if any(c.numbers["protocol"] == "RoCEv2" for c in found.captures):
            console.print(terminal.rdma_table(found), "")
        files = map(str, [*drawn, *found.pages])
        console.print(*terminal.trace_lines(found), *files, sep="\n", soft_wrap=True)
    return 0 if found.complete else INTERRUPTED


@commands.command()
@click.argument("scenarios", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="SCENARIO…")
@SET
def validate(scenarios: tuple[Path, ...], overrides: dict[str, str]) -> int:
    """Check scenarios without running them."""
    wrong = False
    for path in scenarios:
        try:
            _advise(load(path, overrides).advice)
        except (ScenarioError, OnRampError) as e:
            wrong = True
            click.echo(_mistakes(e), err=True)
        else:
            click.echo(f"{path}: ok")
    return 2 if wrong else 0


class _New(click.Group):
    """`onramp new FILE` is `onramp new scenario FILE`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args.insert(0, "scenario")
        return super().parse_args(context, args)


@commands.group(cls=_New)
def new() -> None:
    """Write a scenario, all examples, or a congestion controller of your own, to start from.

    `onramp new FILE` is short for `onramp new scenario FILE`.
    """


@new.command("controller")
@click.argument("folder", type=click.Path(path_type=Path))
def new_controller(folder: Path) -> int:
    """Write a Rust crate with a congestion controller to FOLDER, and a scenario that loads it.

    Built with cargo alone, it runs in every command that takes a scenario.
    """
    controller.write(folder)
    if not shutil.which("cargo"):
        click.echo("Rust is not installed here: https://rustup.rs has it.", err=True)
    click.echo(f"{folder}: cd {folder}; cargo build --release; onramp compare scenario.toml")
    return 0


@new.command("examples")
@click.argument("folder", type=click.Path(path_type=Path), default="scenarios")
def new_examples(folder: Path) -> int:
    """Write the scenarios that come with On-Ramp to FOLDER, also those of the paper and of studies.

    Commands in the documentation name files in `scenarios`, the default.
    """
    click.echo(f"{folder}: {examples.write(folder)} scenarios; onramp compare {folder}/demo.toml")
    return 0


def _for_program(answers: template.Answers, program: str) -> template.Answers:
    """With a network that has a host for each rank: as htsim has it for its files, else of GPU servers."""
    try:
        ranks = _sim.ranks(program, answers.hosts)
    except ValueError as e:
        raise OnRampError(f"--program {program}: {e}") from e
    if ranks is None:
        raise OnRampError(f"--program {program}: its name is none of .et, .txt, .goal, .bin, .cm, .tm")
    answers = dataclasses.replace(answers, hosts=max(2, ranks))
    if Path(program).suffix in (".cm", ".tm"):
        return dataclasses.replace(answers, network="fat-tree", transport="nscc")
    return dataclasses.replace(answers, network="servers", rate="400Gbps")


@new.command("scenario")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--network", type=click.Choice(list(template.NETWORKS)))
@click.option("--hosts", type=click.IntRange(min=2, max=100_000), metavar="N", help="Hosts, or GPUs.  [64]")
@click.option("--rate", metavar="RATE", help="Rate of a host's link.  [100Gbps]")
@click.option("--transport", metavar="KIND", help="Such as dcqcn, hpcc, cubic, bbr.  [dcqcn]")
@click.option(
    "--traffic",
    metavar="KIND,…",
    help=f"Of {', '.join(template.TRAFFIC)}.  [background,incast]",
)
@click.option("--load", type=click.FloatRange(0, 1, min_open=True), help="Of the background.  [0.4]")
@click.option(
    "--program",
    metavar="TRACE",
    help="A job as the only traffic: .et (Chakra, the first rank's), .txt (SimAI), .goal, .bin, .cm (htsim).",
)
@click.option("--topology", metavar="FILE", help="The network: htsim's .topo, or one for SimAI.")
def new_scenario(file: Path, **given: Any) -> int:
    """Write a commented scenario to FILE, with T chosen for its network.

    What is not given is asked on a terminal; elsewhere it has the value in brackets. With --program the
    network has a host for each of its ranks: GPU servers, and for htsim's files a fat tree with NSCC.
    """
    answers = template.Answers()
    if given["program"] is not None:
        answers = _for_program(answers, given["program"])
    for key in ("program", "topology"):
        if given[key] is not None:
            # As the scenario's folder has it.
            given[key] = (
                given[key] if Path(given[key]).is_absolute() else os.path.relpath(given[key], file.parent)
            )
    if given["traffic"] is not None:
        given["traffic"] = tuple(given["traffic"].split(","))
    asks = sys.stdin.isatty() and not any(value is not None for value in given.values())
    for key, value in given.items():
        if value is not None:
            answers = dataclasses.replace(answers, **{key: value})
        elif asks and key not in ("program", "topology"):
            answers = template.ask(answers, key)
    text, hosts = template.write(file.stem, answers, file.parent)
    _write_new(file, text)
    click.echo(f"{file}: {hosts} hosts; onramp explain {file}, onramp compare {file}")
    return 0


@commands.command("explain")
@SCENARIO
@SET
@THREADS
@click.option(
    "--trial",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Run it for so long, to judge what a run takes; 0: not at all.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw traffic matrix and offered loads into FILE (.png or .svg).",
)
@click.option("--json", "as_json", is_flag=True, help="Print all facts as JSON instead.")
def explain_command(
    scenario: Path,
    overrides: dict[str, str],
    threads: int,
    trial: float,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Say what SCENARIO is, and what a run of it takes, before the run.

    Its network and paths, T against the least delay, what each kind of link is offered, and time and memory.
    """
    from onramp import explanation

    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise click.UsageError(f"--plot {plot}: write a name that ends in .png or .svg")
    if plot is not None and not plot.parent.is_dir():
        raise click.UsageError(f"--plot {plot}: {plot.parent} is no folder")
    with Stop() as stop:
        found = explanation.explain(scenario, overrides, trial=trial, threads=threads, watch=Watch(stop))
    _advise(found.scenario.advice)
    if plot is not None:
        explanation.save_plot(found, plot)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        terminal.console().print(terminal.explanation_table(found))
        if plot is not None:
            click.echo(plot)
    return INTERRUPTED if stop.asked else 0


@commands.command()
@click.argument("folders", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="DIR…")
@THREADS
@QUIET
def verify(folders: tuple[Path, ...], threads: int) -> int:
    """Run the scenario of each result folder again and compare bytes.

    DIR holds a run, a comparison or a sweep. Compared are scenario, input files, tables and the numbers of
    summary.json. Exit status: 0 if all are the same, 1 if not.
    """
    from onramp import reproduce

    runs = [run for folder in folders for run in reproduce.folders(folder)]
    found = []
    with Stop() as stop, _progress("verify", len(runs)) as progress:
        for run in runs:
            again = reproduce.reproduce(run, threads=threads, watch=Watch(stop, progress))
            if again is None:
                break
            found.append(again)
            progress("", None)
    for again in found:
        same = f"the same bytes, {again.files} files"
        click.echo(f"{again.folder}: {'differs' if again.differences else same}")
        for line in (*again.differences, *again.notes):
            click.echo(f"  {line}")
    if stop.asked:
        click.echo(f"Incomplete: {len(found)} of {len(runs)} runs.", err=True)
        return INTERRUPTED
    return 1 if any(again.differences for again in found) else 0


@commands.command("sweep")
@SCENARIO
@_vary(required=False)
@SEEDS
@click.option("--both", is_flag=True, help="Without and with On-Ramp, and how many times as fast with it.")
@ON
@SET
@KEPT
@JOBS
@DASK
@QUIET
def sweep_command(
    scenario: Path,
    vary: dict[str, list[str]],
    seeds: list[int],
    both: bool,
    on: str,
    overrides: dict[str, str],
    out: Path | None,
    jobs: int,
    dask: str | None,
) -> int:
    """Run SCENARIO on a grid of values, missing runs only.

    Each run is a row of sweep.parquet and sweep.csv; the last line is the path of an HTML page.
    """
    from onramp import report, sweeps

    own = {sweeps.SEED: list(map(str, seeds)), sweeps.GATE: ["false", "true"] if both else []}
    for key, values in own.items():
        if values and key in vary:
            raise click.UsageError(f"--vary {key}: is what --seeds or --both varies; give one of them")
        vary |= {key: values} if values else {}
    if not vary:
        raise click.UsageError("nothing varies: give --vary KEY=A,B, --seeds or --both")
    points = sweeps.grid(scenario, overrides, vary, on)
    keys = list(vary)
    usual = RESULTS / f"{points[0].scenario.name}-sweep-{'-'.join(keys)}"
    if out:
        sweeps.check_folder(out, keys, points)
    cache = Cache(out or unused(usual, lambda begun: sweeps.continues(begun, keys, points)))
    scenarios = {p.label: p.scenario for p in points}
    _advise(line for p in points for line in p.scenario.advice)
    missing = cache.missing(scenarios)
    title = f"{len(missing)} of {len(points)} runs missing"
    with Stop() as stop, _progress(title, len(missing)) as progress:
        cache.run(scenarios, workers=dask or jobs, watch=Watch(stop, progress))
    done = sweeps.results(points, cache)
    if done:
        sweeps.write(done, cache.folder)
        _print_sweep(done)
        page = cache.folder / "index.html"
        report.write([sweeps.Sweep(cache.folder, keys, done)], page)
        click.echo(page)
    if stop.asked:
        click.echo(f"Incomplete: {len(done)} of {len(points)} runs; the same command runs the rest.")
    return INTERRUPTED if stop.asked else 0


def _print_sweep(done: Sequence[tuple[Point, Result]]) -> None:
    from onramp import sweeps

    console = terminal.console()
    console.print(terminal.sweep_table(*sweeps.overview(done), sweeps.repeated(done)[0].values))
    if gains := sweeps.gains(done):
        console.print(terminal.sweep_table(*terminal.gains(gains), gains[0].values, sweeps.GAINS))
    for note in sweeps.notes(done):
        console.print(note, soft_wrap=True)


@commands.command("report")
@click.argument("folders", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="DIR…")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The page; default: index.html in the only DIR, DIR.html before its end, or results/index.html.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.option(
    "--interactive",
    is_flag=True,
    help="Charts that zoom, tell each point's flow and show one side; 1 MB more, needs onramp-lab[charts].",
)
def report_command(folders: tuple[Path, ...], out: Path | None, force: bool, interactive: bool) -> int:
    """Write one self-contained HTML page on results: comparisons, and runs, also under way or killed."""
    from onramp import report

    results = [report.read(folder) for folder in folders]
    if len(results) > 1:
        usual = RESULTS / "index.html"
    elif isinstance(results[0], Result) and results[0].is_partial:
        # The folder comes with the run's end.
        whole = folders[0].resolve()
        usual = whole.with_name(f"{whole.name}.html")
    else:
        usual = folders[0] / "index.html"
    page = out or usual
    if page.exists() and not force and (out or len(folders) > 1):
        raise OnRampError(f"{page}: exists; choose another --out, or --force to replace it")
    page.parent.mkdir(parents=True, exist_ok=True)
    report.write(results, page, interactive=interactive)
    click.echo(page)
    return 0


@commands.command("perfetto")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The trace; default: timeline.perfetto-trace in DIR.",
)
@click.option("--most", type=click.IntRange(min=2), metavar="N", help="Events at most; default 200000.")
@click.option("--force", is_flag=True, help="Replace FILE.")
def perfetto_command(folder: Path, out: Path | None, most: int | None, force: bool) -> int:
    """Write a run, also one under way or killed, as a Perfetto trace: ranks, flows, PFC pauses, queues.

    Open it at ui.perfetto.dev. The earliest events are kept where there are too many.
    """
    from onramp import perfetto

    result = Result(folder, partial=True)
    path = out or result.folder / "timeline.perfetto-trace"
    if out and path.exists() and not force:
        raise OnRampError(f"{path}: exists; choose another --out, or --force to replace it")
    without_room = perfetto.write(result, path, most or perfetto.MOST)
    if without_room:
        click.echo(f"{without_room:,} events had no room: raise --most", err=True)
    click.echo(path)
    return 0


@commands.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print what makes SHELL complete the commands and options of onramp.

    \b
    bash: onramp completion bash > ~/.local/share/bash-completion/completions/onramp
    zsh:  onramp completion zsh > DIR/_onramp, DIR one of $fpath
    fish: onramp completion fish > ~/.config/fish/completions/onramp.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind
    click.echo(kind(commands, {}, "onramp", "_ONRAMP_COMPLETE").source())
    return 0


def _book(name: str, book: str, argument: str, summary: str) -> None:
    """Adds the command that takes the figures of a book."""
    rest = (
        "Without figures, or with LIST, the figures are listed. "
        "Runs are kept in DIR; only missing ones are computed."
    )

    def named(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from onramp.paper import common

        return [figure for figure in common.experiments(book) if figure.startswith(incomplete)]

    @commands.command(name, help=f"{summary}\n\n{rest}")
    @click.argument("figures", nargs=-1, metavar=argument, shell_complete=named)
    @click.option(
        "--on",
        type=click.Choice(["sim", "linux"]),
        help="Substrate; default: the first that the list names for a figure.",
    )
    @click.option(
        "--quick", is_flag=True, help="Short runs, one seed: about a minute per figure on two cores."
    )
    @click.option("--seeds", callback=_seeds, metavar="1,2,3", help="Default: 1,2,3,4,5; with --quick 1.")
    @JOBS
    @DASK
    @click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=RESULTS / name,
        show_default=True,
        metavar="DIR",
        help="Folder of the runs and figures.",
    )
    @click.option(
        "--markdown",
        "as_markdown",
        is_flag=True,
        help="Print the stored verdicts as a Markdown table; run nothing.",
    )
    @QUIET
    def take(
        figures: tuple[str, ...],
        on: str | None,
        quick: bool,
        seeds: list[int],
        jobs: int,
        dask: str | None,
        out: Path,
        as_markdown: bool,
    ) -> int:
        from onramp import markdown
        from onramp.paper import common

        words = [name.lower() for name in figures]
        listed = not words or words == ["list"]
        every = listed or words == ["all"]
        chosen = [common.find(book, name) for name in (common.experiments(book) if every else figures)]
        if every:
            chosen = [figure for figure in chosen if on is None or on in figure.on]
        for figure in chosen:
            if on and on not in figure.on:
                raise OnRampError(f"{figure.name}: runs with --on {' or '.join(figure.on)} only")
        if as_markdown:
            wanted = [(f.name, each) for f in chosen for each in ([on] if on else f.on)]
            click.echo(markdown.verdicts(common.stored(out, wanted, quick)))
            return 0
        if listed:
            width = max(len(figure.name) for figure in chosen)
            for figure in chosen:
                click.echo(f"{figure.name:{width}} {', '.join(figure.on):10} {figure.title}")
            return 0
        mode = common.Mode(quick, tuple(seeds or ([1] if quick else [1, 2, 3, 4, 5])))
        cache = Cache(out)
        for figure in chosen:
            where = on or figure.on[0]
            scenarios = common.scenarios(figure, where, mode)
            missing = cache.missing(scenarios)
            title = f"{figure.name}, {where}: {len(missing)} of {len(scenarios)} runs missing"
            with Stop() as stop, _progress(title, len(missing)) as progress:
                cache.run(missing, workers=dask or jobs, watch=Watch(stop, progress))
            if stop.asked:
                click.echo("Incomplete; the same command runs the rest.")
                return INTERRUPTED
            judged = common.judge(figure, where, mode, cache)
            for table in terminal.verdict_tables(judged):
                terminal.console().print(table, "")
            if len(mode.seeds) == 1:
                click.echo("One seed tells no interval, so every verdict is inconclusive; see --seeds.")
            place = common.place(out, figure.name, where, quick)
            click.echo(f"{place / figure.name}.png\n{place / 'values.csv'}: all numbers, by case\n")
        return 0


_book(
    "paper",
    "paper",
    "[LIST | ALL | figN …]",
    "Rerun figures of the paper: plot, table, and a verdict against what the text states.",
)
_book(
    "study",
    "studies",
    "[LIST | ALL | NAME …]",
    "Run studies of what On-Ramp is compared with: plot, table, and a verdict against what is stated of it.",
)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; every mistake is one line on standard error and exit status 2."""
    # A home that cannot be written only costs matplotlib time.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        status = commands.main(args, prog_name="onramp", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message())
        status = 0
    except click.ClickException as e:
        place = e.ctx.command_path if isinstance(e, click.UsageError) and e.ctx else "onramp"
        status = _fail(f"{place}: {e.format_message()}", 2)
    except ScenarioError as e:
        status = _fail(_mistakes(e), 2)
    except OnRampError as e:
        status = _fail(f"onramp: {e}", e.exit_code)
    except (KeyboardInterrupt, click.Abort):
        status = _fail("onramp: stopped before there were results", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as e:
        status = _fail(f"onramp: {f'{e.filename}: ' if e.filename else ''}{e.strerror or e}", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _mistakes(error: Exception) -> str:
    """Mistakes in a scenario, as who typed `--set` reads them."""
    return re.sub(f"^{OVERRIDES}", "--set: ", str(error), flags=re.MULTILINE)


def _fail(line: str, status: int) -> int:
    click.echo(line, err=True)
    return status
