"""The documents do what they say: every fenced block is run, every link and named file exists.

When this fails, a reader types what a document says and gets something else.

What each language means here:

    python    run in one namespace per document, in order; with a first line "# name.py", saved
    c         saved under the name in its first line; if that is a path of ours, a quotation of it
    console   "$ command" lines, run in a folder that looks like the checkout; "exit=N" behind the
              language is the status wanted. What sets up or takes long is not run but looked up:
              make's targets and variables, the wheel that pip installs, clang's options, those of
              bench.py peak, launch and run of everything
    text      what the python block before it printed, exactly; after a console block, lines of what
              that printed; "text measured": a table of bench.py, of which the columns are compared
    json      entries of shaders/manifest.json as they are
    toml      an entry point, installed for the blocks that follow

Any other language fails, and so does a block that cannot run. None is skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import docblocks
import forked
import pdoc
import pytest
from docblocks import Block
from where import ROOT

import sparkle_drv as sp
from sparkle_drv import assets, errors
from sparkle_drv.core import registry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

RUN = [
    "README.md",
    "native/README.md",
    *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md") if p.name != "AMDGPU_FACTS.md"),
]  # the fact sheet names files of the kernel and of Mesa
READ = [*RUN, "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/baseline/README.md"]
LONG = re.compile(r"python tools/bench\.py( (peak|launch|run( -.*)?|compare --baseline .*))?")
MEASURES = re.compile(r"python tools/bench\.py (run|kernel) ")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """tools/bench.py as a module: its parser is the truth about options."""
    return importlib.import_module("bench")


@pytest.fixture(scope="module")
def python():
    """Runs the scripts of the documents: a fork of it has the imports of tools/bench.py done."""
    with forked.Server(
        "bench",
        "bringup",
        "sparkle",
        "pm4",
        "scipy.optimize",
        "scipy.stats",
        "matplotlib.figure",
        "matplotlib.ticker",
    ) as server:
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """SPARKLE_HOME of what the documents run."""
    return tmp_path_factory.mktemp("home")


class Reader:
    """Works through one document in a folder of its own, as a person in a checkout would."""

    def __init__(
        self, name: str, folder: Path, home: Path, bench: ModuleType, python: forked.Server
    ) -> None:
        self.name, self.folder, self.bench, self.python = name, folder, bench, python
        self.namespace: dict[str, object] = {"__name__": "__docs__"}
        self.printed = ""  # by the block before
        self.printer = ""  # its language
        self._looked_up = {
            "make": self._check_make, "pip": self._check_pip, "clang-19": self._check_clang
        }  # fmt: skip
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "SPARKLE_HOME": str(home)}
        for part in ("tools", "shaders", "benchmarks", "examples", "tests"):
            (folder / part).symlink_to(ROOT / part)

    def read(self, block: Block) -> None:
        step = getattr(self, f"_{block.language}", None)
        assert step, f"nobody knows how to run {block.language!r}"
        self.printed, self.printer = step(block) or "", block.language

    def _python(self, block: Block) -> str:
        if block.name:
            (self.folder / block.name).write_text(block.text)
            return ""
        # Blank lines in front: tracebacks then name the document's own line.
        source = "\n" * (block.line - 1) + block.text
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, self.name, "exec"), self.namespace)
        return out.getvalue()

    def _c(self, block: Block) -> None:
        assert block.name, "its first line must be /* name.c */, or the path it quotes"
        if "/" in block.name:
            missing = docblocks.quoted(block, (ROOT / block.name).read_text())
            assert missing is None, f"not in {block.name}: {missing}"
        else:
            (self.folder / block.name).write_text(block.text)

    def _console(self, block: Block) -> str:
        status = next((int(f[5:]) for f in block.flags if f.startswith("exit=")), 0)
        return "".join(self._command(command, status) for command in block.commands)

    def _command(self, command: str, status: int) -> str:
        tool, *words = shlex.split(command)
        if look_up := self._looked_up.get(tool):
            look_up(words)
            return ""
        if LONG.fullmatch(command):
            self.bench.parser().parse_args(words[1:])
            return ""
        if MEASURES.search(command):
            command += " --timeout 0.02"  # as it stands, only shorter; verified all the same
        done = self._run(command)
        # Samples so few may well look slower than those before: compare says so by 3.
        statuses = {0, 3} if "bench.py compare" in command else {status}
        assert done.returncode in statuses, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _run(self, command: str) -> forked.Done:
        """Runs a command in the document's folder, `python SCRIPT WORDS` in a fork."""
        tool, *words = shlex.split(command)
        if tool == "python" and words[0].endswith(".py") and not set("|&;<>$`") & set(command):
            return self.python.run(*words, env=self.env, cwd=self.folder)
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def _check_make(self, words: list[str]) -> None:
        """Targets and variables are in the Makefile; what goes on to bench.py is one of its own."""
        makefile = (ROOT / "Makefile").read_text()
        for word in words:
            name, equals, value = word.partition("=")
            wanted = rf"^{re.escape(name)} \?=" if equals else rf"^{re.escape(name)}:"
            assert re.search(wanted, makefile, re.M), f"the Makefile has no {name}"
            if name == "BENCH_ARGS":
                self.bench.parser().parse_args(shlex.split(value))

    def _check_pip(self, words: list[str]) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert words == ["install", f"dist/{project['name']}-*.whl"]

    def _check_clang(self, words: list[str]) -> None:
        """The options are those that our own kernels are built with; the source is there."""
        from _shaders import rdna

        *flags, dash_o, out, source = words
        own = ("-mcpu=", "--ld-path=")
        assert [f for f in flags if f not in rdna.FLAGS and not f.startswith(own)] == []
        assert dash_o == "-o"
        assert (self.folder / source).exists()
        assert out.endswith(".hsaco")

    def _text(self, block: Block) -> None:
        assert self.printer in ("python", "console"), "the block before it prints nothing"
        if "measured" in block.flags:
            tables = (block.text, self.printed)
            heads = [re.search(r"^kernel .*", table, re.M) for table in tables]
            columns = [head[0].split() if head else None for head in heads]
            assert columns[0], "no table"
            assert columns[0] == columns[1]
        elif self.printer == "console":
            printed = self.printed.splitlines()
            missing = [line for line in block.text.splitlines() if line not in printed]
            assert not missing, f"not printed: {missing[0]!r}\n{self.printed}"
        else:
            assert self.printed == block.text

    def _json(self, block: Block) -> None:
        kernels = assets.manifest()["kernels"]
        for name, entry in json.loads(block.text).items():
            assert kernels[name] == entry, f"{name} is otherwise in the manifest"

    def _toml(self, block: Block) -> None:
        ((group, points),) = tomllib.loads(block.text)["project"]["entry-points"].items()
        assert group == registry.ENTRY_POINTS
        lines = [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
        installed = self.folder / "documented-1.0.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: documented\nVersion: 1\n")
        (installed / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a document's files go; on sys.path, so that what it writes can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def read(document: str, reader: Reader) -> None:
    """Every block, in order; what one raises says where it stands."""
    for block in docblocks.blocks(document):
        try:
            reader.read(block)
        except Exception as error:
            where = f"{reader.name}:{block.line}"
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


@pytest.mark.timeout(400)  # docs/benchmarks.md runs 20 benchmarks
@pytest.mark.parametrize("name", RUN)
def test_every_block_runs(name, folder, home, bench, python):
    read((ROOT / name).read_text(), Reader(name, folder, home, bench, python))


@pytest.mark.parametrize("name", READ)
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    broken = [link for link in docblocks.links(text) if not ((ROOT / name).parent / link).exists()]
    assert broken == []


PATH = re.compile(r"(?:\.?[\w-]+/)+(?:[\w-]+\.\w+)?|[\w-]+\.(?:py|c|h|inc|def|md|toml|json)")
MADE = re.compile(
    r"\.venv/|build/|dist/|peak\.json|tuned\.json"
)  # there only once something made it


@pytest.mark.parametrize("name", RUN)
def test_named_files_exist(name):
    """`core/queue.py` is a file of the package or of native/; made up ones stand in blocks only."""
    text = (ROOT / name).read_text()
    invented = {block.name for block in docblocks.blocks(text)}
    missing = [
        span
        for span in docblocks.spans(text)
        if PATH.fullmatch(span)
        and span not in invented
        and not MADE.match(span)
        and not (ROOT / span).exists()
        and not any(any((ROOT / top).rglob(span)) for top in ("sparkle_drv", "native"))
    ]
    assert missing == []


def test_the_options_of_the_bench_are_those_of_its_help(bench):
    """Both ways: nothing invented, nothing left out, and each with the commands that have it."""
    commands = next(a for a in bench.parser()._actions if a.nargs == argparse.PARSER).choices
    known = {
        name: {option for action in command._actions for option in action.option_strings}
        for name, command in commands.items()
    }
    told: dict[str, set[str]] = {name: {"-h", "--help"} for name in known}
    for options, of in re.findall(
        r"^\| (`-.*?) \| (.*?) \|", (ROOT / "docs/benchmarks.md").read_text(), re.M
    ):
        for name in of.split():
            if name in known:
                told[name] |= set(re.findall(r"`(-[\w-]+)`", options))
    told["list"].add("--json")
    told["env"].add("--json")
    assert told == known


def test_the_api_page_names_what_is_exported():
    page = (ROOT / "docs/api.md").read_text()
    table = [line for line in page.splitlines() if line.startswith("| ")]
    assert set(docblocks.spans("\n".join(table))) == set(sp.__all__) - {"__version__"}


def test_the_device_table_is_true():
    """A device is promised as "yes" when, and only when, its backend is there."""
    rows = re.findall(
        r"^\| .* \| `(\w+)[:\w]*` \| (.*) \|$", (ROOT / "README.md").read_text(), re.M
    )
    assert {scheme for scheme, says in rows if not says.startswith("no;")} == set(registry._builtin)
    assert len({scheme for scheme, _ in rows}) == 6


def test_the_error_table_is_that_of_the_errors():
    rows = re.findall(
        r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", (ROOT / "docs/architecture.md").read_text(), re.M
    )
    bases = {
        name: getattr(sp, name).__bases__[-1].__name__
        for name in sp.__all__
        if name in vars(errors)
    }
    del bases["SparkleError"]
    assert {name: base or "SparkleError" for name, base in rows} == bases


def test_the_picture_shows_what_there_is():
    picture = ElementTree.parse(ROOT / "docs/layers.svg")
    texts = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    names = [
        word for text in texts for word in text.split() if re.fullmatch(r"[\w/]*(/|\.py)", word)
    ]
    folders = [ROOT, ROOT / "sparkle_drv", ROOT / "tools"]
    assert len(names) > 8
    assert [name for name in names if not any((f / name).exists() for f in folders)] == []


def test_the_reference_builds_without_a_warning(tmp_path):
    """What `make docs` does, but for the listings of the source: colouring those takes longer."""
    (line,) = re.findall(r"-m pdoc (.*)", (ROOT / "Makefile").read_text())
    modules = [word for word in line.split() if word.startswith("sparkle_drv")]
    pdoc.render.configure(show_source=False, search=False)
    pdoc.pdoc(*modules, output_directory=tmp_path)  # pytest makes its warnings errors
    page = (tmp_path / "sparkle_drv.html").read_text()
    assert [name for name in sp.__all__ if f'id="{name}"' not in page and name != "ops"] == []


PLANTED = {
    "a language nobody runs": "```rust\nfn main() {}\n```",
    "a block without a language": "```\nfree text\n```",
    "a block that raises": "```python\n1 / 0\n```",
    "another output": "```python\nprint(1)\n```\n```text\n2\n```",
    "output of nothing": "```text\n2\n```",
    "a command that fails": "```console\n$ python -c 'raise SystemExit(2)'\n```",
    "a command that does not": "```console exit=1\n$ python -c 0\n```",
    "output among commands": "```console\n$ python -c 0\n0\n```",
    "no such target": "```console\n$ make coffee\n```",
    "no such option": "```console\n$ make bench BENCH_ARGS='run --fast'\n```",
    "no such option of a long run": "```console\n$ python tools/bench.py peak --fast\n```",
    "no such wheel": "```console\n$ pip install other\n```",
    "C that is nowhere": "```c\nint x;\n```",
    "a wrong quotation": "```c\n/* native/core/args.h */\nstruct sp_args_nothing {\n```",
    "a kernel that is otherwise": '```json\n{"saxpy_f32": {"doc": "y = x"}}\n```',
    "another group": "```toml\n[project.entry-points.other]\na = 'b:C'\n```",
    "other columns": "```console\n$ echo kernel a\n```\n```text measured\nkernel b\n```",
    "a block that never ends": "```python\n1",
}


@pytest.mark.parametrize("document", PLANTED.values(), ids=PLANTED)
def test_a_planted_mistake_is_found(document, folder, home, bench, python):
    with pytest.raises((Exception, SystemExit)):  # each fails in a way of its own
        read(document, Reader("planted", folder, home, bench, python))
