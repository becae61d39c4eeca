# `make bench` and `make test` are the two that matter; each sets up everything that is missing.
PYTHON ?= python3
PY := .venv/bin/python
BENCH_ARGS ?=
FUZZ_ARGS ?=
# Three workers for two cores: workers wait a fifth of their time, for a child or a timeout. A file of tests stays with one
# worker, where its devices are opened once. xdist repeats the test that ended a worker: once is enough.
PYTEST := $(PY) -m pytest -n 3 --dist loadfile --max-worker-restart 1
STRICT := -O0 -g -Wall -Wextra -Wshadow -Wconversion -Werror --coverage -finstrument-functions
# What must be inlined cannot be traced.
STRICT += -finstrument-functions-exclude-file-list=cpu/conv,cpu/map,cpu/reduce,cpu/vector,ukr,gemv
SANITIZE := -fsanitize=address,undefined
RACES := -fsanitize=thread -g -O1 -fno-omit-frame-pointer
STRICT_TO := --build-temp build/strict --build-lib build/strict/lib

.PHONY: quick help build bench test way test-setup test-long test-quick test-free-threaded lint format check-c perf peers wheel wheels bringup-archive docs asan tsan preload fake-cuda gpu-kit test-radv test-radv-chips test-foreign gen golden-llvm shaders fuzz fuzz-elf fuzz-isa fuzz-pm4 fuzz-faults fuzz-strict fuzz-mesh fuzz-shards fuzz-cluster fuzz-arrays random-calls loc test-fresh clean cuda-sweep lowered

quick: build lint test-quick ## the quick loop: build, lint, types, quick tests

help: ## what there is
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## system packages (as root), .venv, both extensions; only what is missing or stale
	@$(PYTHON) tools/setup_env.py

bench: build ## the main job: a verified table for the devices of this machine (BENCH_ARGS=...)
	@$(PY) tools/bench.py $(BENCH_ARGS)

test: lint preload ## the whole suite with coverage, as CI runs it
	@$(PYTEST) --cov --cov-report=term

test-setup: preload ## tests of set-up, packages and reports about other libraries; CI runs them too
	@$(PYTEST) -m setup

test-long: build ## tests of minutes: every chip with every kernel, 200 wires that misbehave, a minute of saturation
	@$(PYTEST) -q -m long

test-quick: build
	@$(PYTEST) -q -x -m "not slow and not cluster"

lint: build check-c
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: build ## ruff's formatting, and what it can fix by itself
	@$(PY) -m ruff check --fix . ; $(PY) -m ruff format .

# -O0: warnings that come and go with the optimiser's insight would fail on another compiler version.
# --coverage, -finstrument-functions: tests/package/ways.py counts in this build which files a launch
# runs through, and sees which of them come before the kernel.
check-c: build
	@CFLAGS="$(STRICT)" LDFLAGS=--coverage $(PY) setup.py --quiet build_ext $(STRICT_TO) build_preload $(STRICT_TO)

CALL ?= launch first again
way: build ## the files that a call passes through (CALL=KIND; kinds: tests/package/test_architecture.py)
	@PYTHONPATH=tests/kits $(PY) tests/package/ways.py $(CALL)

perf: build ## compare with benchmarks/baseline; exit 3 on a confirmed regression (BENCH_ARGS=...)
	@mkdir -p benchmarks/baseline
	@$(PY) tools/bench.py compare --baseline benchmarks/baseline $(BENCH_ARGS)

# A venv of its own: what is compared with is never a dependency. The stamp is made last.
peers: build ## build/peers: the libraries that benchmarks/cpu_peers.py compares with (pip; GB)
	@cmp -s benchmarks/_cpu_peers/requirements.txt build/peers/installed.txt || { \
	  rm -rf build/peers && $(PY) -m venv build/peers && \
	  build/peers/bin/python -m pip install --quiet -r benchmarks/_cpu_peers/requirements.txt && \
	  cp benchmarks/_cpu_peers/requirements.txt build/peers/installed.txt; }

wheel: build ## dist/: the sdist, and the abi3 wheel built from it
	@rm -rf dist
	@$(PY) -m build --no-isolation --outdir dist . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@ls -l dist

