# Needs Rust; packaging/need installs what else the system has to have, or says how to. Python's
# packages go into .venv.

SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(HOME)/.cargo/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python

# What the Python module is built from.
RUST := $(shell find Cargo.toml $(wildcard Cargo.lock) core $(addprefix crates/onramp-,clock config core py random records sim topology workload) -name '*.rs' -o -name '*.[ch]' -o -name '*.toml' -o -name '*.lock' -o -name '*.txt')

# What is needed comes before what is built, in this order; builds use all processors by themselves.
.NOTPARALLEL:
.PHONY: help install install-fast testbed demo test test-quick test-kernel test-packages test-upgrade test-chart test-kubernetes fuzz lint bindings bench agent packages image install-agent uninstall-agent datapath docs docs-serve wheel clean

help:
	@echo "make demo     install, then compare DCQCN with and without On-Ramp on 320 servers (minutes)"
	@echo "make install  build everything into .venv; the command is .venv/bin/onramp"
	@echo "make install-fast  the same, built with a profile of what it does: RDMA a tenth faster, four minutes more"
	@echo "make testbed  the Linux cluster: its programs and its kernel (minutes, once)"
	@echo "make test     every test, on one stock kernel of each kind"
	@echo "make test-quick  the simulator and the command: no kernel, no emulated machine (minutes)"
	@echo "make test-kernel  the other stock kernels, and the gate on debug kernels, under QEMU: two hours at first, one and a half later; on a busy machine twice that"
	@echo "make test-packages  installs, upgrades and removes the packages on Debian 12 and 13 under QEMU"
	@echo "make test-upgrade FROM=COMMIT  this agent beside that of another commit, such as the last release (as root; minutes)"
	@echo "make test-chart  the Helm chart and the container image: helm, kubeconform, Podman; builds helm once (minutes)"
	@echo "make test-kubernetes  installs, changes and removes the chart in a cluster of two nodes; builds Kubernetes once (a quarter of an hour)"
	@echo "make fuzz     parsers of others' bytes, RUNS inputs each (a million: minutes)"
	@echo "make agent    the host agent, its client, and tc's plugin for the gate; then as root: make install-agent"
	@echo "make packages .deb and .rpm of agent, client, coordinator and the gate's module, in results/packages"
	@echo "make image    the same programs as a container image of 18 MB, in results/packages"
	@echo "make datapath the gate's module against stock kernels' headers: 6.1, 6.12, the newest"
	@echo "make docs     the site, in site/: reference pages are made from the code; make docs-serve shows it while you write"
	@echo "make wheel    the Python package for any Linux since 2018, without a compiler there, in dist/; tested in an empty environment"
	@echo "make lint     formatting, lints, types"
	@echo "make bindings regenerate the Rust view of the C headers"
	@echo "make bench    packet-hops per second, instructions per packet-hop, and what shapers' structures cost"
	@echo "make clean    remove what was built; results stay"

install: .venv/built

need-%:
	@packaging/need $*

.venv/made: | need-demo
	python3 -m venv .venv
	pip install --quiet --disable-pip-version-check "maturin>=1.9,<2"
	@touch $@

.venv/built: .venv/made pyproject.toml $(RUST)
	maturin develop --release --extras dev
	@touch $@

install-fast: .venv/made
	packaging/profile
	@touch .venv/built

# The Linux cluster: its programs beside Python, where the package looks for them, and its kernel.
testbed: need-cluster install
	cargo build --release -p onramp-testbed -p onrampd -p onrampctl
	install target/release/onramp-testbed target/release/onrampd target/release/onrampctl .venv/bin/
	testbed/kernel/build

agent: need-agent
	cargo build --release -p onrampd -p onrampctl
	$(MAKE) --quiet -C datapath/tc

