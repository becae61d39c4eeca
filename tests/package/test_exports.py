"""Public names: each exported once, documented, and nothing happens at import.

When this fails, a public name is missing, undocumented, or does work at import.
"""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparkle_drv as sp

INIT = Path(sp.__file__).read_text()


def test_every_public_name_is_there_exactly_once():
    assert len(sp.__all__) == len(set(sp.__all__))
    objects = [getattr(sp, name) for name in sp.__all__ if name != "__version__"]
    assert len({id(o) for o in objects}) == len(objects)
    assert set(sp.__all__) <= set(dir(sp))


def test_type_checkers_see_the_same_names():
    block = INIT.split("if TYPE_CHECKING:")[1].split("__version__")[0]
    seen = set(re.findall(r" as (\w+)$", block, re.M)) | set(
        re.findall(r"^    (\w+) = ", block, re.M)
    )
    assert seen - {"open_device", "_open"} == set(sp.__all__) - {"__version__"}


@pytest.mark.parametrize("name", [n for n in sp.__all__ if n != "__version__"])
def test_every_public_name_is_documented(name):
    thing = getattr(sp, name)
    assert inspect.getdoc(thing), f"{name} has no docstring"
    if inspect.isclass(thing):
        for attribute, member in vars(thing).items():
            function = getattr(member, "__func__", member)  # of a classmethod
            if not attribute.startswith("_") and inspect.isfunction(function):
                assert function.__doc__, f"{name}.{attribute} has no docstring"


def test_every_error_is_public():
    from sparkle_drv import errors

    kinds = {n for n, v in vars(errors).items() if inspect.isclass(v) and issubclass(v, Exception)}
    assert kinds <= set(sp.__all__)


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sp.nonsense  # noqa: B018
    assert not hasattr(sp, "_WHAT")


def test_the_version_is_the_distribution_s():
    from importlib.metadata import version

    assert sp.__version__ == version("sparkle_drv")


def modules():
    root = Path(sp.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", [m for m in modules() if not m.endswith("__main__")])
def test_every_module_says_what_it_is(name):
    assert importlib.import_module(name).__doc__


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_loads_next_to_nothing():
    code = (
        "import sys; before = {*sys.modules}; import sparkle_drv; print(*{*sys.modules} - before)"
    )
    assert run(code) == ["sparkle_drv"]


def test_the_raw_path_does_not_import_numpy():
    code = """
import sys, sparkle_drv as sp
with sp.open("cpu") as dev, dev.buffer(64) as b, dev.kernel("fill_f32") as k, dev.queue() as q:
    q.launch(k, b, 1.0, 16, groups=1).wait()
    q.submit(sp.Commands().dispatch(k, b, 2.0, 16, groups=1).fill(b, 0)).wait()
    q.write(b, b"x" * 64).wait()
print(*(m for m in ("numpy", "scipy", "elftools", "asyncio") if m in sys.modules))
"""
    assert [m for m in run(code) if m != "asyncio"] == []
