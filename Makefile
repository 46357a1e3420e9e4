# The README's two commands, and the checks behind them. Everything works in .venv, which grows with what is asked for:
# 'make run' installs a node with SQLite and its console, 'make check' adds its tools, 'make test' all that tests use. The
# plugins are not in it: each is tested in an environment of its own, .venv/plugins/NAME, that sees the core's.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# the three sizes of the environment
NODE := $(VENV)/.node
TOOLS := $(VENV)/.tools
READY := $(VENV)/.ready
# the distributions of ours that xwheel[server] brings
SERVER := accounts alarms commands console devtools job_versions jobs_as_code openapi reports run_logs why xxl_calls
SOURCES := pyproject.toml setup.py $(SERVER:%=plugins/%/pyproject.toml) \
	xwheel/_ring.pxd xwheel/_ring.pyx xwheel/_timer.pyx
PROJECTS := $(wildcard plugins/*/pyproject.toml)
PLUGINS := $(PROJECTS:plugins/%/pyproject.toml=%)
# those with tests of their own; what tests/product tests is in the core's environment
TESTED := $(patsubst plugins/%/tests,%,$(wildcard plugins/*/tests))
# plugins with a home of their own that the project of one names as dependencies
needs = $(filter-out $1,$(filter $(TESTED),$(subst -,_,$(shell grep -o '"xwheel-[a-z-]*' plugins/$1/pyproject.toml | sed 's/"xwheel-//'))))
HOMES := $(TESTED:%=$(VENV)/plugins/%/.ready)
# sees what the core and all plugins import, for the type checker
ALL := $(VENV)/all/.ready
# the versions of all that is installed: what is published tomorrow fails nobody's change; 'make constraints' takes the newest
CONSTRAINTS ?= $(CURDIR)/tests/constraints.txt
# the core and what it needs by itself, without a distribution of ours
CORE := $(VENV)/core/.ready
# most tests wait for processes and servers more than they compute
JOBS ?= 4
NPM := plugins/console/vendor/node_modules/.package-lock.json
# for each of the suites that run at once, and for the one that is the last to end
SUITE_JOBS ?= 2
LONG_JOBS ?= 3
# says every few seconds what a silent command does
NARRATE := PIP_PROGRESS_BAR=off PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COLOR=1 $(PYTHON) tests/support/narrate.py
# tools that start other tools must find them
export PATH := $(CURDIR)/$(BIN):$(PATH)

export REQUIRE_SERVERS
# else each process compiles all of xwheel for itself, and each worker rewrites all assertions
unexport PYTHONDONTWRITEBYTECODE

# schemathesis' plugin for pytest takes each process of tests a second to import; the tests that need schemathesis import it
ifeq ($(MAKELEVEL),0)
export PYTEST_ADDOPTS := $(PYTEST_ADDOPTS) -p no:schemathesis -p no:anyio
endif

# every command of a stage has a clock; 'make check', 'make test', 'make gate' and .ci/run print at their end what each took
BEGUN ?= $(shell date +%s)
BEGUN := $(BEGUN)
export BEGUN
STAGES := $(PYTHON) $(CURDIR)/tests/support/stages.py
STAGE = $(STAGES) run $@
# so many failed tests do not end .ci/run: it runs them once more at its end ('make judge')
AGAIN ?= 0
TESTS = $(STAGES) run --again $(AGAIN) $@
PYTEST = $(TESTS) $(BIN)/python -m pytest -q
# what is there without the compiled ring
TWIN := tests/ring tests/unit/scheduler/fire/test_tick.py tests/component/scheduler/fire/test_stages.py
# what only an installed wheel can get wrong: compiled code, entry points, migrations, files of templates and pages
INSTALLED := tests/ring tests/unit/builtin/test_contracts.py tests/unit/plugin/test_discovery.py \
	tests/component/storage/schema tests/unit/cli/test_reference.py tests/product/openapi/test_document.py

