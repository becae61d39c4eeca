"""`python -m sparkle_drv TOOL`: which file runs, with which arguments.

When this fails, an installed command runs the wrong tool.
"""

import subprocess
import sys

import pytest

from sparkle_drv import __main__ as main_module
from sparkle_drv import assets

CHECKOUT_ONLY = ("_private", "gen", "loc", "setup_env", "test_fresh")

TOOLS = "{bench,bringup,certs,doctor,explain,info,mesh,node,pm4,rdna_as,replay,sparkle,trace}"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    for name in ("bench", "bringup", "pm4", "rdna_as", "sparkle", *CHECKOUT_ONLY):
        (tmp_path / f"{name}.py").write_text(
            f"import sys\nprint({name!r}, sys.argv[1:], __name__)\nsys.exit(7)\n"
        )
    monkeypatch.setattr(assets, "folder", lambda name: tmp_path)
    monkeypatch.setattr(sys, "argv", ["x"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "printed"),
    [
        (["bench", "run", "-x"], "bench ['run', '-x'] __main__"),
        (["info", "--json"], "sparkle ['info', '--json'] __main__"),
        (["pm4", "lint", "-"], "pm4 ['lint', '-'] __main__"),
        (["bringup", "mem"], "bringup ['mem'] __main__"),
        (["doctor"], "sparkle ['doctor'] __main__"),
        (["certs", "show"], "sparkle ['certs', 'show'] __main__"),
        (["rdna_as", "assemble", "-"], "rdna_as ['assemble', '-'] __main__"),
        (["sparkle", "info"], "sparkle ['info'] __main__"),
    ],
)
def test_a_tool_runs_with_its_arguments(tools, capsys, argv, printed):
    with pytest.raises(SystemExit) as ended:
        main_module.main(argv)
    assert ended.value.code == 7
    assert capsys.readouterr().out.strip() == printed


def test_a_tool_that_ends_by_itself(tools, capsys):
    (tools / "bench.py").write_text("print('ran')\n")
    assert main_module.main(["bench"]) == 0
    assert capsys.readouterr().out == "ran\n"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 2),
        (["-h"], 0),
        (["--help"], 0),
        (["nonsense"], 2),
        *(([name], 2) for name in CHECKOUT_ONLY),
        (["../bench"], 2),
    ],
)
def test_what_is_no_tool_gets_the_list(tools, capsys, argv, code):
    assert main_module.main(argv) == code
    said = capsys.readouterr().err
    assert TOOLS in said


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "sparkle_drv"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert TOOLS in done.stderr
