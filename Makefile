# The README's two commands, and the checks behind them. Everything works in .venv, which the first call makes; the
# plugins are not in it: each is tested in an environment of its own, .venv/plugins/NAME, that sees the core's.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := pyproject.toml setup.py plugins/console/pyproject.toml xwheel/_ring.pxd xwheel/_ring.pyx xwheel/_timer.pyx
PROJECTS := $(wildcard plugins/*/pyproject.toml)
PLUGINS := $(PROJECTS:plugins/%/pyproject.toml=%)
# plugins of ours that the project of one names as dependencies
needs = $(filter-out $1,$(filter $(PLUGINS),$(subst -,_,$(shell grep -o '"xwheel-[a-z-]*' plugins/$1/pyproject.toml | sed 's/"xwheel-//'))))
HOMES := $(PLUGINS:%=$(VENV)/plugins/%/.ready)
# most tests wait for processes and servers more than they compute
JOBS ?= 4
NPM := plugins/console/vendor/node_modules/.package-lock.json
# for each of three suites at once
SUITE_JOBS ?= 2
# says every few seconds what a silent command does
NARRATE := PIP_PROGRESS_BAR=off PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COLOR=1 $(PYTHON) tests/support/narrate.py
# tools that start other tools must find them
export PATH := $(CURDIR)/$(BIN):$(PATH)

export REQUIRE_SERVERS

PYTEST := $(BIN)/python -m pytest -q
# what is there without the compiled ring
TWIN := tests/ring tests/unit/scheduler/fire/test_tick.py tests/unit/scheduler/fire/test_stages.py
# what a wheel must bring along: compiled code, migrations, templates, generated documents
INSTALLED := tests/ring tests/unit/builtin tests/unit/cli tests/unit/cron tests/unit/plugin tests/unit/storage/schema

.PHONY: run test test-fast generated gate lint types stubs plugins console wheel docs soak soak-mutants bench clean

run: $(READY)
	$(BIN)/xwheel quickstart $(ARGS)

# all that a change must pass, but for what 'gate' runs; what waits for servers is run beside what computes
test: $(READY) lint types
	$(PYTEST) -n $(JOBS) --dist worksteal -m 'not long' $(ARGS)
	XWHEEL_NO_EXTENSIONS=1 $(PYTEST) -n $(JOBS) -m 'not long' $(TWIN)
	$(MAKE) --no-print-directory --jobs 3 --output-sync on-postgresql on-mariadb plugins

# while one works: neither servers nor processes
test-fast: $(READY)
	$(PYTEST) -n 2 --dist worksteal -m 'not long and not processes' tests/unit tests/ring tests/contract tests/test_layers.py tests/test_public_api.py $(ARGS)

# pages and documents that are made from the code; tests compare them
generated: $(READY)
	for module in tests.test_docs tests.test_plugin_reference tests.unit.cli.test_reference tests.unit.api.openapi.test_document \
		tests.unit.api.openapi.test_permissions; do $(BIN)/python -m $$module || exit 1; done

SEEDS ?= 21
SECONDS ?= 8

# what takes long: other languages' executors, killed nodes, sieges, a million rows, random faults, packages, pages
gate: $(READY) stubs docs wheel soak console
	$(PYTEST) -n $(JOBS) --dist loadfile -m long --deselect tests/faults/test_many_leases.py $(ARGS)
	$(PYTEST) -m long tests/faults/test_many_leases.py # 64 nodes in one process keep time only by themselves
	$(MAKE) --no-print-directory --jobs 2 --output-sync on-postgresql on-mariadb MARK=long

# tests that depend on the database, again on a server
MARK := not long
on-%: $(READY)
	$(BIN)/python -m tests.support.backends $* -q -n $(SUITE_JOBS) --dist worksteal -m '$(MARK)'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint --max-line-length 120 xwheel/_ring.pyx xwheel/_timer.pyx
	$(BIN)/codespell xwheel plugins tests docs benchmarks *.md changelog.d

types: $(READY) $(HOMES)
	$(BIN)/mypy
	for plugin in $(PLUGINS); do \
		MYPYPATH=$$(echo plugins/* | tr ' ' :) $(BIN)/mypy --python-executable $(VENV)/plugins/$$plugin/bin/python plugins/$$plugin/xwheel_$$plugin || exit 1; \
	done

# the compiled ring is what its stub says
stubs: $(READY)
	$(BIN)/stubtest --mypy-config-file pyproject.toml --allowlist tests/typing/stubtest.txt xwheel._ring xwheel._timer

# the sources and the wheel as they would be published; a part of the suite on the wheel, which is installed anew
wheel: $(READY)
	rm -rf build/wheel
	mkdir -p build/wheel
	XWHEEL_REQUIRE_EXTENSIONS=1 $(BIN)/python -m build --no-isolation --outdir build/wheel/dist > build/wheel/log 2>&1 || { cat build/wheel/log; exit 1; }
	$(BIN)/python -m build --no-isolation --wheel --outdir build/wheel/console plugins/console > build/wheel/log 2>&1 || { cat build/wheel/log; exit 1; }
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/pip install --quiet --find-links build/wheel/console "$$(echo build/wheel/dist/*.whl)[dev]"
	cp -r tests docs pyproject.toml build/wheel
	cp --parents plugins/*/xwheel_*/__init__.py plugins/*/xwheel_*/command.py build/wheel # commands that pages name
	cd build/wheel && XWHEEL_REQUIRE_EXTENSIONS=1 venv/bin/python -m pytest -q -n $(SUITE_JOBS) -m 'not long' $(INSTALLED)
	cd build/wheel && venv/bin/xwheel quickstart --seconds 5 --data-dir data

# the longest first
plugins: test-glue_script $(filter-out test-console,$(PLUGINS:%=test-%))

# the console in a real browser, then the pages of other plugins
console: $(VENV)/plugins/console/.ready $(NPM)
	cd plugins/console && $(CURDIR)/$(VENV)/plugins/console/bin/python -m pytest -q -n $(SUITE_JOBS) --dist loadfile
	for plugin in job_package cluster_zookeeper; do \
		(cd plugins/$$plugin && $(CURDIR)/$(VENV)/plugins/console/bin/python -m pytest -q -n $(SUITE_JOBS) --dist loadfile tests/pages) || exit 1; \
	done

test-%: $(VENV)/plugins/%/.ready
	cd plugins/$* && $(CURDIR)/$(VENV)/plugins/$*/bin/python -m pytest -q -n $(SUITE_JOBS) --dist loadfile

# what the console's libraries were built from: a test builds them anew and compares
$(NPM): plugins/console/vendor/package-lock.json
	cd plugins/console/vendor && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

# random faults from seeds, while jobs fire: nothing may be lost, run twice or be stuck
soak: $(READY)
	$(BIN)/python -m tests.faults.soak --seeds $(SEEDS) --seconds $(SECONDS) $(ARGS)

# xwheel with one guard taken out: the faults and the verdict must catch each such mutant
soak-mutants: $(READY)
	$(BIN)/python -m tests.faults.mutants --hunt $(ARGS)

bench: $(READY) $(HOMES)
	for bench in pipeline claim api http executor peers listener ring cron nodes many_executors start cli sessions; do $(BIN)/python -m benchmarks.$$bench $(ARGS) || exit 1; done
	$(VENV)/plugins/router_extra/bin/python -m benchmarks.route $(ARGS)
	$(VENV)/plugins/job_package/bin/python -m benchmarks.packages $(ARGS)
	$(VENV)/plugins/cluster_zookeeper/bin/python -m benchmarks.cluster $(ARGS)
	$(VENV)/plugins/cluster_zookeeper/bin/python -m benchmarks.node_loss $(ARGS)
	$(VENV)/plugins/console/bin/python -m benchmarks.console $(ARGS)

# the pages as a site, in build/docs; any warning fails
docs: $(READY)
	$(BIN)/sphinx-build -E -W -n -q --keep-going -d build/doctrees docs build/docs

clean:
	rm -rf $(VENV) build dist *.egg-info xwheel/*.c xwheel/*.cpp xwheel/*.so

# the editable install builds the extension (without a compiler the Python twin does, which 'make test' refuses);
# the stamp makes later calls start at once
$(READY): $(SOURCES)
	@echo "preparing $(VENV), once: packages are installed and the time ring is compiled, a minute or two"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "xwheel needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(NARRATE) $(PYTHON) -m venv $(VENV)
	@$(NARRATE) $(BIN)/python -m pip install --upgrade pip
	@PYTHONWARNINGS=ignore XWHEEL_REQUIRE_EXTENSIONS=$(if $(shell command -v c++),1,0) $(NARRATE) $(BIN)/python -m pip install --editable '.[dev]' --editable plugins/console
	@touch $(READY)

# 'pip --python' sees what the core's environment has and adds only what the plugin wants besides; what it needs of ours
# is installed with it, from here
$(HOMES): $(VENV)/plugins/%/.ready: $(PROJECTS) $(READY)
	$(BIN)/python -m venv --clear --without-pip $(@D)
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
		> "$$(echo $(@D)/lib/python3*/site-packages)/core.pth"
	PYTHONWARNINGS=ignore $(BIN)/python -m pip --python $(@D)/bin/python install --quiet --no-build-isolation \
		$(patsubst %,--editable plugins/%,$(call needs,$*)) --editable 'plugins/$*[dev]'
	touch $@