wheels: build ## dist/: wheels for any glibc since 2.17, x86_64 and aarch64, linked by zig (pip): 10 minutes
	@$(PY) tools/wheels.py

bringup-archive: preload ## dist/bringup.pyz: everything for a machine with a card and only Python
	@$(PY) tools/bringup_archive.py

docs: build ## build/docs: the api reference, made from the docstrings
	@$(PY) -W error -m pdoc --output-directory build/docs sparkle_drv sparkle_drv.types \
	  sparkle_drv.backends.base sparkle_drv.testing.suite

# $(call whole,FOLDER): the modules that a wheel leaves out, which tests use, go to a build beside the others.
whole = find sparkle_drv -name '*.py' | xargs cp --parents -t $(1)

# Without the tests that look at the package's files, here a copy, rather than run its C code, and
# those of the process's size: AddressSanitizer keeps what was freed. PYTHONSAFEPATH: the children
# of tests take this build too, not the checkout's in the folder they are started in (Python 3.11).
ASAN_WITHOUT := tests/lifetime/test_leaks.py tests/backends/amdgpu/test_drm_structs.py \
  tests/core/test_settings.py tests/plugin/test_plugin_opencl.py
asan: build ## all quick tests of the C code, the preload library too, under ASan and UBSan
	@rm -rf build/asan/sparkle_drv
	@CFLAGS="$(SANITIZE) -g -O1 -fno-omit-frame-pointer" LDFLAGS="$(SANITIZE)" $(PY) setup.py --quiet \
	  build_py --build-lib build/asan build_ext --build-lib build/asan --build-temp build/asan/obj \
	  build_preload --build-lib build/asan/preload --build-temp build/asan/obj
	@$(call whole,build/asan)
	@CFLAGS="$(SANITIZE) -g -O1 -fno-omit-frame-pointer" LDFLAGS="$(SANITIZE)" $(PY) tests/fake_cuda/build.py --to build/asan/fake
	@LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  PYTHONPATH=$(CURDIR)/build/asan SPARKLE_PRELOAD=build/asan/preload/libsparkle_amdgpu.so \
	  SPARKLE_FAKE_CUDA=build/asan/fake/libcuda.so.1 PYTHONSAFEPATH=1 \
	  .venv/bin/pytest -q -m "not slow" $(addprefix tests/,amd backends cluster/node codegen core emu fake_cuda fault golden lifetime mesh ops plugin sched telemetry testing) \
	  $(addprefix --ignore ,$(ASAN_WITHOUT))
	@$(PY) tests/cpu_kernels/build.py asan build/asan/obj
	@for isa in ref avx2 avx512; do \
	  UBSAN_OPTIONS=halt_on_error=1 build/cpu_kernels/asan/cpu_kernels $$isa 500 || test $$? = 77 || exit 1; done

# What the interpreter and numpy do is seen as far as they call the C library, which is enough: the GIL's mutex, memcpy. Not so
# of OpenBLAS's threads, who hand work to one another without it.
# setarch: older runtimes find no room for their shadow where addresses are too random.
TSAN_TESTS := tests/fault/test_stress.py tests/fault/test_stress_ops.py tests/fault/test_races.py \
  tests/backends/cpu/test_cpu_threads.py tests/ops/test_ops_held.py tests/ops/calls/test_calls_kept.py \
  tests/ops/test_ops_plans_apart.py tests/ops/test_ops_overlap.py tests/sched/run/test_sched_threads.py \
  tests/backends/cuda/test_cuda_device.py tests/backends/cuda/test_cuda_transfers.py tests/core/test_hot.py \
  tests/lifetime/test_lifetime.py tests/mesh tests/sched/graph/test_sched_graph_lanes.py
# In a process of their own, because the runtime keeps memory of each thread that has ended.
TSAN_MORE := tests/fault/test_close_beside.py tests/ops/deferred/test_order.py tests/ops/array_model
TSAN_OPTIONS := history_size=4 report_signal_unsafe=0 allocator_may_return_null=1 die_after_fork=0 \
  suppressions=$(CURDIR)/tests/races.supp log_path=$(CURDIR)/build/tsan/report
