"""Writes the reference pages of the site from the code: scenario keys, commands, the Python API, crates.

    python packaging/site/reference.py docs/reference

Descriptions are the doc comments of `crates/` and `python/`; no page of them is kept by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from rust import Field, Item, Variant, items, named

if TYPE_CHECKING:
    import griffe

ROOT = Path(__file__).parents[2]
CRATES = ROOT / "crates"
SCENARIO = CRATES / "onramp-sim/src/scenario/mod.rs"

#: Quantities: their units, and an example.
QUANTITIES = {
    "time": ("ps, ns, us, ms, s", "16us"),
    "rate": ("bps, Kbps, Mbps, Gbps, Tbps", "100Gbps"),
    "size": ("B, KB, MB, GB, KiB, MiB, GiB", "32MiB"),
    "drift": ("ppt, ppb, ppm", "30ppm"),
}
#: Types that are written as one value.
VALUES = {
    "Span": "time",
    "Rate": "rate",
    "Bytes": "size",
    "Drift": "drift",
    "Threshold": 'time, or `"auto"`',
    "Caps": "rate, or list of rates",
    "Sizes": "size, list of sizes, or a distribution's name or file",
    "u8": "whole number",
    "u16": "whole number",
    "u32": "whole number",
    "u64": "whole number",
    "usize": "whole number",
    "f64": "number",
    "bool": "true or false",
    "String": "text",
}
#: Defaults of types whose struct derives its default.
ZERO = {"Span": "0", "u32": "0", "u64": "0", "u8": "0", "bool": "false", "String": "empty", "f64": "0"}


@dataclass
class Key:
    """A key of a scenario, as a row of the page."""

    name: str
    type: str
    default: str
    doc: str


@dataclass
class Section:
    """A table of a scenario: its heading, its text, its keys."""

    title: str
    doc: str
    source: str
    keys: list[Key] = field(default_factory=list)


def _files() -> list[Path]:
    crates = ["onramp-sim", "onramp-topology", "onramp-workload"]
    return sorted(path for crate in crates for path in (CRATES / crate / "src").rglob("*.rs"))


class Types:
    """Looks up the structs and enums of the simulator, its networks and its workloads."""

    #: Where a name stands for something else than the only item of that name.
    ALIASES: ClassVar = {
        "ShaperKind": ("onramp-sim/src/host/shaper/mod.rs", "shapers"),
        "HostQdisc": ("onramp-sim/src/host/qdisc/mod.rs", "HostQdisc"),
        "path::Config": ("onramp-sim/src/network/path/mod.rs", "selectors"),
        "cc::Config": ("onramp-sim/src/cc/mod.rs", "transports"),
        "onramp_workload::Config": ("onramp-workload/src/lib.rs", "workloads"),
        "Sync": ("onramp-sim/src/clock/config.rs", "Sync"),
        "Loss": ("onramp-sim/src/network/config.rs", "Loss"),
        "Ecn": ("onramp-sim/src/network/config.rs", "Ecn"),
        "Class": ("onramp-sim/src/network/config.rs", "Class"),
    }

    def __init__(self) -> None:
        self.all = [item for file in _files() for item in items(file)]

    def find(self, name: str, near: Path) -> Item | None:
        """The item that `name` stands for in the file `near`."""
        if name in self.ALIASES:
            file, name = self.ALIASES[name]
            return next(i for i in self.all if i.file == CRATES / file and i.name == name)
        if "::" in name:
            module, _, item = name.partition("::")
            return self.module(module, item, near)
        same = [i for i in self.all if i.name == name]
        own = [i for i in same if i.file == near]
        read = [i for i in same if "Deserialize" in i.attributes]
        found = own or read or same
        return found[0] if len({i.file for i in found}) == 1 else None

    def module(self, module: str, name: str, near: Path) -> Item | None:
        """The item `name` of a module beside the file `near`, also one that the module hands on."""
        for place in (f"{module}.rs", f"{module}/mod.rs"):
            file = near.parent / place
            for item in self.all:
                if item.file == file and item.name == name:
                    return item
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            if handed := re.search(rf"pub use crate::([\w:]+)::(\w+) as {name};", text):
                crate = next(folder for folder in file.parents if folder.name == "src")
                return self.module(handed[1].replace("::", "/"), handed[2], crate / "lib.rs")
        return None


def _split_default(doc: str) -> tuple[str, str]:
    """A comment without its sentence on the default, and that."""
    found = re.search(r"(?:^|(?<=[.;:)]) |\n)Default:? (?=\S)", doc)
    if not found:
        return doc, ""
    rest = doc[found.end() :]
    end = re.search(r"\.(?: (?=[A-Z])|\n|$)", rest)
    default, after = (rest[: end.start()], rest[end.end() :]) if end else (rest, "")
    return f"{doc[: found.start()]} {after}".strip().rstrip(";"), default.strip()


def _inner(written: str) -> tuple[str, str]:
    """The type inside of Option, Vec and map, and words for those around it."""
    around = ""
    while found := re.fullmatch(r"(Option|Vec|BTreeMap)<(.+)>", written):
        written = found[2].removeprefix("String, ")
        around += {"Vec": "list of ", "BTreeMap": "table of ", "Option": ""}[found[1]]
    return written, around


class Keys:
    """Walks through the scenario's types, and makes a section of each table."""

    def __init__(self) -> None:
        self.types = Types()
        self.sections: list[Section] = []
        self.seen: set[tuple[Path, str]] = set()

    def section(self, item: Item, title: str, extra: Iterable[Key] = ()) -> Section:
        """A section for a struct; sections of tables inside follow it."""
        made = Section(title, item.doc, str(item.file.relative_to(ROOT)))
        self.sections.append(made)
        for each in item.fields:
            if "serde(skip)" in each.attributes:
                continue
            if "serde(flatten)" in each.attributes and each.type == "toml::Table":
                made.keys.append(Key("…", "any", "", each.doc))
                continue
            made.keys.append(self.key(each, item, title.partition(" = ")[0]))
        made.keys.extend(extra)
        return made

    def key(self, each: Field, of: Item, title: str) -> Key:
        """A row for a field; a table gets a section of its own."""
        written, around = _inner(each.type)
        doc, default = _split_default(each.doc)
        if written in VALUES:
            kind = around + VALUES[written] + "s" * bool(around and written in {"Span", "Rate", "Bytes"})
        else:
            found = self.types.find(written, of.file)
            if found is None:
                raise LookupError(f"{of.file}: {of.name}.{each.name} is of type {written}: unknown")
            kind = around + self.described(found, f"{title}.{each.name}" if title else each.name)
            if kind.startswith("[table]") and not default and not each.type.startswith("Option<"):
                default = "its keys' defaults"
            if not doc and found.kind == "enum":
                doc = " ".join(f'`"{named(v.name, found.attributes)}"`: {v.doc}' for v in found.variants)
        if not default:
            default = self._undocumented(each, of)
        return Key(each.name, kind, default, doc)

    def described(self, item: Item, title: str) -> str:
        """Words for a struct or an enum as a type."""
        if item.kind == "values":
            return ", ".join(f'`"{v.tag}"`' for v in item.variants)
        if item.kind == "enum" and not any(v.tag or v.payload for v in item.variants):
            values = [v for v in item.variants if "serde(skip" not in v.attributes]
            return ", ".join(f'`"{named(v.name, item.attributes)}"`' for v in values)
        if (item.file, title) not in self.seen:
            self.seen.add((item.file, title))
            self.table(item, title)
        return f"[table](#{_anchor(title)})"

    def table(self, item: Item, title: str, extra: Iterable[Key] = ()) -> None:
        """Sections for a struct, or for each kind of an enum with a `kind`."""
        if item.kind == "struct":
            self.section(item, title, extra)
            return
        known = [v for v in item.variants if v.tag]
        kinds = ", ".join(f'[`"{v.tag}"`](#{_anchor(title)}-{v.tag})' for v in known)
        top = Section(title, item.doc, str(item.file.relative_to(ROOT)))
        top.keys.append(Key("kind", kinds, "required", "Kind of the table."))
        top.keys.extend(extra)
        self.sections.append(top)
        for variant in known:
            module = variant.payload
            name = module if "::" in module else f"{module}::Config"
            config = next((i for i in items(item.file) if i.name == module and i.kind == "struct"), None)
            config = config or self.types.find(name, item.file)
            if config is None:
                raise LookupError(f"{item.file}: no {name}")
            made = self.section(config, f'{title} = "{variant.tag}"')
            made.doc = variant.doc if not made.doc else f"{variant.doc} {_shorter(made.doc, variant.doc)}"

    def _undocumented(self, each: Field, of: Item) -> str:
        """A default that its comment does not say."""
        optional = "default" in each.attributes or re.search(r"\bdefault\b", of.attributes)
        if each.type.startswith("Option<"):
            return "none"
        if not optional:
            return "required"
        if each.type.startswith(("Vec<", "BTreeMap<")):
            return "none"
        return ZERO.get(each.type, "see its meaning")


