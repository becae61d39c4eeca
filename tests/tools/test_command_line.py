"""What a person gets who mistypes a command of the installed package.

When this fails, somebody who mistypes a command gets a traceback.
"""

import importlib

import pytest

import sparkle_drv as sp

TOOLS = ("bench", "bringup", "pm4", "rdna_as", "sparkle")


def ended(tool, *words):
    """The exit code of a tool that never gets to a command."""
    with pytest.raises(SystemExit) as leave:
        importlib.import_module(tool).main(list(words))
    return leave.value.code


@pytest.mark.parametrize("tool", TOOLS)
def test_the_version(tool, capsys):
    assert ended(tool, "--version") == 0
    assert capsys.readouterr() == (f"{tool}.py {sp.__version__}\n", "")


@pytest.mark.parametrize("words", [["--version", "extra"], ["nonsense"], ["--nope"]])
@pytest.mark.parametrize("tool", TOOLS)
def test_wrong_usage_is_one_line(tool, words, capsys):
    assert ended(tool, *words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"{tool}.py")
    assert "--help)\n" in err


@pytest.mark.parametrize("tool", TOOLS)
def test_each_subcommand_has_its_line_of_help(tool, capsys):
    parser = importlib.import_module(tool).parser()
    (commands,) = (a for a in parser._actions if a.choices and a.dest == "==SUPPRESS==")
    told = {choice.dest: choice.help for choice in commands._choices_actions}
    assert told.keys() == commands.choices.keys()
    assert all(told.values()), told
    assert ended(tool, "--help") == 0
    assert f"usage: {tool}.py" in capsys.readouterr().out


def test_the_name_is_that_of_the_console_script(monkeypatch):
    from _console import command_line

    for started, name in (("/x/bin/sparkle-pm4", "sparkle-pm4"), ("/x/pm4.py", "pm4.py")):
        monkeypatch.setattr("sys.argv", [started])
        assert command_line.called("pm4.py") == name
