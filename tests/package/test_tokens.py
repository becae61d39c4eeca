"""tools/loc.py --tokens: what counts as a token, and which files count after a rename.

When this fails, the reported size of a change is wrong.
"""

from __future__ import annotations

import shutil
import subprocess

import loc
import pytest
from _loc import tokens
from _loc.tokens import Size

LONG = "".join(f"int f{at}(int x) {{ return x + {at}; }}\n" for at in range(20))
EACH = 13 * 20  # tokens of LONG


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", Size(0, 0)),
        ("/* a = b */ // c\n", Size(0, 0)),
        ("x = 1; /* why */\n\n    y += x->z;\n", Size(10, 2)),
        ('s = "/* no comment \\" */ // here";', Size(4, 1)),
        ("c = '\"'; d = 1;", Size(8, 1)),
        ("#define A(x) \\\n    #x ## y\n", Size(10, 2)),
        ("a <<= 0x1fU; b = c ? 1.5f : .5;", Size(12, 1)),
    ],
)
def test_tokens_of_c(text, size):
    assert tokens.of_c(text) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ('"""What it is."""\n\n# why\n', Size(0, 0)),
        ('x = 1  # why\n\ny: int = """a\nstring"""\n', Size(8, 2)),
        ('def f(x):\n    """Says."""\n    return x\n', Size(8, 2)),
        ('class A:\n    x: int\n    """Of an\n    attribute."""\n', Size(6, 2)),
        ("s = f'{a + b} and {c!r}' % f'{d:{e}}'\n", Size(5, 1)),
    ],
)
def test_tokens_of_python(text, size):
    assert tokens.of_python(text) == size


@pytest.fixture
def repository(tmp_path):
    """A first commit, and a working tree where files were moved, cut, added and deleted."""
    if not shutil.which("git"):
        pytest.skip("no git on this machine")

    def git(*arguments: str) -> None:
        own = ("-c", "user.name=x", "-c", "user.email=x@y")
        subprocess.run(["git", *own, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    git("init", "-q")
    for name in ("python/stays", "python/goes", "core/away", "cpu/comes"):
        write(f"native/{name}.c", LONG.replace("f", name.rpartition("/")[2]))
    write("sparkle_drv/ops/notes.txt", "a b c")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "native/hot").mkdir()
    git("mv", "native/python/stays.c", "native/hot/stays.c")
    git("mv", "native/core/away.c", "native/cpu/away.c")
    git("mv", "native/cpu/comes.c", "native/hot/comes.c")
    (tmp_path / "native/python/goes.c").unlink()
    write("native/hot/stays.c", LONG.replace("f", "stays").partition("int stays15")[0])
    write("sparkle_drv/ops/added.py", "x = 1\n")  # git knows nothing of it yet
    return tmp_path


def test_renamed_files_are_followed(repository):
    found = tokens.compared(repository, "HEAD")
    assert found["native/hot"] == (Size(2 * EACH, 40), Size(EACH * 15 // 20, 15))
    assert found["native/core"] == (Size(EACH, 20), Size())
    assert found[tokens.OUTSIDE] == (Size(), Size(EACH, 20))
    assert found["sparkle_drv/ops"] == (Size(), Size(3, 1))
    rows = {row.split("  ")[0]: row.split() for row in tokens.report(found).splitlines()}
    assert rows["total"][1:] == ["780", "60", "13.00", "458", "36", "12.72", "0.587"]
    assert rows["sparkle_drv/ops"][-1] == "new"


def test_the_tool_prints_the_rooms_of_this_checkout(repository, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["loc.py", "--root", str(repository), "--tokens", "HEAD"])
    assert loc.main() == 0
    assert "total" in capsys.readouterr().out


@pytest.mark.parametrize("rev", ["no-such-commit", "--help", ""])
def test_what_is_no_commit_is_refused(rev, repository, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["loc.py", "--root", str(repository), f"--tokens={rev}"])
    with pytest.raises(SystemExit) as ended:
        loc.main()
    assert ended.value.code == 2
    assert f"expected a commit of this repository, got {rev}" in capsys.readouterr().err
