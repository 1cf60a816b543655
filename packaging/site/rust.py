"""Reads just enough Rust to describe configuration and command lines: structs, enums, their comments.

Works on source text as rustfmt writes it. A type that it does not know is an error, so that no key
goes missing from the reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ATTRIBUTE = re.compile(r"#\[")


@dataclass
class Field:
    """A field of a struct or of an enum's variant."""

    name: str
    type: str
    doc: str
    attributes: str


@dataclass
class Variant:
    """A variant of an enum, its payload as written, and its fields if it has names for them."""

    name: str
    doc: str
    attributes: str
    payload: str = ""
    fields: list[Field] = field(default_factory=list)
    tag: str = ""


@dataclass
class Item:
    """A struct, an enum, or the call of a macro that declares an enum with a `kind`."""

    kind: str
    name: str
    doc: str
    attributes: str
    body: str
    file: Path

    @property
    def fields(self) -> list[Field]:
        """Fields of a struct, in order."""
        return list(_fields(self.body))

    @property
    def variants(self) -> list[Variant]:
        """Variants of an enum, in order."""
        return list(_variants(self.body))


def _doc(lines: list[str]) -> str:
    """Comment lines as text: paragraphs stay apart, links to items become code."""
    text = "\n".join(line.removeprefix("///").removeprefix(" ") for line in lines)
    text = re.sub(r"(?<!\n)\n(?!\n|[-*] )", " ", text).strip()
    text = re.sub(r"\[(`[^`\]]+`)\](?:\([^)]*\))?", r"\1", text)
    return re.sub(r"\\([\[\]])", r"\1", text)


def _closing(text: str, start: int) -> int:
    """Place of the bracket that closes the one at `start`, past strings and comments."""
    pairs = {"{": "}", "(": ")", "[": "]"}
    stack: list[str] = []
    skip = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[{}()\[\]]')
    for found in skip.finditer(text, start):
        token = found[0]
        if token in pairs:
            stack.append(pairs[token])
        elif stack and token == stack[-1]:
            stack.pop()
            if not stack:
                return found.start()
    raise ValueError(f"no end of what begins at {text[start : start + 40]!r}")


def _heads(body: str) -> Iterator[tuple[list[str], str, int]]:
    """Comments and attributes before each thing in `body`, and where it begins."""
    at = 0
    while True:
        docs: list[str] = []
        attributes: list[str] = []
        while True:
            blank = re.compile(r"[\s,]*").match(body, at)
            at = blank.end() if blank else at
            if body.startswith("//", at):
                end = body.find("\n", at)
                end = len(body) if end < 0 else end
                if body.startswith("///", at):
                    docs.append(body[at:end].strip())
                at = end
            elif ATTRIBUTE.match(body, at):
                end = _closing(body, at + 1) + 1
                attributes.append(body[at:end])
                at = end
            else:
                break
        if at >= len(body):
            return
        yield docs, " ".join(attributes), at
        # On to the comma that ends it.
        depth = re.compile(r'"(?:\\.|[^"\\])*"|[{(\[<]|[,}\])>]|->|=>')
        while at < len(body):
            found = depth.search(body, at)
            if found is None:
                return
            if found[0] in "{([":
                at = _closing(body, found.start()) + 1
            elif found[0] == "<":
                nested, at = 1, found.end()
                while nested:
                    nested += {"<": 1, ">": -1}.get(body[at], 0)
                    at += 1
            elif found[0] == ",":
                at = found.end()
                break
            else:
                at = found.end()


def _fields(body: str) -> Iterator[Field]:
    for docs, attributes, at in _heads(body):
        found = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?(?:r#)?(\w+)\s*:\s*").match(body, at)
        if not found:
            continue
        rest = body[found.end() :]
        depth, end = 0, len(rest)
        for i, letter in enumerate(rest):
            depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                end = i
                break
        yield Field(found[1], re.sub(r"\s+", " ", rest[:end]).strip(), _doc(docs), attributes)


def _variants(body: str) -> Iterator[Variant]:
    for docs, attributes, at in _heads(body):
        found = re.compile(r"(\w+)\s*").match(body, at)
        if not found:
            continue
        made = Variant(found[1], _doc(docs), attributes)
        at = found.end()
        if body.startswith(("(", "{"), at):
            end = _closing(body, at)
            inner = body[at + 1 : end]
            if body[at] == "(":
                made.payload = inner.strip()
            else:
                made.fields = list(_fields(inner))
            at = end + 1
        tag = re.compile(r'\s*=\s*"([^"]+)"').match(body, at)
        if tag:
            made.tag = tag[1]
        yield made


@cache
def items(file: Path) -> list[Item]:
    """Structs and enums of a file, and calls of macros that declare an enum with a `kind`."""
    text = file.read_text(encoding="utf-8")
    tests = text.find("#[cfg(test)]\nmod tests")
    text = text if tests < 0 else text[:tests]
    found = []
    head = (
        r"^((?:[ \t]*///[^\n]*\n|[ \t]*#\[[^\n]*\]\n)*)"
        r"[ \t]*(?:pub(?:\([^)]*\))?\s+)?(struct|enum)\s+(\w+)\s*(?=\{)"
    )
    for match in re.finditer(head, text, re.M):
        start = match.end()
        if "$" in text[start : start + 4]:
            continue
        lines = [line.strip() for line in match[1].splitlines()]
        body = text[start + 1 : _closing(text, start)]
        docs = [line for line in lines if line.startswith("///")]
        attributes = " ".join(line for line in lines if line.startswith("#["))
        found.append(Item(match[2], match[3], _doc(docs), attributes, body, file))
    for match in re.finditer(r"^(transports|workloads|selectors|shapers)! (?=\{)", text, re.M):
        body = text[match.end() + 1 : _closing(text, match.end())]
        # Transports are in two lists.
        groups = list(re.finditer(r"\b(\w+) (?=\{)", body))
        if groups:
            lists = {g[1]: body[g.end() + 1 : _closing(body, g.end())] for g in groups}
            lists["tcp"] = re.sub(r"(\w+)\((\w+)\)", r"\1(tcp/\2)", lists["tcp"])
            body = ",\n".join(lists.values())
        # A kernel's name after the kind.
        body = re.sub(r'(= "[^"]+") "[^"]+"', r"\1", body)
        kind = "values" if match[1] == "shapers" else "tagged"
        found.append(Item(kind, match[1], "", "", body, file))
    return found


def named(value: str, attributes: str) -> str:
    """A variant's name as serde's `rename_all` writes it."""
    style = re.search(r'rename_all = "([a-z_-]+)"', attributes)
    if not style:
        return value
    joined = "_" if style[1] == "snake_case" else "-" if style[1] == "kebab-case" else ""
    return re.sub(r"(?<!^)(?=[A-Z])", joined, value).lower()
