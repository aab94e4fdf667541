# make demo    set everything up and measure a real network on the emulated board
# make test    set everything up and pass the tests
# make help    the rest
PYTHON ?= python3
VENV ?= .venv
# PyTorch is installed first, so that you can choose its build: any release from 2.4 on will do, the CPU's
# is enough. To take wheels from an index of your choice, set PIP_EXTRA_INDEX_URL or PIP_INDEX_URL.
TORCH ?= torch==2.13.0
ARGS ?=
# A folder with weights and images for the benchmarks (benchmarks/networks.py); random ones without.
DATA ?=
PYTEST ?= -m pytest -q

BIN := $(VENV)/bin
SOURCES := $(shell find host hls/include -name '*.[ch]pp' 2>/dev/null)

.PHONY: demo test test-fast lint format csim fuzz sanitize bench report docs wheels wheels-aarch64 clean help
demo: $(VENV)/built
	$(BIN)/actdma measure $(ARGS)

test: $(VENV)/tested lint
	$(BIN)/python $(PYTEST)

test-fast: $(VENV)/tested
	$(BIN)/python $(PYTEST) -m "not slow"

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files '*.hpp' '*.cpp' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror
	$(MAKE) -C hls check PYTHON=$(abspath $(BIN))/python

format: $(VENV)/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.hpp' '*.cpp' '*.h' | xargs $(BIN)/clang-format -i

csim: $(VENV)/built
	$(MAKE) -C hls csim PYTHON=$(abspath $(BIN))/python

# Each fuzzer for so many seconds.
SECONDS ?= 60
fuzz: $(VENV)/tested
	$(MAKE) -C tests/fuzz run SECONDS=$(SECONDS) PYTHON=$(abspath $(BIN))/python

# The tests with both extensions under the sanitizers, in a copy of the tree; ARGS go to pytest.
SANITIZED := build/sanitized
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -O1 -g
RUNTIMES = $(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libstdc++.so)
sanitize: $(VENV)/tested
	mkdir -p $(SANITIZED)
	git ls-files -zco --exclude-standard | xargs -0 cp -u --parents -t $(SANITIZED)
	cd $(SANITIZED) && ACTDMA_SANITIZE="$(SANITIZE)" $(abspath $(BIN))/python setup.py -q build_ext --inplace
	cd $(SANITIZED) && PYTHONPATH=host LD_PRELOAD="$(RUNTIMES)" PYTHONMALLOC=malloc \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(abspath $(BIN))/python $(PYTEST) $(if $(ARGS),$(ARGS),-m "not slow")

# Tables on the terminal; figures into results/.
bench: $(VENV)/built
	$(BIN)/python benchmarks/native.py --json results/native.json
	$(BIN)/python benchmarks/block_sparse.py --json results/block_sparse.json
	$(if $(DATA),$(BIN)/python benchmarks/rivals.py --json results/rivals.json --data $(DATA))
	$(BIN)/python benchmarks/emulated_board.py --json results/emulated_board.json
	$(BIN)/python benchmarks/board_stream.py --json results/board_stream.json
	$(BIN)/python benchmarks/fabric.py --json results/fabric.json
	$(BIN)/python benchmarks/step.py --json results/step.json $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/memory.py --json results/memory.json $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/exact.py --json results/exact.json $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/ratios.py --json results/ratios.json $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/layouts.py --json results/layouts.json $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/blocks.py --json results/blocks.json $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/holdings.py --json results/holdings.json $(if $(DATA),--data $(DATA))
	$(if $(DATA),$(BIN)/python benchmarks/density.py --json results/density.json --data $(DATA))
	$(BIN)/python benchmarks/simulate.py --json results $(if $(DATA),--data $(DATA))

# What `make bench`, and whatever else writes JSON into results/, has found, as a page.
report: $(VENV)/tested
	$(BIN)/actdma report results

# The pages of docs/ as a site in build/docs.
docs: $(VENV)/tested
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Wheels for these Pythons in dist/ (docs/packaging.md); those for 64-bit ARM run in an emulator, as root.
PYTHONS ?= $(PYTHON)
wheels: $(VENV)/tested
	BUILDER=$(abspath $(BIN))/python tests/wheels/build.sh $(PYTHONS)

wheels-aarch64: $(VENV)/tested
	BUILDER=$(abspath $(BIN))/python tests/wheels/build.sh --aarch64 $(PYTHONS)
	PYTHON=$(abspath $(BIN))/python tests/wheels/chroot.sh arm64 dist/actdma-*-cp311-*aarch64.whl

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

# The extensions are compiled in parallel, and again when a C++ source changes.
$(VENV)/built: $(BIN)/python setup.py pyproject.toml $(SOURCES)
	$(BIN)/python -m pip install -q "$(TORCH)"
	ACTDMA_BUILD_JOBS=$$(nproc) $(BIN)/python -m pip install -q -e ".[demo]"
	@touch $@

$(VENV)/tested: $(VENV)/built
	ACTDMA_BUILD_JOBS=$$(nproc) $(BIN)/python -m pip install -q -e ".[test]"
	@touch $@

clean:
	rm -rf $(VENV) build dist results host/*.egg-info hls/build
	find host -name '*.so' -delete

help:
	@sed -n 's/^# make/make/p' Makefile
	@echo 'make test-fast   the tests that take seconds'
	@echo 'make lint        ruff, clang-format, hls/check; make format mends'
	@echo 'make fuzz        each fuzzer of tests/fuzz for a minute, or for SECONDS=N'
	@echo 'make sanitize    the tests under ASan and UBSan; ARGS="tests/test_native.py" for some'
	@echo 'make csim        the HLS benches, without vendor tools'
	@echo 'make bench       the tables of docs/performance.md, docs/fabric.md and docs/evaluation.md'
	@echo 'make report      what make bench has found as an HTML page, report.html'
	@echo 'make docs        the documentation as a site in build/docs'
	@echo 'make wheels      wheels for PYTHONS="python3.10 python3.12"; make wheels-aarch64 for ARM'
	@echo 'make -C overlay BOARD=kv260   a bitstream, where Vitis and Vivado are installed'
