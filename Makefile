# What a person runs. `make help` lists it.

# Where build scripts put guests as well, so that each is compiled once.
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILD_TOOL := --manifest-path plugins/build/Cargo.toml --target-dir $(TARGET)/airlock-build
PLUGINS := text files fetch notes unruly starlark
STARLARK := --manifest-path plugins/starlark/Cargo.toml --target-dir $(TARGET)/starlark
EXAMPLE := --manifest-path plugins/examples/rust/Cargo.toml --target-dir $(TARGET)/example

.PHONY: help demo test bench hostile lint plugins wasm peers

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: plugins ## shows the gateway at work: plugins, an MCP server, scripts and approvals, with a scripted model
	@echo "demo: building airlock (some minutes the first time)"
	@# With the features that the tests build with, so that the engine is compiled once for both.
	@cargo build --workspace --bin airlock
	@$(TARGET)/debug/airlock demo

test: ## builds everything and runs every test, the real MCP servers included
	@tests/run

bench: wasm ## prints what the sandbox costs, as ratios to native code
	@echo "bench: building"
	@cargo build --manifest-path tests/benches/native_script/Cargo.toml --target-dir $(TARGET)/starlark
	@NATIVE_SCRIPT=$(abspath $(TARGET))/starlark/debug/native-script cargo bench --profile dev --workspace --bench overhead

hostile: wasm ## runs every hostile guest beside a good neighbour; HOSTILE=--json for one document
	@echo "hostile: building" >&2
	@cargo bench --quiet --profile dev --workspace --bench hostile -- $(HOSTILE)

lint: wasm ## checks format and lints; a warning is an error
	cargo fmt --all --check
	cargo fmt --check --manifest-path plugins/build/Cargo.toml
	cargo fmt --check --manifest-path plugins/starlark/Cargo.toml
	cargo fmt --check --manifest-path plugins/examples/rust/Cargo.toml
	cargo fmt --check --manifest-path tests/benches/native_script/Cargo.toml
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy $(BUILD_TOOL) --all-targets -- -D warnings
	cargo clippy $(STARLARK) --all-targets -- -D warnings
	cargo clippy $(EXAMPLE) --all-targets -- -D warnings

plugins: wasm ## builds each first-party component to target/plugins/<name>.wasm
	@echo "plugins: building $(PLUGINS)"
	@cargo run $(BUILD_TOOL) -- --target $(TARGET) --out $(TARGET)/plugins $(PLUGINS)
	@ls -1s --block-size=KiB $(PLUGINS:%=$(TARGET)/plugins/%.wasm)

wasm: ## makes sure that Rust can compile to WebAssembly
	@echo "wasm: looking for the WebAssembly targets"
	@plugins/wasm-toolchain.sh >/dev/null

peers: ## installs the real MCP servers, the OpenAI client and the compilers of plugins into .cache/peers
	@tests/peers/install