tsan: build ## the tests of threads under ThreadSanitizer, which finds data races: some minutes
	@rm -rf build/tsan/sparkle_drv build/tsan/report.*
	@CFLAGS="$(RACES)" LDFLAGS=-fsanitize=thread $(PY) setup.py --quiet \
	  build_py --build-lib build/tsan build_ext --build-lib build/tsan --build-temp build/tsan/obj
	@$(call whole,build/tsan)
	@CFLAGS="$(RACES)" LDFLAGS=-fsanitize=thread $(PY) tests/fake_cuda/build.py --to build/tsan/fake
	@$(PY) tests/cpu_kernels/build.py tsan build/tsan/obj
	@alike=$$(setarch -R true 2>/dev/null && echo setarch -R); \
	for isa in ref avx2 avx512; do \
	  $$alike build/cpu_kernels/tsan/cpu_kernels $$isa 500 || test $$? = 77 || exit 1; done; \
	for tests in "$(TSAN_TESTS)" "$(TSAN_MORE)"; do \
	  $$alike env LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" \
	    TSAN_OPTIONS="$(TSAN_OPTIONS)" OPENBLAS_NUM_THREADS=1 \
	    PYTHONPATH=$(CURDIR)/build/tsan PYTHONSAFEPATH=1 SPARKLE_FAKE_CUDA=build/tsan/fake/libcuda.so.1 \
	    .venv/bin/pytest -q -m "not slow" $$tests || { rc=$$?; cat build/tsan/report.* 2>/dev/null; exit $$rc; }; \
	done

# cffi wants 3.14 there. A warning that an extension brought the GIL back is an error, as all are.
FREE_THREADED ?= python3.14t
test-free-threaded: build ## the tests of core and of threads on Python without a GIL (FREE_THREADED=python3.14t)
	@command -v $(FREE_THREADED) >/dev/null || { echo "skipped: expected $(FREE_THREADED), got none on the path"; exit 0; }; \
	test -x build/free-threaded/bin/python || $(FREE_THREADED) -m venv build/free-threaded; \
	build/free-threaded/bin/python -m pip install --quiet cffi hypothesis msgpack numpy pyelftools pytest pytest-timeout setuptools && \
	build/free-threaded/bin/python setup.py --quiet build_py --build-lib build/free-threaded/lib \
	  build_ext --build-lib build/free-threaded/lib --build-temp build/free-threaded/obj && \
	$(call whole,build/free-threaded/lib) && \
	PYTHONPATH=$(CURDIR)/build/free-threaded/lib PYTHONSAFEPATH=1 build/free-threaded/bin/python -W error -m pytest -q \
	  -m "not slow" tests/core tests/lifetime $(TSAN_TESTS) $(addprefix --ignore ,$(ASAN_WITHOUT))

lowered: build ## the kernels of AVX-512 on a machine that has AVX2 alone: their C, not the instructions
	@$(PY) tests/cpu_kernels/build.py lowered
	@build/cpu_kernels/lowered/cpu_kernels avx512 500

preload: ## build/preload/libsparkle_amdgpu.so: shows other drivers an emulated AMD GPU (LD_PRELOAD)
	@$(PYTHON) tools/setup_env.py --tests
	@$(PY) setup.py --quiet build_preload

fake-cuda: ## build/fake/libcuda.so.1: a CUDA driver without a GPU, for tests (SPARKLE_LIBCUDA)
	@$(PYTHON) tests/fake_cuda/build.py

cuda-sweep: fake-cuda build ## every call of the CUDA driver fails, in every manner: some minutes
	@SPARKLE_LIBCUDA=build/fake/libcuda.so.1 PYTHONPATH=tests/kits $(PY) tests/fault/cuda_sweep.py 2>build/cuda-sweep.log

gpu-kit: build ## build/gpu-kit: what benchmarks/gpu_run.sh takes to a machine with a GPU, 53 MiB at most
	@$(PY) tools/gpu_kit.py

test-radv: preload ## unmodified RADV on the emulated GPU; the last line is `N of 32 right, M skipped`
	@$(PY) tests/radv/run.py

