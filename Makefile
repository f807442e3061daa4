# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
#
# A fresh machine needs Python 3.11+, git and make. `make help` lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help

python := .venv/bin/python
# Arguments for pytest, for example: make test-fast ARGS="-k trust -x"
ARGS ?=
# Processes that run tests side by side: 3, since tests often wait for servers or processes. The lab's servers need memory: count 4 GiB for
# each of them.
WORKERS ?=
# A part of the deep run, for example: make test-all SHARD=2/4
SHARD ?=
# Molecule scenarios.
SCENARIO ?= connect

# ansible-compat (below ansible-lint and molecule) installs a copy of the collection into $HOME/.ansible/collections, which later runs of
# Ansible would silently prefer over this checkout. So these tools get a home of their own. Caches stay where they are.
home := $(CURDIR)/.build/home
cache := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
plugins := ansible_collections.edge_portal.cilium_mesh.plugins
collections := $(CURDIR)/.build/collections
ansible_env = env HOME="$(home)" XDG_CACHE_HOME="$(cache)" ANSIBLE_HOME="$(home)/.ansible" ANSIBLE_COLLECTIONS_PATH="$(collections)" \
	PATH="$(CURDIR)/.venv/bin:$$PATH"

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# A folder by that name would make a mistyped target one for which nothing is to be done.
folders := $(filter-out molecule,$(patsubst %/,%,$(wildcard */)))
.PHONY: $(folders)
$(folders):
	@echo "$@ is a folder and no target; make help lists the targets." >&2; exit 2

.PHONY: venv
venv: ## the virtual environment .venv, exactly as the lock says
	@requirements/make-venv
	@$(python) tests/collection_path.py >/dev/null
	@mkdir -p "$(home)"

.PHONY: demo
demo: venv ## two real control planes become one mesh, and part again
	@$(python) -m tests.demo

.PHONY: demo-fleet
demo-fleet: venv ## a workload comes to two clusters by a real Karmada, changes wave by wave, returns, and leaves
	@$(python) -m tests.demo_fleet

.PHONY: demo-traffic
demo-traffic: venv ## requests between pods of two clusters with real agents, counted while pods go, policies change and a tunnel is cut; as root
	@$(python) -m tests.demo_traffic

.PHONY: demo-operator
demo-operator: venv ## two tenants write equal resources, and get a mesh each; in kcp, or with SOURCE=kubernetes in namespaces of one cluster
	@$(python) -m tests.demo_operator $(SOURCE)

.PHONY: stack-up stack-down
stack-up: venv ## clusters, kcp (or SOURCE=kubernetes), a management plane and the operator (KARMADA=1: and a Karmada), until stack-down
	@$(python) -m tests.stack up $(SOURCE) $(if $(KARMADA),--karmada)

stack-down: venv ## the end of what stack-up started
	@$(python) -m tests.stack down

# Python keeps what it compiled even where the environment says otherwise: pytest rewrites every assertion, which costs each worker more
# than collecting all tests does.
quietly = env -u PYTHONDONTWRITEBYTECODE $(python) -m
workers := --durations 30 --numprocesses
# Tests that share a lab are one group, and the longest groups begin first (tests/integration/labs.py).
in_groups := --dist loadgroup --no-loadscope-reorder
# What the deep run alone has is not collected (tests/testing/gate.py), nor are the tests of the lab itself while the lab is as it was when they passed.
gate := --gate -m "not slow" --hypothesis-profile fast

.PHONY: test
test: venv ## the gate: the unit tests but the slowest, and one scenario on real servers of each area of the product
	@$(quietly) tests.testing.second_chance $(workers) $(or $(WORKERS),3) $(in_groups) $(gate) $(ARGS)

.PHONY: test-fast
test-fast: venv ## the unit tests of the gate alone
	@$(quietly) pytest $(workers) $(or $(WORKERS),3) tests/unit --dist worksteal $(gate) $(ARGS)

