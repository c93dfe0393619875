# What a person runs. `make help` lists it.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# First-party plugins.
PLUGINS := text files fetch notes marks personal policy secrets unruly
# Workspaces beside the gateway's, by their manifests. Their artifacts go below the gateway's, so that one directory holds all.
WORKSPACES := plugins/starlark/Cargo.toml plugins/python/Cargo.toml plugins/examples/rust/Cargo.toml plugins/examples/guard/Cargo.toml
OTHERS := $(TARGET_DIR)/others
# Parts of `make bench`, and their options: `--json`, or `--against PROGRAM` for those that can compare two builds.
BENCH := overhead code_mode runner chat mcp upstream store limits
BENCH_OPTIONS :=
# The interpreter of `make bench-python`.
PYTHON := python3
BENCH_PYTHON :=
# With the features that the tests build with, so that the engine is compiled once for both.
BUILD := cargo build --workspace --bin airlock
# Release profile of plugins: small code, because the gateway compiles a plugin to machine code before its first call.
PLUGIN_PROFILE := CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
# The commit that `make check` compares with, in place of the one where the branch left `main`; `ALL=1` tests every crate.
BASE :=
ALL :=

# The program of `make dist`; without one, a release is built.
PROGRAM :=
# What `make dist` builds for; without one, this machine. `x86_64-unknown-linux-musl` makes a static program, with the compiler of
# Debian's musl-tools for what is written in C.
TARGET :=
RELEASE := $(or $(PROGRAM),$(if $(TARGET),$(TARGET_DIR)/$(TARGET)/release/airlock,$(TARGET_DIR)/release/airlock))

# Date of the files in packages, so that the same sources make the same bytes: 1 January 2026.
SOURCE_DATE_EPOCH := 1767225600

.PHONY: help demo check test bench bench-python bench-tokens hostile lab chaos lint lint-gateway lint-library docs-links plugins packages dist test-dist test-libraries test-packages test-browser screenshots wasm peers

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: wasm ## shows the gateway at work: plugins, an MCP server, scripts and approvals, with a scripted model
	@echo "demo: building airlock (some minutes the first time)"
	@$(BUILD)
	@$(TARGET_DIR)/debug/airlock demo

check: lint-gateway ## checks format and lints, and runs the unit tests of the crates that differ from main; ALL=1 tests every crate below the command line
	@export AIRLOCK_CACHE_DIR="$${AIRLOCK_CACHE_DIR:-$(abspath $(TARGET_DIR))/code-cache}"; \
	tests/unit $(if $(ALL),--all) $(if $(BASE),--base $(BASE))

test: ## builds everything and runs every test, the real MCP servers included
	@tests/run

bench: wasm ## prints what the sandbox and the gateway cost, as ratios, in a release build; BENCH="chat mcp" for some parts
	@echo "bench: building a release (long the first time)"
	@cargo build --release --manifest-path plugins/starlark/Cargo.toml --package native-script --target-dir $(OTHERS)
	@set -e; for part in $(BENCH); do \
		NATIVE_SCRIPT=$(abspath $(OTHERS))/release/native-script cargo bench --workspace --bench parts -- --part $$part $(BENCH_OPTIONS); \
	done

bench-python: wasm ## prints what a script costs from Python, in a release build, beside Monty if PYTHON has it; BENCH_PYTHON=--json
	@echo "bench-python: building a release (long the first time)"
	@cargo build --quiet --release --package airlock-binding-python
	@rm -rf $(TARGET_DIR)/bench-python && mkdir -p $(TARGET_DIR)/bench-python
	@cp -r host/bindings/python/airlock $(TARGET_DIR)/bench-python/
	@cp $(TARGET_DIR)/release/lib_airlock.so $(TARGET_DIR)/bench-python/airlock/_airlock.abi3.so 2>/dev/null || \
		cp $(TARGET_DIR)/release/lib_airlock.dylib $(TARGET_DIR)/bench-python/airlock/_airlock.abi3.so
	@PYTHONPATH=$(TARGET_DIR)/bench-python $(PYTHON) tests/benches/python/bench.py $(BENCH_PYTHON)

bench-tokens: wasm ## prints the tokens of tool definitions against those of code mode; asks no model
	@echo "bench-tokens: building"
	@cargo bench --quiet --profile dev --workspace --bench parts -- --part tokens

hostile: wasm ## runs every hostile guest beside a good neighbour; HOSTILE=--json for one document
	@echo "hostile: building" >&2
	@cargo bench --quiet --profile dev --workspace --bench parts -- --part hostile $(HOSTILE)

lab: wasm ## runs attacks on a model that obeys every order, under each configuration; what is not stopped comes first; LAB=--json for one document, LAB="--case NAME" for one case
	@echo "lab: building" >&2
	@export AIRLOCK_CACHE_DIR="$${AIRLOCK_CACHE_DIR:-$(abspath $(TARGET_DIR))/code-cache}"; \
	cargo bench --quiet --profile dev --workspace --bench parts -- --part lab $(LAB)

