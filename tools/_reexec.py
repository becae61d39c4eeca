"""The first lines of every tool: start it again in the checkout's own environment, under any
Python.

`from _reexec import reexec; reexec()` comes before any import that needs a package. An old Python 3
can read this file. In an installed package (`python -m sparkle_drv bench`) `reexec` does nothing.
"""

import os
import sys

_MARK = "SPARKLE_REEXECED"


def reexec() -> None:
    """Starts the running tool again with .venv/bin/python. If there is no such environment, says
    what to do and exits with 1.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    checkout = os.path.exists(os.path.join(root, "pyproject.toml"))
    if not checkout or "sparkle_drv" in sys.modules:
        return
    venv = os.path.join(root, ".venv")
    if os.path.realpath(sys.prefix) == os.path.realpath(venv):
        os.environ.pop(_MARK, None)
        return
    ready = os.path.exists(os.path.join(venv, "sparkle-stamp"))
    # exec keeps the process id. If the environment variable _MARK holds this id, this process was
    # already started again and still does not run in .venv. It stops.
    if not ready or os.environ.get(_MARK) == str(os.getpid()):
        state = "is broken" if ready else "is not ready"
        sys.stderr.write("%s %s; `make bench` in %s sets everything up\n" % (venv, state, root))
        sys.exit(1)
    os.environ[_MARK] = str(os.getpid())
    python = os.path.join(venv, "bin", "python")
    arguments = getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(python, [python, *arguments[1:]])