test-radv-chips: preload ## the same on all eight emulated chips
	@$(PY) tests/radv/run.py --chips all

test-foreign: preload ## OpenCL, Vulkan and libdrm programs in a Debian 13 of its own (root; FOREIGN="NAME ..."; GGML=CHECKOUT)
	@$(PYTHON) tests/foreign/run.py $(FOREIGN)

gen: build ## native/gen and the package's tables anew, from registers, packets and *.isa
	@$(PY) tools/gen.py

shaders: build ## shaders/: what is stale, rdna by clang-19 and lld-19, cuda by nvcc 13.0
	@$(PY) tools/shaders.py

fuzz: fuzz-elf fuzz-isa fuzz-pm4 ## both, a million inputs each, a watchdog for every one (FUZZ_ARGS="--count N --seed S")

fuzz-elf: build ## a million damaged code objects: each loads or is an ImageError (FUZZ_ARGS=...)
	@PYTHONPATH=tests/kits $(PY) tests/amd/fuzz_codeobject.py $(FUZZ_ARGS)

golden-llvm: build ## tests/golden/isa_*.txt and map_*.txt anew, by llvm-mc-19
	@$(PY) tests/golden/make_isa.py
	@$(PY) tests/golden/make_map.py

loc: ## lines of each layer, and the files that are too long (tools/loc.py has --rooms, --tokens REV)
	@$(PYTHON) tools/loc.py

fuzz-isa: build ## 4,000 random kernels, compiled for this machine and for emulated cards (FUZZ_ARGS="--count N --seed S")
	@PYTHONPATH=tests/kits $(PY) tests/emu/wave/fuzz_kernels.py $(FUZZ_ARGS)

fuzz-pm4: build ## a million mutated command streams and texts through tools/pm4.py's engine (FUZZ_ARGS=...)
	@PYTHONPATH=tests/kits $(PY) tests/tools/pm4/pm4_fuzz.py $(FUZZ_ARGS)

random-calls: build ## 23000 random calls and graphs, compared with numpy (FUZZ_ARGS="--count N --seed S")
	@PYTHONPATH=tests/kits $(PY) tests/ops/random_calls/random_calls.py $(FUZZ_ARGS)

fuzz-arrays: build ## 100,000 random operations on arrays that wait, on each device (FUZZ_ARGS="--count N --seed S --device URI --threads N --switch S")
	@PYTHONPATH=tests/kits $(PY) tests/ops/array_model/fuzz_arrays.py $(FUZZ_ARGS)

fuzz-faults: build ## the conformance suite under 3000 seeded fault schedules (FUZZ_ARGS='FIRST COUNT')
	@PYTHONPATH=tests/kits $(PY) tests/fault/fuzz_schedules.py $(FUZZ_ARGS)

fuzz-strict: build ## the same 1000 times on late cards of any chip, where a read of old bytes is a fault (FUZZ_ARGS='FIRST COUNT')
	@PYTHONPATH=tests/kits $(PY) tests/fault/fuzz_schedules.py --strict $(FUZZ_ARGS)

fuzz-mesh: build ## simulated machines with links at full size: 200 of each kind, 20 runs of each program
	@SPARKLE_FUZZ_MESH=1 $(PY) -m pytest -q -n auto tests/testing/test_sim_links.py tests/mesh/collective

fuzz-shards: build ## 500 schedules of devices that fail in calls which they share, 200 that stop
	@SPARKLE_FUZZ_SHARDS=1 $(PY) -m pytest -q -n auto $(addprefix tests/sched/shard/test_shard_,$(addsuffix .py,faults devices late simulated))

fuzz-cluster: build ## 20,000 mutated messages and 2,000 hostile requests to a node (FUZZ_ARGS="--seed S")
	@PYTHONPATH=tests/kits $(PY) tests/cluster/node/fuzz_node.py $(FUZZ_ARGS)

test-fresh: ## (root) make bench and make test in a bare system with only make and python3
	@sh tools/test_fresh.sh

clean: ## everything that make made
	@rm -rf .venv build dist *.egg-info sparkle_drv/*.so .coverage .coverage.* .*_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +
