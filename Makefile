# `make run` and `make test` need only Python 3.11+ and a C compiler: each sets up what it uses.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.DEFAULT_GOAL := help
.PHONY: help run test check browser private-slurm parity format setup toolchains clean bench bench-overhead bench-peers bench-atari bench-contestants bench-nets bench-workers bench-open bench-open-learning bench-report fuzz

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(STAMP)  ## install the lab into .venv

# An interrupted install leaves no stamp, so it is done again.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "rldyno needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: $(STAMP)  ## run the quickstart study and show its answer
	$(BIN)/rldyno run quickstart
	@echo 'Next: source $(BIN)/activate, then for example: rldyno studies'

check: $(STAMP)  ## lint, types, import contracts and unit tests: the inner loop
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n auto -m "not slow" tests/unit

toolchains: $(STAMP)  ## build the toolchains of all contestants
	$(BIN)/rldyno setup

test: check toolchains browser private-slurm  ## everything: check, then parity and end-to-end tests against real toolchains
	$(BIN)/pytest -n auto -m slow tests/unit
	$(BIN)/pytest -n auto tests/parity tests/golden
	$(BIN)/pytest -n auto --dist loadfile -m "not alone" tests/e2e
	$(BIN)/pytest -m alone tests/e2e
	@$(BIN)/python tests/browser.py verdict

browser: $(STAMP)  ## find or fetch a browser for the tests of the report
	@$(BIN)/python tests/browser.py fetch

private-slurm: $(STAMP)  ## find Slurm or fetch Debian's packages of it, for the tests of the cluster
	@$(BIN)/python tests/private_slurm.py fetch

parity: toolchains  ## prove every contestant on every algorithm and network, compare all their actions (an hour, cold)
	RLDYNO_PARITY=everything $(BIN)/pytest -n auto tests/parity

format: $(STAMP)  ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: bench-overhead bench-peers bench-atari bench-contestants bench-nets bench-workers bench-open bench-report  ## every benchmark

bench-overhead: $(STAMP)  ## what the loop, the probe and the lab cost
	$(BIN)/rldyno setup numpy torch jax
	$(BIN)/python bench/overhead.py

bench-peers: $(STAMP)  ## steps per second beside other libraries, as the study `peers` (20 minutes; QUICK=1: few)
	$(BIN)/rldyno setup numpy torch jax sb3 sbx tianshou skrl torchrl
	$(BIN)/python bench/peers.py $(if $(QUICK),--quick)

bench-atari: $(STAMP)  ## steps per second on Pong beside Stable-Baselines3, on one core (ten minutes; QUICK=1: two)
	$(BIN)/rldyno setup numpy torch jax tensorflow sb3
	$(BIN)/python bench/atari.py $(if $(QUICK),--quick)

bench-contestants: toolchains  ## time per act and update of every contestant, side by side
	$(BIN)/python bench/contestants.py

bench-nets: toolchains  ## stooke2017's small network in every contestant, on one core, beside the paper's table
	rm -rf .bench/nets
	$(BIN)/rldyno nets --nets small --out .bench/nets

bench-workers: toolchains  ## step time, communication and efficiency of two workers, per contestant and collective
	$(BIN)/python bench/workers.py

bench-open: $(STAMP)  ## whole training loops of one framework beside the closed loop, with 4 and 2,048 environments
	$(BIN)/rldyno setup numpy torch tensorflow jax
	rm -rf .bench/open
	$(BIN)/rldyno open --contestants jax,tensorflow,torch,numpy --environments 4,2048 --set rollout_steps=128 --set epochs=4 --closed --parts --repeats 3 --out .bench/open
	$(BIN)/rldyno open --contestants jax,tensorflow,torch,numpy --algorithm dqn --environments 1,4,2048 --closed --parts --repeats 3 --out .bench/open/dqn
	$(BIN)/rldyno open --contestants jax,tensorflow,torch,numpy --algorithm a2c --environments 8,2048 --closed --parts --repeats 3 --out .bench/open/a2c
	$(BIN)/rldyno open --environments 4 --agents 16 --set rollout_steps=128 --set epochs=4 --repeats 3 --out .bench/open/agents

bench-open-learning: $(STAMP)  ## do the open loops learn like the closed division? CartPole-v1 (SEEDS=12 each, half an hour)
	$(BIN)/rldyno setup numpy torch tensorflow jax
	rm -rf .bench/open-learning
	for algorithm in dqn ppo a2c; do $(BIN)/rldyno open --learning $(or $(SEEDS),12) --contestants jax,tensorflow,torch,numpy --algorithm $$algorithm --out .bench/open-learning/$$algorithm || exit 1; done

bench-report: $(STAMP)  ## a report over 10,000 synthetic trials: seconds, memory, size
	$(BIN)/python bench/report.py

fuzz: $(STAMP)  ## damaged records and packs, wild studies, kills at every change of a file and at random (FUZZ=10000, KILLS=1000; hours on two cores)
	$(BIN)/python tests/fuzz.py all --count $(or $(FUZZ),10000)
	$(BIN)/python tests/crash_points.py --all
	$(BIN)/python tests/kills.py $(or $(KILLS),1000)
	$(BIN)/python tests/slurm_kills.py 50

clean:  ## remove what this checkout made (toolchains are shared and stay)
	rm -rf $(VENV) .bench results .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
