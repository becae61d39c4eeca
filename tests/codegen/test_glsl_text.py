"""The text of the generated shaders, without any GL: versions, and arguments as the manifest has
them. Khronos' validator, where it is installed, reads every kernel under every kind of plan.

When this fails, a shader does not compile on stricter drivers than Mesa's.
"""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from sparkle_drv import DeviceInfo, TilePlan, assets
from sparkle_drv.codegen import glsl

KERNELS = assets.manifest()["kernels"]
SOFTWARE = DeviceInfo(
    uri="egl:0", backend="egl", name="some", kind="gpu", software=True, compute_units=2,
    max_group_size=1024, max_groups=(65535,) * 3, max_shared_nbytes=32768, isa="glsl 430",
    features=("f64",),
)  # fmt: skip
HARDWARE = replace(SOFTWARE, software=False)
ES = replace(HARDWARE, isa="essl 310", features=(), max_group_size=256)
PLANS = {
    "": [None, TilePlan(vector=4), TilePlan(vector=1)],
    "gemm": [TilePlan(algo=a, vector=v) for a in ("naive", "blocked", "shared") for v in (1, 4)],
    "conv2d": [TilePlan(algo=a, vector=v) for a in ("naive", "direct", "im2col") for v in (1, 4)],
    "map": [TilePlan(program=(1, 2, 3, 9))],
}
TYPES = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint"}


def shaders(info):
    for name in sorted(glsl.NAMES):
        if glsl.provides(name, info):
            for plan in PLANS[""] + PLANS.get(name.rpartition("_")[0], []):
                yield name, plan, glsl.generate(name, plan, info)


def without_comments(text):
    """Nor what stands in #ifdef SP_DOUBLES, unless that is defined."""
    if "#define SP_DOUBLES" not in text:
        text = re.sub(r"#ifdef SP_DOUBLES.*?#else(.*?)#endif", r"\1", text, flags=re.S)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def test_the_manifest_lists_what_there_is():
    assert {name for name in KERNELS if "egl" in KERNELS[name]["backends"]} == glsl.NAMES
    for name in glsl.NAMES:
        assert KERNELS[name]["backends"]["egl"] == {
            "form": KERNELS[name]["backends"]["cpu"]["form"],
            "variants": {"glsl": "tuned"},
        }


@pytest.mark.parametrize("info", [SOFTWARE, HARDWARE, ES], ids=["software", "hardware", "es"])
def test_arguments_are_where_the_manifest_puts_them(info):
    for name, plan, shader in shaders(info):
        pointers = [a for a in KERNELS[name]["args"] if a["type"].endswith("*")]
        scalars = [a for a in KERNELS[name]["args"] if not a["type"].endswith("*")]
        for at, arg in enumerate(pointers):
            block = rf"binding = {at}\) (readonly )?buffer \w+ {{ \w+ {arg['name']}\[\]; }};"
            found = re.search(block, shader.source)
            assert found, f"{name} {plan}: {arg['name']}"
            assert bool(found[1]) == (arg["access"] == "r")
        for at, arg in enumerate(scalars):
            line = f"layout(location = {at}) uniform {TYPES[arg['type']]} {arg['name']};"
            assert line in shader.source, f"{name} {plan}: {arg['name']}"
        for at, own in (
            (glsl.NULL_LOCATION, "uint sp_null"),
            (glsl.GROUP_OFFSET_LOCATION, "uvec3 sp_group_offset"),
        ):
            assert f"layout(location = {at}) uniform {own};" in shader.source
        x, y, z = shader.group_size
        size = f"local_size_x = {x}, local_size_y = {y}, local_size_z = {z}"
        assert size in shader.source
        assert x * y * z <= info.max_group_size


def test_a_desktop_shader_and_one_of_es():
    desktop = glsl.generate("gemm_f32", TilePlan(algo="blocked"), HARDWARE).source
    assert desktop.startswith("#version 430 core\n")
    assert "vec4 a_v[]" in desktop
    es = glsl.generate("gemm_f32", TilePlan(algo="blocked"), ES).source
    assert es.startswith("#version 310 es\n")
    assert es.count("layout(std430") == 4  # all that ES promises
    for _name, _plan, shader in shaders(ES):
        assert "double " not in without_comments(shader.source)
        assert "_v[]" not in shader.source


def test_without_doubles_their_kernels_are_refused_and_copies_are_not():
    info = replace(HARDWARE, features=())
    with pytest.raises(ValueError, match=r"gemm_f64.*doubles"):
        glsl.generate("gemm_f64", None, info)
    for name in ("copy_f64", "map_f32"):
        assert "double " not in without_comments(glsl.generate(name, None, info).source)


def test_an_unknown_kernel_is_a_key_error():
    with pytest.raises(KeyError):
        glsl.generate("gemm_f16", None, HARDWARE)


def test_software_gets_registers_and_hardware_shared_memory():
    for name in ("gemm_f32", "conv2d_f32"):
        assert "barrier" not in glsl.generate(name, None, SOFTWARE).source
        assert "barrier" in glsl.generate(name, None, HARDWARE).source


@pytest.mark.skipif(not shutil.which("glslangValidator"), reason="not installed: glslang-tools")
@pytest.mark.parametrize("info", [SOFTWARE, HARDWARE, ES], ids=["software", "hardware", "es"])
def test_khronos_validator_takes_every_shader(info, tmp_path):
    texts = dict.fromkeys(shader.source for _, _, shader in shaders(info))
    files = []
    for at, text in enumerate(texts):
        files.append(tmp_path / f"{at}.comp")
        # The extension asks for GLSL 4.30; this validator wants 4.50 before it knows its names.
        head = "#version 450" if "shader_ballot" in text else "#version 430"
        files[-1].write_text(text.replace("#version 430", head))
    done = subprocess.run(["glslangValidator", *files], capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
    assert done.returncode == 0, errors[:3]
