"""The simulator, compiled from crates/onramp-py."""

def controller_crate() -> list[tuple[str, str]]:
    """Files of the crate for controllers in libraries of their own: path, content."""

def version() -> str:
    """Version of the simulator."""

class Loaded:
    """A checked scenario in which every value is written out, and its network."""

    def __init__(
        self,
        text: str,
        file: str,
        base: str,
        overrides: list[tuple[str, str]] = ...,
        on: str | None = None,
        name: str = "scenario",
    ) -> None:
        """Check a scenario for "sim", "linux" or any.

        Messages call it `file`; one without a name is called `name`.
        """
    @property
    def text(self) -> str:
        """The scenario as TOML."""
    @property
    def advice(self) -> list[str]:
        """Values that are possible, but hardly meant: a line each."""
    @property
    def hosts(self) -> list[str]:
        """Names of the network's hosts, in order."""
    @property
    def nodes(self) -> list[str]:
        """Names of all nodes, hosts first."""
    def explain(self) -> str:
        """JSON: facts of the scenario before its run, see crates/onramp-sim/src/scenario/explain.rs."""
    def flows_of(self, request: int) -> list[int]:
        """Numbers of the flows of a request."""
    def check_traced(self, flows: list[int]) -> None:
        """Refuse flows that cannot be traced."""

def with_input_files(resolved: str, paths: list[tuple[str, str]]) -> str:
    """Return a resolved scenario with its input files elsewhere: by dotted key their paths."""

def input_files(resolved: str) -> list[tuple[str, str]]:
    """(dotted key, path as written) of the files a resolved scenario refers to."""

def ranks(file: str, usual: int) -> int | None:
    """Ranks of a program's file, `usual` if it does not say; None if its name is that of no program."""

def groups(resolved: str) -> str:
    """JSON: the "groups" that sum up a resolved scenario's results, and its "endless" sections."""

def schemas() -> str:
    """JSON: the columns of each table, with name, kind (as numpy writes it), unit, meaning, nullable."""

class Simulation:
    """One run of a scenario on so many threads, of which the results know nothing.

    Tables come as columns of little-endian bytes.
    """

    def __init__(
        self,
        loaded: Loaded,
        threads: int = 1,
        traced: list[int] = ...,
        ways: bool = False,
        timeline: bool = False,
        skip: bool = True,
    ) -> None: ...
    def advance(self, wall_ms: int) -> bool:
        """Simulate for about `wall_ms` of wall time without the GIL; True at the end."""
    @property
    def failure(self) -> str | None: ...
    @property
    def skipping(self) -> str | None: ...
    @property
    def progress(self) -> float: ...
    @property
    def now_ps(self) -> int: ...
    @property
    def packet_hops(self) -> int: ...
    @property
    def flows_started(self) -> int: ...
    @property
    def flows_done(self) -> int: ...
    def take_flows(self) -> dict[str, bytes]:
        """Flows completed since the last call."""
    def take_requests(self) -> dict[str, bytes]:
        """Requests completed since the last call."""
    def take_exchanges(self) -> dict[str, bytes]:
        """Exchanges over since the last call."""

    def take_operations(self) -> dict[str, bytes]:
        """Operations of programs' ranks that were complete since the last call."""

    def take_collectives(self) -> dict[str, bytes]:
        """Collectives complete at all ranks since the last call."""
    def take_messages(self) -> dict[str, bytes]:
        """Messages between programs that have come since the last call; none unless they are recorded."""

    def take_pauses(self) -> dict[str, bytes]:
        """PFC pauses that are over since the last call; none unless they are recorded."""

    def pauses_under_way(self) -> dict[str, bytes]:
        """PFC pauses under way now, with their length so far; none unless they are recorded."""

    def take_series(self) -> dict[str, bytes]:
        """Samples taken since the last call."""
    def take_clock(self) -> dict[str, bytes]:
        """Samples of the clocks' errors since the last call; none unless they are synchronised."""
    def goodput(self) -> dict[str, bytes]:
        """What flows without an end of their own have moved so far."""
    def links(self) -> dict[str, bytes]:
        """Links so far, a row for each direction."""
    def next_owd(self) -> dict[str, bytes]:
        """Sampled packets that have arrived, beside those acknowledged before they left."""
    def unfinished_flows(self) -> dict[str, bytes]:
        """Flows alive now; their times so far are no completion times."""
    def captures(self) -> list[tuple[str, bytes, int]]:
        """Packets of the traced flows: each file's name and content, and packets left out."""
    def ways(self) -> str:
        """Ways of the packets of the flows that are traced, as JSON."""
    def picture(self) -> str:
        """The network over time so far as JSON, by columns; "null" without a timeline."""
    def series_names(self) -> list[str]:
        """Names of the time series, by their number."""
    def counters(self) -> str:
        """JSON with "network", "onramp_stats", "engine", "unfinished", and what not every run has."""
