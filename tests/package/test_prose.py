"""Documents that a stranger reads at once: short sentences, a README of three screens.

When this fails, somebody who opens the README or a page of docs/ gives up before the first command.
"""

from __future__ import annotations

import re

import pytest
from where import ROOT

WORDS, LONG_SHARE = 25, 0.03
PROMISE = "When this fails, "
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
LINES = {"README.md": 170, "CHANGELOG.md": 90}


def sentences(text: str) -> list[str]:
    """Those of paragraphs and list items. Tables, headings and code blocks have none; code in a
    sentence counts as one word. A colon or semicolon ends none.
    """
    text = re.sub(r"^```.*?^```", "\n\n", text, flags=re.M | re.S)
    found = []
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith(("|", "#", "!")):
            continue
        for item in re.split(r"\n(?=\s*(?:[*-]|\d+\.)\s)", block):
            words = re.sub(r"`[^`]*`", "X", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", item))
            found += re.split(r"(?<=[.!?])\s+", " ".join(words.split()))
    return [sentence for sentence in found if sentence]


def test_at_most_three_in_a_hundred_sentences_are_long():
    every = [(page.name, one) for page in PAGES for one in sentences(page.read_text())]
    long = [f"{name}: {one}" for name, one in every if len(one.split()) > WORDS]
    assert len(long) <= LONG_SHARE * len(every), "\n".join(long)


@pytest.mark.parametrize(("name", "most"), LINES.items())
def test_a_page_that_is_read_first_is_short(name, most):
    assert len((ROOT / name).read_text().splitlines()) <= most


def test_each_file_of_tests_says_what_breaks_for_whom_when_it_fails():
    heads = {path: path.read_text()[:4000] for path in (ROOT / "tests").rglob("test_*.py")}
    said = {path: re.match(r'"""(.*?)"""', head, re.S) for path, head in heads.items()}
    silent = [str(path) for path, found in said.items() if not found or PROMISE not in found[1]]
    assert not silent, f"expected a docstring with {PROMISE!r} in {silent}"


def test_the_measure_finds_what_it_is_to_find():
    page = "One `a b c` two. Three!\n\n| a table |\n\n```c\nint x;\n```\n* four\n* five"
    assert sentences(page) == ["One X two.", "Three!", "* four", "* five"]
