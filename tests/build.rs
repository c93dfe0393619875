//! Compiles the guests that tests run, and writes a constant with the path of each.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use airlock_guest_build::Guests;

/// First-party plugins, in `plugins`.
const PLUGINS: [&str; 5] = ["text", "files", "fetch", "notes", "unruly"];
/// Executors of scripts, in `plugins`.
const EXECUTORS: [&str; 2] = ["starlark", "python"];
/// Guests that misbehave or do not implement the contract, in `tests/guests`.
const GUESTS: [&str; 4] = ["escape", "hostile", "noop", "plain"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let root = Path::new("..")
        .canonicalize()
        .map_err(|error| format!("cannot find the repository: {error}"))?;
    let guests = Guests::of_build_script(&root)?;
    let mut components =
        PLUGINS.map(|name| guests.plugin(name)).into_iter().collect::<Result<Vec<_>, _>>()?;
    for name in GUESTS {
        components.push(guests.component(&root.join("tests/guests").join(name))?);
    }
    let noop = root.join("tests/guests/noop");
    components.push(guests.component_with_wasi(&noop, "noop_with_wasi")?);
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