def _shorter(text: str, before: str) -> str:
    return "" if text.split(".")[0] == before.split(".")[0] else text


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]+", "-", title.replace(".", "--")).strip("-").lower()


def sections() -> list[Section]:
    """All tables of a scenario, each with its keys."""
    keys = Keys()
    types = keys.types
    scenario = next(i for i in items(SCENARIO) if i.name == "Scenario")
    top = Section("Top level", scenario.doc, str(SCENARIO.relative_to(ROOT)))
    keys.sections.append(top)
    for each in scenario.fields:
        if each.name == "network":
            network = types.find("Network", SCENARIO)
            shape = types.find("Shape", CRATES / "onramp-topology/src/lib.rs")
            assert network and shape
            extra = [keys.key(f, network, "network") for f in network.fields if f.name != "shape"]
            for key in extra:
                key.default = key.default.replace("required", "none")
            keys.table(shape, "network", extra)
            kind = "[table](#network)"
        elif each.name == "traffic":
            traffic = next(i for i in types.all if i.name == "Traffic" and i.file.name == "traffic.rs")
            extra = []
            for f in traffic.fields:
                if f.name == "source":
                    continue
                f.name = "cap" if f.name == "caps" else f.name
                if f.type == "Option<cc::Config>":
                    doc, default = _split_default(f.doc)
                    extra.append(Key(f.name, "[table](#transport)", default, doc))
                else:
                    key = keys.key(f, traffic, "traffic")
                    key.default = key.default.replace("required", "none")
                    extra.append(key)
            workloads = types.find("onramp_workload::Config", SCENARIO)
            assert workloads
            workloads.doc = "A source of traffic: one `[[traffic]]` section each."
            keys.table(workloads, "traffic", extra)
            kind = "list of [tables](#traffic)"
        elif each.name == "transport":
            transports = types.find("cc::Config", SCENARIO)
            assert transports
            transports.doc = "Congestion control of hosts."
            keys.table(transports, "transport")
            kind = "[table](#transport)"
        else:
            top.keys.append(keys.key(each, scenario, ""))
            continue
        doc, default = _split_default(each.doc)
        top.keys.append(Key(each.name, kind, default or "required", doc))
    return keys.sections


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield f"| {' | '.join('---' for _ in names)} |"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) or ' ' for cell in row)} |"