# As root, after make agent; nothing is built. onrampctl init or join writes the configuration.
install-agent:
	@test -x target/release/onrampd -a -x target/release/onrampctl || { echo "run make agent first" >&2; exit 1; }
	install -D -t $(DESTDIR)/usr/bin target/release/onrampd target/release/onrampctl
	install -D -m 644 packaging/onrampd.service $(DESTDIR)/usr/lib/systemd/system/onrampd.service
	install -D -m 644 packaging/onrampd.sysusers $(DESTDIR)/usr/lib/sysusers.d/onrampd.conf
	install -D -m 644 packaging/onrampd.rules $(DESTDIR)/usr/lib/udev/rules.d/60-onrampd.rules
	install -D -m 644 packaging/onrampd-coordinator.service $(DESTDIR)/usr/lib/systemd/system/onrampd-coordinator.service
	install -D -m 644 packaging/onrampd-exporter.service $(DESTDIR)/usr/lib/systemd/system/onrampd-exporter.service
	install -D -m 644 packaging/onrampd.toml $(DESTDIR)/usr/share/doc/onrampd/onrampd.toml
	install -d $(DESTDIR)/etc/onrampd
	$(MAKE) --quiet -C datapath/tc install
	install -d $(DESTDIR)/usr/src/onramp-0.1.0
	install -m 644 datapath/sch_onramp/* $(DESTDIR)/usr/src/onramp-0.1.0/

packages: need-packages agent
	packaging/packages/build results/packages

image: need-image packages
	packaging/container/build results/packages

datapath: need-gate
	testbed/stock/modules
	$(MAKE) --quiet -C datapath/tc

# As root, once the service is disabled; configuration and keys in /etc/onrampd stay.
uninstall-agent:
	rm -f $(DESTDIR)/usr/bin/onrampd $(DESTDIR)/usr/bin/onrampctl $(DESTDIR)/usr/lib/sysusers.d/onrampd.conf
	rm -f $(DESTDIR)/usr/lib/udev/rules.d/60-onrampd.rules
	rm -f $(addprefix $(DESTDIR)/usr/lib/systemd/system/,onrampd.service onrampd-coordinator.service onrampd-exporter.service)
	rm -rf $(DESTDIR)/usr/share/doc/onrampd $(DESTDIR)/usr/src/onramp-0.1.0
	$(MAKE) --quiet -C datapath/tc uninstall
	@rmdir --ignore-fail-on-non-empty $(DESTDIR)/etc/onrampd 2>/dev/null || true

demo: install
	@onramp demo

LIBRARIES := sim workload topology records clock config random controller core

# The site. Every warning, such as a link to nowhere, is an error.
.venv/site: .venv/built pyproject.toml
	pip install --quiet --disable-pip-version-check $$(packaging/site/extra docs)
	@touch $@

docs: .venv/site
	rm -rf target/doc docs/reference
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps $(addprefix -p onramp-,$(LIBRARIES))
	python packaging/site/reference.py docs/reference
	cp -r target/doc docs/reference/crates
	zensical build --clean --strict

docs-serve: docs
	zensical serve

# A wheel for Python 3.10 and newer and glibc 2.28 and newer, and what it is built from.
wheel: .venv/made
	pip install --quiet --disable-pip-version-check $$(packaging/site/extra wheel)
	rm -rf dist
	maturin build --release --zig --compatibility manylinux_2_28 --out dist
	maturin sdist --out dist
	packaging/wheel dist

# One kernel of each kind: those marked `kernels` are for test-kernel.
# The determinism test runs in both builds: their results must be the same bytes.
test: need-all testbed
	cargo test --workspace
	cargo test --release -p onramp-sim --test determinism
	$(MAKE) --quiet -C datapath/tc
	pytest -n $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder --durations 25 -m "not kernels"

# For whoever changes one file: the long comparisons of cells and builds are in make test.
test-quick: install
	cargo test $(addprefix -p onramp-,core clock config random records topology workload sim) -- --skip cells --skip every_build
	pytest -n auto --dist loadfile --no-loadscope-reorder -m "not machines"

# What other kernels repeat of make test. The gate where the kernel checks itself: memory, leaks, locks, failures on demand; then data races. Then
# half an hour of whatever may happen to it where it is a program.
test-kernel: need-debug need-stock testbed
	pytest -n 2 --dist loadfile --no-loadscope-reorder -m kernels
	cargo build --release -p onrampd -p onrampctl
	testbed/kernel/build --kasan
	testbed/debug/boot target/release/onrampd
	testbed/kernel/build --kcsan
	testbed/debug/boot --kcsan target/release/onrampd churn model stopped fuzz
	testbed/stock/modules --images newest
	testbed/stock/boot newest target/release/onrampd --stress 1800

# Packages on Debian 12 and 13: installed, upgraded under traffic, removed.
test-packages: need-installed packages
	lintian --allow-root --fail-on error,warning results/packages/*.deb
	packaging/packages/build results/packages/old '~1'
	testbed/packages/boot bookworm results/packages/old results/packages
	testbed/packages/boot trixie results/packages/old results/packages

# This tree's agent and coordinator beside those of the last release, while traffic flows.
test-upgrade: need-upgrade
	testbed/releases $(FROM)

# The Helm chart: rendered, held to Kubernetes' schemas, and its containers on two nodes.
test-chart: need-chart install image
	pip install --quiet --disable-pip-version-check "kubernetes-validate==1.37.0" "pyyaml>=6"
	pytest -rs tests/test_chart.py tests/test_chart_nodes.py tests/test_grafana.py

# The same in a Kubernetes cluster of two nodes, which is built from source at first.
test-kubernetes: need-kubernetes image
	testbed/kubernetes/boot results/packages/onramp-image_*.tar

# Parsers of what others say, with coverage to go by.
fuzz: need-fuzz
	crates/onrampd/fuzz/run $(RUNS)

lint: need-lint install
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	ruff check
	ruff format --check
	mypy

# The Rust view of the C headers, generated and kept in the repository.
bindings: need-agent install
	LIBCLANG_PATH=$$(python -c 'import clang, pathlib; print(pathlib.Path(clang.__file__).parent / "native")') \
		cargo build --quiet -p onramp-core -p onrampd --features onramp-core/regenerate,onrampd/regenerate

bench: install
	cargo bench -p onramp-sim

clean:
	rm -rf .venv target dist site docs/reference python/onramp/*.so