# what could need a plugin and must not: discovery, registries, the API's description, commands, the start of a node. Files
# that name our distributions, all commands or benchmarks, test those too
ALONE = tests/test_core_alone.py $(shell grep -rLE --include='test_*.py' 'xwheel_($(subst $() ,|,$(SERVER)))|tests.product|support.commands|bare_app|from benchmarks|stages.py' \
	tests/unit tests/component/cli tests/component/node tests/component/api/plugins \
	tests/component/api/v1/test_plugins.py)

.PHONY: run constraints judge peers midnight check test suite collect homes twin sizes generated core gate nightly lint types stubs plugins console console-itself wheel docs long soak soak-mutants \
	mutants bench clean

# stages that run at once; the output of each is shown when it ends
SIDE_BY_SIDE = $(MAKE) --no-print-directory --output-sync --jobs

run: $(NODE)
	$(BIN)/xwheel quickstart $(ARGS)

# while one works: lint, types of the core, and the tests that need neither database, server nor process
check: $(TOOLS) lint
	$(STAGE) $(BIN)/mypy
	$(PYTEST) -n 2 --dist worksteal -m 'not long and not processes' tests/unit tests/ring tests/contract tests/mutants \
		tests/test_layers.py tests/test_docs.py tests/test_public_api.py $(ARGS)
	@$(STAGES) table

# all that a change must pass, but for what 'gate' runs
test: $(READY)
	+$(SIDE_BY_SIDE) 3 homes lint collect
	+$(MAKE) --no-print-directory --jobs 2 suite types twin
	@$(STAGES) table

# the types' check, which has a single thread, runs next to this suite; the suite's dots are shown as they come
suite: $(READY)
	$(PYTEST) -n $(JOBS) --dist worksteal -m 'not long' $(ARGS)

# the end of .ci/run: tests that failed once run again, one after the other
judge:
	@$(STAGES) table
	@$(STAGES) judge

# takes the newest versions of what is installed: commit them once 'make test' and 'make gate' passed with them
constraints:
	rm -rf $(VENV)
	$(MAKE) homes CONSTRAINTS=/dev/null
	$(BIN)/python -m tests.support.constraints $(VENV) $(TESTED:%=$(VENV)/plugins/%)

# rewrites the tests' assertions once, which each worker would do for itself
collect: $(READY)
	@$(STAGE) $(BIN)/python -m pytest -q --collect-only -m 'not long' | tail -1

twin: $(READY)
	$(TESTS) env XWHEEL_NO_EXTENSIONS=1 $(BIN)/python -m pytest -q -n $(SUITE_JOBS) -m 'not long' $(TWIN)

# the core by itself, as 'xwheel[core-server]' installs it
core: $(CORE)
	$(TESTS) env CORE_ALONE=1 $(VENV)/core/bin/python -m pytest -q -n $(SUITE_JOBS) --dist worksteal -m 'not long' $(ALONE)

# lines of the core by room, to look at: no test depends on them
sizes:
	@find xwheel -name '*.py' -o -name '*.pyx' | xargs awk '{split(FILENAME, path, "/"); lines[path[2]]++} \
		END {for (room in lines) {print lines[room], room; all += lines[room]} print all, "xwheel"}' | sort -rn

# pages and documents that are made from the code; tests compare them
generated: $(READY)
	for module in tests.test_docs tests.test_plugin_reference tests.unit.cli.test_reference \
		tests.product.openapi.test_permissions; do $(BIN)/python -m $$module || exit 1; done

# seeds of random faults, shared by the three databases, and the seconds of each
SEEDS ?= 3
SECONDS ?= 8
# mistakes that the gate makes, others at each commit
MISTAKES ?= 10

# the plugins, the tests that depend on the database again on servers, and what takes long: other languages' executors,
# killed nodes, sieges, random faults, pages. What computes runs next to what waits, the longest first
gate: $(READY)
	+$(SIDE_BY_SIDE) 3 homes $(NPM)
	+$(SIDE_BY_SIDE) 4 long on-postgresql on-mariadb console-itself mutants wheel plugins $(PAGES) soak core docs stubs SAMPLE=$(MISTAKES)
	@$(STAGES) table