def scenario_page() -> str:
    """Every key of a scenario with type, unit and default."""
    made = sections()
    count = sum(len(section.keys) for section in made)
    lines = [
        "# Scenario keys",
        "",
        f"Every key of a scenario file, made from the source code: {count} keys in {len(made)} tables.",
        "[Scenarios](../scenario.md) explains how they work together. Search finds a key by its name.",
        "",
        "- A time, rate, size or drift is text with its unit. A bare number is an error.",
        "- A result folder's `scenario.toml` has every default written out.",
        "- Any key can be replaced on the command line: `--set onramp.threshold=16us`.",
        "",
    ]
    rows = ((name, units, f'`"{example}"`') for name, (units, example) in QUANTITIES.items())
    lines += [*_table(("quantity", "units", "example"), rows), ""]
    for section in made:
        lines += [f"## {_heading(section.title)} {{ #{_anchor(section.title)} }}", ""]
        if section.doc:
            lines += [section.doc, ""]
        if section.keys:
            keys = ((f"`{k.name}`", k.type, _code(k.default), k.doc) for k in section.keys)
            lines += _table(("key", "type", "default", "meaning"), keys)
        else:
            lines += ["No keys besides `kind`."]
        lines += ["", f"Source: `{section.source}`", ""]
    return "\n".join(lines)


def _heading(title: str) -> str:
    if title == "Top level":
        return title
    name, equals, kind = title.partition(" = ")
    shown = f"[[{name}]]" if name == "traffic" else f"[{name}]"
    return f"`{shown}` {f'kind = {kind}' if equals else ''}".strip()


def _code(default: str) -> str:
    plain = re.fullmatch(r'[\d.]+( ?[A-Za-zµ]+(/s)?)?|"[^"]+"|true|false', default)
    return f"`{default}`" if plain else default


# Commands


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option) and "--help" not in parameter.opts:
            rows.append((f"`{record[0]}`", record[1]))
    return rows


def onramp_commands() -> Iterator[str]:
    """Every command of `onramp`, from its definition."""
    from onramp.cli import commands

    yield from _click_commands(commands, click.Context(commands, info_name="onramp"))


def _click_commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(own))
        yield from (f"### {own.command_path}", "", f"    {own.command_path} {usage}", "")
        yield from (_help(command.help or ""), "")
        if options := _options(command, own):
            yield from _table(("option", "meaning"), options)
        yield ""
        if isinstance(command, click.Group):
            yield from _click_commands(command, own)