.PHONY: test-all
test-all: venv ## the deep run: every test and the full matrix, with many examples of each property; SHARD=2/4 runs a part of it
	@$(if $(SHARD),$(python) -m tests.testing.shard "$(SHARD)")
	@$(python) -m tests.lab.tools build deep
	@$(quietly) tests.testing.second_chance $(workers) $(or $(WORKERS),3) $(in_groups) --hypothesis-profile full $(if $(SHARD),--shard "$(SHARD)") $(ARGS)

.PHONY: test-lab
test-lab: venv ## the tests of the lab itself; when they pass, the gate leaves them out until the lab changes
	@$(quietly) pytest $(workers) $(or $(WORKERS),3) tests/unit/lab --dist worksteal $(ARGS)
	@$(python) -m tests.testing.lab_proof

# Minutes of each circle of scenes, and another order of the cases, of `make reliability`.
FAULT_MINUTES ?= 600
FAULT_SEED ?= 1
.PHONY: reliability
reliability: venv ## every API call fails once, and every play and the operator are killed at their writes (docs/reliability.md)
	@$(quietly) pytest -n0 -s -m full --fault-minutes $(FAULT_MINUTES) --fault-seed $(FAULT_SEED) \
		tests/integration/test_reliability.py tests/integration/test_operator_kills.py $(ARGS)

