# The README's two commands, and the checks behind them. Everything works in .venv, which the first call makes; the
# plugins are not in it: each is tested in an environment of its own, .venv/plugins/NAME, that sees the core's.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := pyproject.toml setup.py xwheel/_ring.pyx
PROJECTS := $(wildcard plugins/*/pyproject.toml)
PLUGINS := $(PROJECTS:plugins/%/pyproject.toml=%)
# plugins of ours that the project of one names as dependencies
needs = $(filter-out $1,$(filter $(PLUGINS),$(subst -,_,$(shell grep -o '"xwheel-[a-z-]*' plugins/$1/pyproject.toml | sed 's/"xwheel-//'))))
HOMES := $(PLUGINS:%=$(VENV)/plugins/%/.ready)
# most tests wait for processes and servers more than they compute
JOBS ?= 4
# on a server, less waits
SERVER_JOBS ?= 3
# for each of three plugins at once
PLUGIN_JOBS ?= 2
# tools that start other tools must find them
export PATH := $(CURDIR)/$(BIN):$(PATH)

export REQUIRE_SERVERS

.PHONY: run test lint types plugins bench fuzz clean

run: $(READY)
	$(BIN)/xwheel quickstart $(ARGS)

test: $(READY) lint types
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)
	XWHEEL_NO_EXTENSIONS=1 $(BIN)/python -m pytest -q -n $(JOBS) tests/ring tests/unit/scheduler/fire/test_tick.py tests/unit/scheduler/fire/test_stages.py
	$(BIN)/python -m tests.support.backends -q -n $(SERVER_JOBS) --dist worksteal tests/unit tests/integration tests/faults
	$(MAKE) --no-print-directory --jobs 3 --output-sync plugins

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint --max-line-length 120 xwheel/_ring.pyx
	$(BIN)/codespell xwheel plugins tests docs benchmarks README.md changelog.d

types: $(READY) $(HOMES)
	$(BIN)/mypy
	for plugin in $(PLUGINS); do \
		MYPYPATH=$$(echo plugins/* | tr ' ' :) $(BIN)/mypy --python-executable $(VENV)/plugins/$$plugin/bin/python plugins/$$plugin/xwheel_$$plugin || exit 1; \
	done

# the longest first
plugins: test-glue_script $(PLUGINS:%=test-%)

test-%: $(VENV)/plugins/%/.ready
	cd plugins/$* && $(CURDIR)/$(VENV)/plugins/$*/bin/python -m pytest -q -n $(PLUGIN_JOBS) --dist loadfile

bench: $(READY) $(HOMES)
	for bench in pipeline claim api http executor peers listener ring cron; do $(BIN)/python -m benchmarks.$$bench $(ARGS) || exit 1; done
	$(VENV)/plugins/router_extra/bin/python -m benchmarks.route $(ARGS)

.PHONY: docs
# the pages as a site, in build/docs; any warning fails
docs: $(READY)
	$(BIN)/sphinx-build -W -n -q --keep-going -d build/doctrees docs build/docs

clean:
	rm -rf $(VENV) build dist *.egg-info xwheel/_ring.c xwheel/_ring.cpp xwheel/*.so

# the editable install builds the extension (without a compiler the Python twin does, which 'make test' refuses);
# the stamp makes later calls start at once
$(READY): $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "xwheel needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore XWHEEL_REQUIRE_EXTENSIONS=$(if $(shell command -v c++),1,0) $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

# 'pip --python' sees what the core's environment has and adds only what the plugin wants besides; what it needs of ours
# is installed with it, from here
$(HOMES): $(VENV)/plugins/%/.ready: $(PROJECTS) $(READY)
	$(BIN)/python -m venv --clear --without-pip $(@D)
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
		> "$$(echo $(@D)/lib/python3*/site-packages)/core.pth"
	PYTHONWARNINGS=ignore $(BIN)/python -m pip --python $(@D)/bin/python install --quiet --no-build-isolation \
		$(patsubst %,--editable plugins/%,$(call needs,$*)) --editable 'plugins/$*[dev]'
	touch $@