def _help(text: str) -> str:
    """A command's help as Markdown. Click leaves lines of paragraphs alone that begin with a backspace."""
    parts = inspect.cleandoc(text).split("\n\n")
    code = ("\n".join(f"    {line}" for line in part.splitlines()[1:]) for part in parts)
    prose = (" ".join(part.splitlines()) for part in parts)
    return "\n\n".join(
        c if part.startswith("\b") else p for part, c, p in zip(parts, code, prose, strict=True)
    )


def _argument(each: Field) -> tuple[str, str]:
    long = re.search(r'\blong(?: = "([^"]+)")?', each.attributes)
    value = re.search(r'value_name = "([^"]+)"', each.attributes)
    default = re.search(r'default_value(?:_t)? = ("[^"]*"|[\w:.]+)', each.attributes)
    name = each.name.replace("_", "-")
    word = value[1] if value else each.name.upper()
    many = "…" if each.type.startswith("Vec<") else ""
    shown = word + many
    if long:
        shown = f"--{long[1] or name}" + ("" if each.type == "bool" else f" {word}{many}")
    elif each.type.startswith(("Option<", "Vec<")):
        shown = f"[{shown}]"
    said = _constant(default[1]).strip('"') if default else ""
    return f"`{shown}`", each.doc + (f" Default: `{said}`." if re.fullmatch(r"[\w/.,:%+<> -]+", said) else "")


def _constant(value: str) -> str:
    """A default's value, also where the code has a constant, such as `guard::DEFAULT`, for it."""
    *path, name = value.split("::")
    if not re.fullmatch(r"[A-Z][A-Z_]+", name):
        return value
    for file in sorted(CRATES.glob("*/src/**/*.rs")):
        module = file.parent.name if file.stem == "mod" else file.stem
        if path and module != path[-1]:
            continue
        if found := re.search(rf"const {name}: [^=]+ = ([^;]+);", file.read_text(encoding="utf-8")):
            return found[1]
    raise ValueError(f"{value}: there is no such constant")


def clap_commands(program: str, files: list[Path], top: str = "Command") -> Iterator[str]:
    """Every command of a program, from the comments its help is made of."""
    known = {item.name: item for file in files for item in items(file)}

    def of(variants: list[Variant], before: str) -> Iterator[str]:
        for variant in variants:
            if "hide = true" in variant.attributes or "external_subcommand" in variant.attributes:
                continue
            renamed = re.search(r'name = "([^"]+)"', variant.attributes)
            word = renamed[1] if renamed else re.sub(r"(?<!^)(?=[A-Z])", "-", variant.name).lower()
            rows: list[tuple[str, str]] = []
            below: list[Variant] = []
            fields = list(variant.fields)
            payload = known.get(variant.payload)
            if payload and payload.kind == "struct":
                fields = payload.fields
            elif payload:
                below = payload.variants
            for each in fields:
                inner, _ = _inner(each.type)
                if "subcommand" in each.attributes:
                    below = known[inner].variants
                elif "flatten" in each.attributes:
                    rows += [_argument(f) for f in known[inner].fields]
                else:
                    rows.append(_argument(each))
            yield from (f"### {before} {word}", "", variant.doc, "")
            if rows:
                yield from (*_table(("argument", "meaning"), rows), "")
            yield from of(below, f"{before} {word}")

    yield from of(known[top].variants, program)


def commands_page() -> str:
    """Every command of the three programs."""
    client = list((CRATES / "onrampctl/src").rglob("*.rs"))
    daemon = [CRATES / "onrampd/src/cli.rs"]
    return "\n".join(
        [
            "# Commands",
            "",
            "Every command of the three programs with its options, made from their definitions.",
            "",
            "| program | runs | for |",
            "| --- | --- | --- |",
            "| [`onramp`](#onramp) | anywhere | simulations and comparisons |",
            "| [`onrampctl`](#onrampctl) | on servers | operators: agents and fleets |",
            "| [`onrampd`](#onrampd) | on servers | the agent itself, started by its systemd unit |",
            "",
            "Each program prints the same with `--help`. The packages of `onrampd` and `onrampctl` also have",
            "a manual page for every command (`man onrampctl-policy-set`) and completions for three shells.",
            "",
            "## onramp",
            "",
            *onramp_commands(),
            "## onrampctl",
            "",
            *clap_commands("onrampctl", client),
            "## onrampd",
            "",
            *clap_commands("onrampd", daemon),
        ]
    )