# Minutes, parsers (all) and seed (a new one) of `make fuzz`.
FUZZ_MINUTES ?= 10
FUZZ_PARSERS ?=
FUZZ_SEED ?=
.PHONY: fuzz
fuzz: venv ## every parser of foreign bytes, for FUZZ_MINUTES (10) in all; new findings are kept in tests/fuzz/corpus
	@$(python) -m pip --disable-pip-version-check install --quiet --require-hashes --only-binary :all: --upgrade --target .build/fuzz \
		-r requirements/fuzz.txt || echo "atheris has no package for this machine: inputs are mutated at random, without guidance by coverage."
	@PYTHONPATH="$(collections):$(CURDIR)/operator:$(CURDIR)/.build/fuzz" $(python) -m tests.fuzz --minutes $(FUZZ_MINUTES) \
		$(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(FUZZ_PARSERS)

.PHONY: audit
audit: venv ## the locked packages, compared with the database of known vulnerabilities
	@$(python) requirements/audit.py

.PHONY: sbom
sbom: venv ## the bill of materials of the operator's image (CycloneDX), in .build/sbom
	@mkdir -p .build/sbom
	@cat requirements/operator.txt requirements/image.txt | $(python) -W ignore::UserWarning -m cyclonedx_py requirements \
		--pyproject operator/pyproject.toml --output-reproducible --of JSON --output-file .build/sbom/mesh-operator.cdx.json -
	@echo .build/sbom/mesh-operator.cdx.json

.PHONY: findings
findings: venv ## what the docs say of each finding, from the catalogue
	@$(python) -m tests.testing.write_code_table

.PHONY: generated
generated: venv ## modules, roles and playbooks of items; RETURN of modules; options of actions and roles: each from its source
	@$(python) -m tests.testing.item_facades
	@$(python) -m tests.testing.returns
	@$(python) -m tests.testing.options --write

.PHONY: metrics
metrics: venv ## the alert rules, the dashboard and docs/metrics.md, from the catalogue of metrics
	@$(python) -m tests.testing.monitoring

linters := ruff mypy ansible docs reuse changelog
.PHONY: lint
lint: venv ## every linter
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync $(addprefix lint-,$(linters))

.PHONY: $(addprefix lint-,$(linters))
lint-ruff:
	$(python) -m ruff check .
	$(python) -m ruff format --check .
lint-mypy:
	$(python) -m mypy $(foreach part,module_utils plugin_utils action filter inventory,-p $(plugins).$(part)) -p mesh_operator \
		$(foreach part,lab testing recipes demo demo_fleet demo_operator demo_traffic stack bench fuzz unit integration,-p tests.$(part))
lint-ansible:
	@echo ansible-lint --offline --profile production
	@$(ansible_env) $(python) -m ansiblelint --offline --profile production
lint-docs:
	@echo antsibull-docs lint-collection-docs --plugin-docs .
	@$(ansible_env) antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self .
lint-reuse:
	@echo reuse lint
	@$(python) -m reuse lint --quiet || $(python) -m reuse lint
lint-changelog:
	$(python) -m antsibull_changelog lint

.PHONY: sanity
sanity: venv ## ansible-test sanity on the collection as it would be published
	@$(ansible_env) tests/sanity/run

.PHONY: molecule
molecule: venv ## molecule test of the scenario connect, or of others (SCENARIO="connect services")
	@for scenario in $(SCENARIO); do $(ansible_env) $(python) -m molecule test --scenario-name "$$scenario" || exit; done

.PHONY: screens
screens: venv ## docs/screens: what a person sees, from runs on the lab
	@WRITE_SCREENS=1 $(python) -m pytest -q $(foreach what,screens mistakes,tests/unit/plugins/action/test_$(what).py tests/integration/test_$(what).py) \
		tests/integration/test_demo.py::test_the_demo_of_traffic_shows_all_that_it_is_to_show_and_is_like_its_recording
	@$(python) -m tests.testing.screens
	@$(python) -m tests.testing.drawings

.PHONY: drawings
drawings: venv ## docs/images: packages, the stages of a run, and the picture of a run from docs/screens
	@$(python) -m tests.testing.drawings

.PHONY: bench
bench: venv ## time, memory and API requests of connect on the lab
	@$(python) -m tests.bench $(ARGS)

.PHONY: bench-compare
bench-compare: venv ## two commits by one benchmark, in turns: make bench-compare A=main~5 B=main ARGS="--only planning"
	@$(python) -m tests.bench.compare $(A) $(B) $(ARGS)

.PHONY: bench-operator
bench-operator: venv ## the operator: from resource to written object, restart with 500 resources, cost of 1000
	@$(python) -m tests.bench.operator $(ARGS)

.PHONY: lab-tools
lab-tools: venv ## the lab's servers: found, or built once; `make test-all` also builds Helm, promtool and Karmada
	@$(python) -m tests.lab.tools build

.PHONY: lock
lock: venv ## requirements/*.txt from requirements/*.in (UPGRADE=1 for newer versions)
	@requirements/make-lock
	@requirements/make-venv

.PHONY: build
build: venv ## the collection as a tarball and the operator as a wheel, in .build/dist
	@rm -rf .build/dist && mkdir -p .build/dist
	@$(ansible_env) ansible-galaxy collection build --output-path .build/dist . >/dev/null
	@$(python) -m pip --disable-pip-version-check wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir .build/dist ./operator
	@ls -1 .build/dist/*

.PHONY: run
run: venv ## the operator from this checkout, with KCP_KUBECONFIG, MGMT_KUBECONFIG and further flags in ARGS
	@env PYTHONPATH="$(CURDIR)/operator:$(collections)" NODE_ID="$(or $(NODE_ID),$(shell hostname))" $(python) -m mesh_operator $(ARGS)

.PHONY: image-context
image-context: ## what an image build gets to see (.containerignore), in .build/image-context
	@rm -rf .build/image-context && mkdir -p .build/image-context
	@git ls-files -z -- $$(sed -n 's/^!//p' .containerignore) | xargs -0 -I F cp --parents -P F .build/image-context/
	@echo "podman build --file operator/deploy/image/Containerfile .build/image-context"

.PHONY: image-digests
image-digests: ## the digests of the base images, from their registries; needs skopeo
	@operator/deploy/image/digests

.PHONY: clean
clean: ## remove .venv and .build (the lab's servers are kept, they lie outside)
	rm -rf .venv .build .ansible .hypothesis .pytest_cache .ruff_cache .mypy_cache