long: $(READY)
	$(PYTEST) -n $(LONG_JOBS) --dist loadfile --no-loadscope-reorder -m 'long and not nightly'

# the rest of what is known to find faults, for hours in which nothing waits: many examples, all generations of other executors, a million
# rows, 64 nodes, schemathesis at length, every mistake of tests/mutants, seeds of random faults, guards taken out of nodes
nightly: $(READY)
	+$(SIDE_BY_SIDE) 2 homes
	EXAMPLES=nightly $(PYTEST) -n $(SUITE_JOBS) --dist worksteal -m 'hypothesis and not long' \
		tests/unit tests/component tests/ring tests/contract # a thousand examples of each, for 50 at other times
	$(PYTEST) -n $(SUITE_JOBS) --dist loadfile -m nightly --deselect tests/faults/test_many_leases.py
	$(PYTEST) -m nightly tests/faults/test_many_leases.py # 64 nodes in one process keep time only by themselves
	+$(SIDE_BY_SIDE) 2 on-postgresql on-mariadb MARK=nightly
	$(MAKE) --no-print-directory midnight
	EXAMPLES=nightly $(MAKE) --no-print-directory test-log_s3
	for suite in test-cluster_zookeeper pages-job_package pages-cells; do \
		$(MAKE) --no-print-directory $$suite NIGHT=nightly || exit 1; done
	cd plugins/console && CONSOLE_RUNS=1000000 $(CURDIR)/$(VENV)/plugins/console/bin/python -m pytest -q tests/test_requests.py
	$(MAKE) --no-print-directory mutants
	$(MAKE) --no-print-directory soak SEEDS=63
	for backend in postgresql-pair mariadb-galera; do \
		$(MAKE) --no-print-directory soak SEEDS=10 ARGS="--backend $$backend" || exit 1; done
	$(MAKE) --no-print-directory soak-mutants

# the tests of 'make test' two minutes before a month ends, but for those whose clocks would take the place of that one
midnight: $(READY)
	$(TESTS) $(BIN)/python -m tests.support.month_end $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m 'not long' \
		--ignore tests/faults/test_injectors_clocks.py $(ARGS)

# tests that depend on the database, again on a server
MARK := not nightly
on-%: $(READY)
	$(TESTS)' $(MARK)' $(BIN)/python -m tests.support.backends $* -q -n $(SUITE_JOBS) --dist worksteal -m '$(MARK)'

lint: $(TOOLS)
	$(STAGE) $(BIN)/ruff check .
	$(STAGE) $(BIN)/ruff format --check .
	$(STAGE) $(BIN)/cython-lint --max-line-length 120 xwheel/_ring.pyx xwheel/_timer.pyx
	$(STAGE) $(BIN)/codespell xwheel plugins tests docs benchmarks *.md changelog.d