chaos: wasm ## runs 60 MCP servers that misbehave at random beside five good ones, for CHAOS_SECONDS (600); CHAOS=--json; CHAOS=--kills kills gateways and their store instead
	@echo "chaos: building" >&2
	@cargo bench --quiet --profile dev --workspace --bench parts -- --part chaos $(CHAOS)

lint-gateway: wasm
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# Links from public to private items are meant: these are the pages of those who work on the code.
docs-links: wasm
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
		cargo doc --quiet --no-deps --workspace --document-private-items

# For embedding programs, whose builds have none of the features: no command line, and a store and a client of MCP servers without
# PostgreSQL and Docker. The second package keeps the features of other crates as they are, or the engine would be checked once more.
# The crate that runs scripts alone has another engine, without plugins, in a directory that can be deleted.
lint-library: wasm
	cargo clippy --package airlock --package airlock-test-features --lib --no-default-features -- -D warnings
	cargo clippy --package airlock-runner --lib --no-default-features --target-dir $(TARGET_DIR)/runner -- -D warnings

lint: lint-gateway lint-library docs-links ## checks format and lints; a warning is an error
	@set -e; for manifest in $(WORKSPACES); do \
		echo "lint: $$manifest"; \
		cargo fmt --all --check --manifest-path $$manifest; \
		cargo clippy --workspace --all-targets --manifest-path $$manifest --target-dir $(OTHERS) -- -D warnings; \
	done

plugins: wasm ## builds each first-party component to target/plugins/<name>.wasm
ifeq ($(PROGRAM),)
	@echo "plugins: building airlock, and with it $(PLUGINS)"
	@$(BUILD)
endif
	@mkdir -p $(TARGET_DIR)/plugins
	@# One target directory for all of them, and the toolchain that `make wasm` may have made.
	@set -e; toolchain=$$(plugins/wasm-toolchain.sh --check); for plugin in $(PLUGINS); do \
		env CARGO_TARGET_DIR="$(abspath $(TARGET_DIR))/guests" $(PLUGIN_PROFILE) $${toolchain:+RUSTUP_TOOLCHAIN=$${toolchain#+}} \
			$(or $(PROGRAM),$(TARGET_DIR)/debug/airlock) plugin build plugins/$$plugin --output $(TARGET_DIR)/plugins/$$plugin.wasm; \
	done

packages: wasm ## packs the SDKs for JavaScript and Python, and airlock-gateway of a release for both, to target/packages
	@mkdir -p $(TARGET_DIR)/packages
	@cd guest-sdk/javascript && npm pack --loglevel=error --pack-destination $(abspath $(TARGET_DIR))/packages
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) python3 -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--wheel-dir $(TARGET_DIR)/packages ./guest-sdk/python
	@echo "packages: building the wheel (a release, long the first time)"
	@tests/python/wheel $(TARGET_DIR)/packages
	@echo "packages: building the npm package"
	@tests/node/pack $(TARGET_DIR)/packages
	@cd $(TARGET_DIR)/packages && sha256sum airlock[-_]*

dist: plugins ## makes the archive, the Debian package, the image and the bill of materials of a release in target/dist; TARGET=x86_64-unknown-linux-musl for a static program; PROGRAM=path for a program that is built; SIGN_KEY=path and MINISIGN_KEY=path sign
ifeq ($(PROGRAM),)
	@echo "dist: building a release$(if $(TARGET), for $(TARGET)) (long the first time)"
	@$(if $(TARGET),deploy/target $(TARGET))
	@cargo build --quiet --release --package airlock --bin airlock $(if $(TARGET),--target $(TARGET))
endif
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) deploy/dist --program $(RELEASE) --plugins $(TARGET_DIR)/plugins --output $(TARGET_DIR)/dist

test-dist: dist ## installs each package on a clean root, and runs the first minutes of docs/install.md; needs root, and Docker for the image
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) tests/dist/run --program $(RELEASE) \
		--plugins $(TARGET_DIR)/plugins --packages $(TARGET_DIR)/dist

test-libraries: packages ## installs the wheel and the npm package on clean roots, by pip, uv and npm; needs root
	@tests/dist/libraries.py $(TARGET_DIR)/packages

test-packages: ## tests the SDKs for JavaScript and Python and the modules of the admin page, without a gateway or network
	@node --test host/crates/admin-page/tests/*.test.mjs
	@cd guest-sdk/javascript && node --import ./register.js --test test/*.test.js
	@cd guest-sdk/python && python3 -m unittest discover --top-level-directory . --start-directory tests
	@tests/examples

test-browser: ## tests the admin page of the debug build in Chromium; without one, it says so
	@tests/browser/run

screenshots: ## makes pictures of each admin page, in both colour schemes and two widths, to target/screenshots
	@tests/browser/run --screenshots

wasm: ## makes sure that Rust can compile to WebAssembly
	@echo "wasm: looking for the WebAssembly targets"
	@plugins/wasm-toolchain.sh >/dev/null

peers: ## installs the real MCP servers, the OpenAI client and the compilers of plugins into .cache/peers
	@tests/peers/install
