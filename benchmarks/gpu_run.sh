#!/bin/bash
# Everything that wants a real GPU, in at most 9 minutes, offline and without a virtual environment: the
# conformance suite on cuda:0 and on the vendor's OpenGL, what kernels reach, and what calls cost beside
# the peers that are installed. Run from a checkout that has build/gpu-kit (make gpu-kit); writes to $OUT.
#
#     OUT=/tmp/out benchmarks/gpu_run.sh
#     OUT=/tmp/out benchmarks/gpu_run.sh --fake build/fake/libcuda.so.1   # a dry run: no figures
#
# On a machine with a GPU that has the checkout and the kit, as root, with no network and no virtual environment (OUT is an
# empty folder that comes back):
#
#     OUT=$OUT GPU_KIT=build/gpu-kit PYTHON=$(command -v python3) timeout 570 benchmarks/gpu_run.sh; cat $OUT/summary.txt
#
# Exit status: 0 all steps well, 1 a step failed (summary.txt says which), 2 it cannot begin.
set -u
cd "$(dirname "$0")/.." || exit 2
top=$PWD
kit=${GPU_KIT:-$top/build/gpu-kit}
python=${PYTHON:-python3}
fake=
if [ "${1:-}" = --fake ]; then
    fake=$(readlink -f "${2:?--fake wants a driver library}") || exit 2
fi
out=${OUT:?OUT: a folder for results is wanted}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
if [ ! -d "$kit/site/sparkle_drv" ]; then
    echo "gpu_run.sh: no $kit: run make gpu-kit first" >&2
    exit 2
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# What the machine has is used; what it lacks comes out of the kit's wheels.
"$python" - "$kit/wheels" "$work/site" <<'PY' || exit 2
import importlib.util, pathlib, sys, zipfile
wheels, site = map(pathlib.Path, sys.argv[1:])
site.mkdir()
sys.path.insert(0, str(site))
for package, name in (("cffi", "cffi"), ("pycparser", "pycparser"), ("numpy", "numpy"), ("msgpack", "msgpack"),
                      ("pyelftools", "elftools"), ("cuda_bindings", "cuda"), ("cuda_pathfinder", "cuda")):
    if importlib.util.find_spec(name) is None or (site / name).exists():
        for wheel in wheels.glob(package + "-*.whl"):
            zipfile.ZipFile(wheel).extractall(site)
try:
    import cffi, elftools, msgpack, numpy
except ImportError as error:
    sys.exit(f"gpu_run.sh: the kit's wheels do not fit Python {sys.version.split()[0]}: {error}")
PY
export PYTHONPATH=$kit/site:$work/site${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
export SPARKLE_HOME=$work/home CUDA_CACHE_PATH=$work/cache SPARKLE_COMMIT
SPARKLE_COMMIT=$(cat "$kit/commit")

# The GL loader, where there is none, and the vendor's entry in it, which containers may lack.
if ! "$python" -c 'import ctypes; ctypes.CDLL("libEGL.so.1")' 2>/dev/null; then
    export LD_LIBRARY_PATH=$kit/gl/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
if [ -z "$fake" ] && ! ls /usr/share/glvnd/egl_vendor.d/*nvidia* /etc/glvnd/egl_vendor.d/*nvidia* >/dev/null 2>&1; then
    echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' >"$work/10_nvidia.json"
    export __EGL_VENDOR_LIBRARY_FILENAMES=$work/10_nvidia.json
fi

failed=0
: >"$out/summary.txt"
step() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 begun=$SECONDS status
    shift 2
    timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1
    status=$?
    [ $status -eq 0 ] || failed=1
    echo "$name: status $status, $((SECONDS - begun)) s" | tee -a "$out/summary.txt"
    [ $status -eq 0 ] || tail -n 3 "$out/$name.log"
}

more=() peers=() gpu=(--gpu)
if [ -n "$fake" ]; then
    export SPARKLE_LIBCUDA=$fake
    more=(--quick) peers=(--libcuda "$fake" --quick --repetitions 1) gpu=(--covers memory)
else
    nvidia-smi -q >"$out/nvidia-smi.txt" 2>&1
fi
# 110 + 90 + 90 + 220 = 510 s, and what they leave over.
step conformance-cuda 110 "$python" benchmarks/gpu_conformance.py cuda:0 "${gpu[@]}" --json "$out/conformance-cuda.json"
step conformance-egl 90 "$python" benchmarks/gpu_conformance.py egl:0 "${gpu[@]}" --json "$out/conformance-egl.json"
step kernels 90 "$python" benchmarks/gpu_kernels.py --no-hop -d cuda:0 "${more[@]}" \
    --json "$out/kernels.json" --md "$out/kernels.md"
step peers 220 "$python" benchmarks/gpu_peers.py --no-hop --budget-s 170 --baseline "$kit/baseline" "${peers[@]}" \
    --json "$out/peers.json" --md "$out/peers.md"
exit $failed
