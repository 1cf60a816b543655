"""Documentation as its readers meet it: links lead somewhere, commands run, pages begin with their point."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from conftest import ROOT, rust

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
GENERATED = DOCS / "reference"
HAND_MADE = [page for page in PAGES if GENERATED not in page.parents]
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))

sys.path.insert(0, str(ROOT / "packaging" / "site"))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def lines_outside_code(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without those of fenced code and comments."""
    fence = ""
    for number, line in enumerate(re.sub(r"<!--.*?-->", _blank, text, flags=re.S).splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
        elif not fence:
            yield number, line


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


@cache
def generated() -> dict[str, str]:
    """Reference pages that `make docs` writes, without that of Python, which takes griffe."""
    import reference

    return {
        "scenario-keys.md": reference.scenario_page(),
        "commands.md": reference.commands_page(),
        "python.md": "# Python API\n",
        "rust.md": reference.rust_page(),
    }


def slug(heading: str) -> str:
    """An anchor, as the site and viewers of a checkout make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = unicodedata.normalize("NFC", re.sub(r"[`*]", "", text)).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    found = set()
    for _, line in lines_outside_code(text):
        if heading := re.match(r"#{1,6} (.*?)(?:\s*\{\s*#([\w-]+)\s*\})?\s*$", line):
            found.add(heading[2] or slug(heading[1]))
    return found


def read(page: Path) -> str | None:
    """A page's text, also of one that is generated; None if there is none."""
    if page.parent == GENERATED:
        return generated().get(page.name)
    return page.read_text(encoding="utf-8") if page.is_file() else None


@pytest.mark.parametrize("page", HAND_MADE, ids=name)
def test_links_lead_to_files_and_anchors(page: Path) -> None:
    wrong = []
    for number, line in lines_outside_code(page.read_text(encoding="utf-8")):
        # Code spans have brackets that are none of a link's.
        plain = re.sub(r"(`+)(?!\]).*?\1", "`code`", line)
        for target in re.findall(r"\]\(([^()\s]+)\)", plain):
            if re.match(r"https?:|mailto:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            text = read(file) if file.suffix == ".md" else None
            if text is None and (file.suffix == ".md" or not file.exists()):
                wrong.append(f"{name(page)}:{number}: {target}: no such file")
            elif anchor and text is not None and anchor not in anchors(text):
                wrong.append(f"{name(page)}:{number}: {target}: no such heading")
            elif DOCS in page.parents and DOCS not in file.parents:
                wrong.append(f"{name(page)}:{number}: {target}: is not part of the site")
    assert not wrong, "\n".join(wrong)


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {str(page.relative_to(DOCS)) for page in HAND_MADE if DOCS in page.parents}
    assert there | {f"reference/{page}" for page in generated()} == listed


@pytest.mark.parametrize("page", HAND_MADE, ids=name)
def test_pages_begin_with_a_summary(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.S)
    title, _, rest = text.lstrip().partition("\n")
    assert re.match(r"# \S", title), "a page begins with its title"
    first = rest.strip().partition("\n\n")[0]
    assert not re.match(r"[|#!>~-]|```|\d+\.", first), f"begins with no sentence: {first[:60]}"
    sentence = re.split(r"[.:](?:\s|$)", " ".join(first.split()))[0]
    assert len(sentence.split()) <= 40, f"the first sentence is long: {sentence}"


@pytest.mark.parametrize("page", HAND_MADE, ids=name)
def test_lines_of_prose_are_short(page: Path) -> None:
    long = [
        number
        for number, line in lines_outside_code(page.read_text(encoding="utf-8"))
        # Tables, pictures, and lines that are one link or one piece of code cannot be broken.
        if len(line) > 120 and not re.match(r"\s*[|!]|    ", line) and " " in line[:120].strip()[2:]
    ]
    assert not long, f"{name(page)}: above 120 characters: lines {long}"


@pytest.mark.parametrize("page", HAND_MADE, ids=name)
def test_headings_tables_and_lists_stand_apart(page: Path) -> None:
    """The site takes them for text otherwise, unlike viewers of a checkout."""
    wrong, before, in_list = [], "", False
    for number, line in lines_outside_code(page.read_text(encoding="utf-8")):
        for mark in (r"#{1,6} ", r"\|", r"(?:[-*]|\d+\.) "):
            if re.match(mark, line) and before.strip() and not re.match(rf"{mark}|\s", before):
                item = mark[0] == "(" and in_list
                wrong += [] if item else [f"{name(page)}:{number}: {line[:60]}"]
        if not before.strip():
            in_list = False
        in_list = in_list or bool(re.match(r"(?:[-*]|\d+\.) ", line))
        before = line
    assert not wrong, "\n".join(wrong)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Marked code of a tutorial: `run` or the name of a file, its language, its text."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"<!-- (run|file: \S+) -->\n```(\w+)\n(.*?)^```$", text, re.S | re.M)
    assert len(found) == len(re.findall(r"<!-- (?:run|file)", text)), "a mark stands right before its code"
    return [(kind.removeprefix("file: "), language, code) for kind, language, code in found]


@pytest.mark.parametrize("page", [page for page in TUTORIALS if "<!-- run" in page.read_text()], ids=name)
def test_commands_of_tutorials_run(page: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "onramp"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m onramp "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    cargo = Path(shutil.which("cargo") or "/usr/bin/cargo").parent
    path = f"{tmp_path / 'bin'}:{cargo}:/usr/bin:/bin"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT / "python"), "HOME": str(tmp_path), **rust()}
    for kind, language, code in blocks(page):
        if kind != "run":
            (tmp_path / kind).write_text(code, encoding="utf-8")
            continue
        command = [sys.executable, "-c", code] if language == "python" else ["bash", "-euc", code]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_scenario_keys_are_those_of_the_simulator() -> None:
    import onramp
    import reference

    documented = {section.title: {key.name for key in section.keys} for section in reference.sections()}
    scenario = onramp.validate(ROOT / "scenarios" / "demo.toml").document
    tables = ("switch", "host", "onramp", "clock", "measure")
    assert set(scenario) <= documented["Top level"]
    for table in tables:
        assert set(scenario[table]) <= documented[table], table
    for table in ("network", "transport"):
        kind = scenario[table]["kind"]
        assert set(scenario[table]) <= documented[table] | documented[f'{table} = "{kind}"'], kind
    for section in reference.sections():
        for key in section.keys:
            assert key.name == "…" or key.default, f"{section.title}.{key.name} has no default"


def test_every_command_and_option_has_a_description() -> None:
    for line in generated()["commands.md"].splitlines():
        assert not re.fullmatch(r"\| `[^|]+` \|\s*\|", line), line


def test_doc_comments_begin_with_what_a_thing_is() -> None:
    pattern = r"(?:^\s*//[/!] |^\s*#: |^\s*r?\"\"\")(?:What|Whether|See there)\b.*"
    found = []
    for folder in ("crates", "examples", "python", "packaging"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".rs", ".py"} and path.is_file():
                comments = re.findall(pattern, path.read_text(encoding="utf-8"), re.M)
                found += [f"{name(path)}: {comment.strip()}" for comment in comments]
    assert not found, "begin with a noun or a verb:\n" + "\n".join(found)


def test_the_version_is_the_same_everywhere() -> None:
    def found(file: str, pattern: str) -> str:
        match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.M)
        assert match, file
        return match[1]

    versions = {
        "Cargo.toml": found("Cargo.toml", r'^version = "([^"]+)"'),
        "CITATION.cff": found("CITATION.cff", r"^version: (\S+)"),
        "Chart.yaml": found("packaging/helm/onramp/Chart.yaml", r"^version: (\S+)"),
        "CHANGELOG.md": found("CHANGELOG.md", r"^## (\d\S+)"),
    }
    assert len(set(versions.values())) == 1, versions
