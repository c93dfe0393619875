//! Compiles the guests that tests run, and writes a constant with the path of each.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use airlock_guest_build::Guests;

/// First-party plugins, in `plugins`.
const PLUGINS: [&str; 5] = ["text", "files", "fetch", "notes", "unruly"];
/// Guards that are shipped, in `plugins`.
const GUARDS: [&str; 4] = ["marks", "personal", "policy", "secrets"];
/// Executors of scripts, in `plugins`.
const EXECUTORS: [&str; 2] = ["starlark", "python"];
/// Guests that misbehave or do not implement the contract, in `tests/guests`.
const GUESTS: [&str; 4] = ["escape", "hostile", "noop", "plain"];

fn main() -> ExitCode {
    airlock_guest_build::build("..", compile)
}

fn compile(guests: &Guests) -> Result<(), String> {
    let own = guests.root().join("tests/guests");
    let mut components =
        PLUGINS.map(|name| guests.plugin(name)).into_iter().collect::<Result<Vec<_>, _>>()?;
    for name in GUESTS {
        components.push(guests.component(&own.join(name))?);
    }
    components.push(guests.component_with_wasi(&own.join("noop"), "noop_with_wasi")?);
    components.push(guests.guard(&own.join("warden"))?);
    // What two of the guards share.
    println!("cargo::rerun-if-changed={}", guests.root().join("plugins/digits").display());
    for name in GUARDS {
        components.push(guests.guard(&guests.root().join("plugins").join(name))?);
    }
    for name in EXECUTORS {
        components.push(guests.executor(name)?);
    }
    let constants: String = components.iter().map(|component| constant(component)).collect();
    let out =
        PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is a build script")?);
    fs::write(out.join("guests.rs"), constants)
        .map_err(|error| format!("cannot write the list of guests: {error}"))
}

/// Returns a constant: `pub const TEXT: &str = "…/text.wasm";`
fn constant(component: &Path) -> String {
    let stem = component.file_stem().unwrap_or_default().to_string_lossy();
    format!(
        "/// The component `{stem}`.\npub const {}: &str = {:?};\n",
        stem.to_uppercase(),
        component.to_string_lossy()
    )
}