# The Python API


def _described(found: griffe.Object | griffe.Alias) -> Iterator[str]:
    import griffe

    if found.docstring is None:
        return
    for part in found.docstring.parse("numpy"):
        if part.kind is griffe.DocstringSectionKind.text:
            yield from (part.value, "")
        elif part.kind is griffe.DocstringSectionKind.examples:
            for kind, value in part.value:
                code = kind is griffe.DocstringSectionKind.examples
                value = re.sub(r"\s*# doctest:.*", "", value)
                yield from (("```pycon", value, "```", "") if code else (value, ""))
        else:
            names: dict[str, list[str]] = {}
            for each in part.value:
                name = getattr(each, "name", None) or str(each.annotation).strip("()")
                names.setdefault(each.description, []).append(f"`{name}`")
            rows = ((", ".join(of), said) for said, of in names.items())
            yield from (*_table((part.kind.value.lower(), "meaning"), rows), "")


def _signature(found: griffe.Function) -> str:
    def shown(each: griffe.Parameter) -> str:
        star = {"variadic positional": "*", "variadic keyword": "**"}.get(
            each.kind.value if each.kind else "", ""
        )
        text = f"{star}{each.name}"
        if each.annotation is not None:
            text += f": {each.annotation}"
        return text if each.default is None or star else f"{text} = {each.default}"

    inner = [shown(p) for p in found.parameters if p.name not in {"self", "cls"}]
    one = f"{found.name}({', '.join(inner)})"
    if len(one) > 90:
        one = f"{found.name}(\n" + "".join(f"    {p},\n" for p in inner) + ")"
    return f"{one} -> {found.returns}"


def python_page() -> str:
    """The names that `import onramp` has."""
    import griffe

    package: Any = griffe.load("onramp", search_paths=[str(ROOT / "python")], resolve_aliases=True)
    names = [str(name).strip("'\"") for name in package.exports or []]
    lines = [
        "# Python API",
        "",
        "The names that `import onramp` offers, made from their docstrings.",
        "Functions run scenarios and return objects with summaries, tables and plots.",
        "",
        "```python",
        "import onramp",
        "",
        'result = onramp.run("scenarios/demo.toml", {"duration": "100us"})',
        'print(result.summary["incast"]["rct_us"]["p95"])   # µs',
        "flows = result.flows                                # a pyarrow table",
        "```",
        "",
    ]
    functions = [n for n in names if n in package.members and package[n].kind is griffe.Kind.FUNCTION]
    others = [n for n in names if n not in functions]
    for title, chosen in (("Functions", functions), ("Classes", others)):
        lines += [f"## {title}", ""]
        for name in chosen:
            lines += [f"### onramp.{name}", ""]
            found = package[name]
            if found.kind is griffe.Kind.FUNCTION:
                lines += ["```python", _signature(found), "```", "", *_described(found)]
                continue
            lines += _described(found)
            for member in found.members.values():
                if member.name.startswith("_") or member.docstring is None:
                    continue
                lines += [f"#### {name}.{member.name}", ""]
                if member.kind is griffe.Kind.FUNCTION:
                    lines += ["```python", _signature(member), "```", ""]
                lines += _described(member)
    return "\n".join(lines)


#: Crates that programs may build on: the simulator, then what it stands on, from the top.
LIBRARIES = ("sim", "workload", "topology", "records", "clock", "config", "random", "controller", "core")


def rust_page() -> str:
    """Crates with their first sentence, and links to what rustdoc writes beside the pages."""
    lines = [
        "# Rust crates",
        "",
        "A program of your own depends on `onramp-sim`, which hands on most of the others; a controller in a",
        "library of its own on `onramp-controller` alone. `examples/` has a small program for each seam.",
        "",
        "| crate | holds |",
        "| --- | --- |",
    ]
    for name in LIBRARIES:
        text = (CRATES / f"onramp-{name}/src/lib.rs").read_text(encoding="utf-8")
        first = " ".join(
            line.removeprefix("//!").strip() for line in text.partition("\n//!\n")[0].splitlines()
        )
        sentence = re.sub(r"\[(`[^`]*`)\]", r"\1", first)
        lines.append(f"| [onramp-{name}](crates/onramp_{name}/index.html) | {sentence} |")
    return "\n".join(lines)


PAGES = {
    "scenario-keys.md": scenario_page,
    "commands.md": commands_page,
    "python.md": python_page,
    "rust.md": rust_page,
}


def main() -> None:
    """Write the pages into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        text = re.sub(r"\n{3,}", "\n\n", page()).rstrip() + "\n"
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