# the core and all plugins at once
types: $(ALL)
	$(STAGE) env MYPYPATH=$$(echo plugins/* | tr ' ' :) $(BIN)/mypy --python-executable $(VENV)/all/bin/python \
		xwheel tests/typing $(foreach plugin,$(PLUGINS),plugins/$(plugin)/xwheel_$(plugin))

# the compiled ring is what its stub says
stubs: $(READY)
	$(STAGE) $(BIN)/stubtest --mypy-config-file pyproject.toml --allowlist tests/typing/stubtest.txt xwheel._ring xwheel._timer

# the sources and the wheel as they would be published: what is in the wheel, the first steps with nothing but what it
# asks for, then the tests of what only an installed wheel gets wrong, with the tools of the core's environment: its path
# alone, without the finder of the editable install, which would find what a wheel lacks. The plugins are built from copies,
# because tests run in their own folders meanwhile
wheel: $(READY)
	rm -rf build/wheel
	mkdir -p build/wheel/sources
	$(STAGE) env XWHEEL_REQUIRE_EXTENSIONS=1 $(BIN)/python -m build --no-isolation --outdir build/wheel/dist > build/wheel/log 2>&1 || { cat build/wheel/log; exit 1; }
	tar -c --exclude node_modules --exclude build $(SERVER:%=plugins/%) | tar -x -C build/wheel/sources
	$(STAGE) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir build/wheel/plugins $(SERVER:%=build/wheel/sources/plugins/%)
	$(BIN)/python -m tests.support.wheel_files build/wheel/dist/*.whl build/wheel/plugins/*.whl
	$(PYTHON) -m venv build/wheel/venv
	$(STAGE) build/wheel/venv/bin/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --find-links build/wheel/plugins "$$(echo build/wheel/dist/*.whl)[server]"
	cd build/wheel && $(STAGE) venv/bin/xwheel quickstart --seconds 5 --data-dir data
	cp -r tests docs pyproject.toml build/wheel
	cp --parents plugins/*/xwheel_*/__init__.py plugins/*/xwheel_*/command.py build/wheel # commands that pages name
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > "$$(echo build/wheel/venv/lib/python3*/site-packages)/tools.pth"
	cd build/wheel && $(TESTS) env XWHEEL_REQUIRE_EXTENSIONS=1 venv/bin/python -m pytest -q -n $(SUITE_JOBS) -m 'not long' $(INSTALLED)

homes: $(HOMES) $(ALL)

# the longest first, so that short ones fill the end
LONGEST := job_package cells cluster_zookeeper log_s3 log_sql glue_script
plugins: $(patsubst %,test-%,$(LONGEST) $(filter-out console $(LONGEST),$(TESTED)))

# the console and other plugins' pages in a real browser, for which tests wait more than they compute
PAGES := pages-job_package pages-cluster_zookeeper pages-cells
console: console-itself $(PAGES)

console-itself: $(VENV)/plugins/console/.ready $(NPM)
	cd plugins/console && $(TESTS) $(CURDIR)/$(VENV)/plugins/console/bin/python -m pytest -q -n $(SUITE_JOBS) --dist loadfile

pages-%: $(VENV)/plugins/console/.ready
	cd plugins/$* && $(TESTS) $(CURDIR)/$(VENV)/plugins/console/bin/python -m pytest -q -n $(SUITE_JOBS) --dist loadfile -m '$(NIGHT)' tests/pages

# suites of more than some seconds, for which further processes pay
WIDE := job_package glue_script cluster_zookeeper log_s3 log_sql
# 'make nightly' runs the others
NIGHT := not nightly
test-%: $(VENV)/plugins/%/.ready
	cd plugins/$* && $(TESTS) $(CURDIR)/$(VENV)/plugins/$*/bin/python -m pytest -q $(if $(shell grep '^markers.*nightly' plugins/$*/pyproject.toml),-m '$(NIGHT)') $(if $(filter $*,$(WIDE)),-n $(SUITE_JOBS) --dist loadfile)

# builds executors of other languages before the tests need them; a test builds what is missing
peers:
	$(STAGE) $(PYTHON) -c 'from tests.interop import go_peers, java_peers; go_peers.GO.build(); java_peers.JAVA[-1].build()'

# what the console's libraries were built from: a test builds them again and compares
$(NPM): plugins/console/vendor/package-lock.json
	cd plugins/console/vendor && $(STAGES) run npm npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

# random faults from seeds, while jobs fire: nothing may be lost, run twice or be stuck
soak: $(READY)
	$(STAGE) $(BIN)/python -m tests.faults.soak --seeds $(SEEDS) --seconds $(SECONDS) $(ARGS)

# mistakes made on purpose in copies of the tree, one at a time: the tests next to the code must notice them;
# 'make mutants ARGS=TEXT' makes those with the text in their file or reason
mutants: $(READY) $(HOMES)
	$(STAGE) $(BIN)/python -m tests.mutants $(if $(SAMPLE),--sample $(SAMPLE)) $(ARGS)

# xwheel with one guard taken out: the faults and the verdict must catch each such mutant
soak-mutants: $(READY)
	$(BIN)/python -m tests.faults.mutants --hunt $(ARGS)

bench: $(READY) $(HOMES)
	for bench in pipeline burst claim api http executor peers listener ring cron nodes many_executors start cli sessions; do $(BIN)/python -m benchmarks.$$bench $(ARGS) || exit 1; done
	$(VENV)/plugins/router_extra/bin/python -m benchmarks.route $(ARGS)
	$(VENV)/plugins/job_package/bin/python -m benchmarks.packages $(ARGS)
	$(VENV)/plugins/cluster_zookeeper/bin/python -m benchmarks.cluster $(ARGS)
	$(VENV)/plugins/cluster_zookeeper/bin/python -m benchmarks.node_loss $(ARGS)
	$(VENV)/plugins/console/bin/python -m benchmarks.console $(ARGS)

# the pages as a site, in build/docs; any warning fails
docs: $(READY)
	$(STAGE) $(BIN)/sphinx-build -E -W -n -q --keep-going -d build/doctrees docs build/docs

clean:
	rm -rf $(VENV) build dist *.egg-info xwheel/*.c xwheel/*.cpp xwheel/*.so

# what a list of pyproject.toml names, and not the core once more, which would be compiled again
add = $(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); print(*project$2, sep="\n")' \
	> $(VENV)/$1.txt && $(NARRATE) $(BIN)/python -m pip install --constraint $(CONSTRAINTS) --requirement $(VENV)/$1.txt
extra = $(call add,$1,["project"]["optional-dependencies"]["$1"]) && touch $@

# the editable install builds the extension (without a compiler the Python twin does, which 'make test' refuses);
# the stamps make later calls start at once
$(NODE): $(SOURCES)
	@echo "preparing $(VENV), once: packages are installed and the time ring is compiled, half a minute or more"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "xwheel needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(NARRATE) $(PYTHON) -m venv $(VENV)
	@$(call add,build,["build-system"]["requires"])
	@PYTHONWARNINGS=ignore XWHEEL_REQUIRE_EXTENSIONS=$(if $(shell command -v c++),1,0) $(NARRATE) $(BIN)/python -m pip install --constraint $(CONSTRAINTS) --no-build-isolation --editable '.[server]' $(SERVER:%=--editable plugins/%)
	@touch $@

$(TOOLS): $(NODE)
	@echo "adding the tools of 'make check' to $(VENV), once"
	@$(call extra,check)

$(READY): $(TOOLS)
	@echo "adding all that tests use to $(VENV), once: a minute or two"
	@$(call extra,dev)

# an environment that sees those of others, one Python line for each
sees = $(BIN)/python -m venv --clear --without-pip $(@D) && for home in $1; do \
	$$home/bin/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")'; \
	done > "$$(echo $(@D)/lib/python3*/site-packages)/others.pth"

# 'pip --python' sees what the core's environment has, and those of the plugins that this one needs, and adds only what it
# wants besides; no plugin is built twice at once
$(foreach plugin,$(PLUGINS),$(eval $(VENV)/plugins/$(plugin)/.ready: $(patsubst %,$(VENV)/plugins/%/.ready,$(call needs,$(plugin)))))
$(HOMES): $(VENV)/plugins/%/.ready: $(PROJECTS) $(READY)
	$(call sees,$(VENV) $(patsubst %,$(VENV)/plugins/%,$(call needs,$*)))
	$(STAGES) run homes env PYTHONWARNINGS=ignore $(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check \
		--constraint $(CONSTRAINTS) --no-build-isolation --editable 'plugins/$*[dev]'
	touch $@

$(CORE): $(READY) tests/support/fresh_env.py
	$(BIN)/python -m tests.support.fresh_env $(@D)
	touch $@

$(ALL): $(HOMES)
	$(call sees,$(VENV) $(TESTED:%=$(VENV)/plugins/%))
	touch $@
