#!/bin/bash
# Everything that wants a real GPU, offline and without a virtual environment: gpu_run.py, which has the
# steps and the options, with the Python that is there. GPU_KIT: where `make gpu-kit` put its kit.
#
#     OUT=/tmp/out benchmarks/gpu_run.sh; cat /tmp/out/summary.txt
#     OUT=/tmp/out benchmarks/gpu_run.sh --fake build/fake/libcuda.so.1   # a dry run: no figures
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "gpu_run.sh: expected Python 3.10 or later as \$PYTHON or python3, got $("$python" -V 2>&1)" >&2
    exit 2
fi
exec "$python" "$(dirname "$0")/gpu_run.py" "$@"
