//! Writes `OUT_DIR`/vendored.rs: the files that `airlock plugin new` adds to a template, because they
//! are in no registry. The constant `SDK` is the Rust SDK with the contract, and `WIT` the contract
//! alone, for the packages of other languages. Both are pairs of file name and text.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use toml::{Table, Value};

/// The members of the SDK's workspace, each with a manifest and `src`.
const MEMBERS: [&str; 3] = ["guest-sdk", "guest-sdk/macros", "guest-sdk/manifest"];
/// Packages of the contract that plugins and guards are built with.
const CONTRACT: [&str; 4] = ["wit/guard", "wit/host", "wit/plugin", "wit/types"];
/// The page about the contract.
const PAGE: &str = "wit/README.md";
/// Tables of a manifest that name dependencies.
const DEPENDENCIES: [&str; 2] = ["dependencies", "dev-dependencies"];
const HEAD: &str = "# Airlock's SDK for plugins in Rust, as the `airlock` that wrote this plugin carries it. Not to be edited.\n";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../../..").canonicalize();
    let root = root.map_err(|error| format!("cannot find the repository: {error}"));
    match root.and_then(|root| write(&root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the constants. `root` is the repository.
fn write(root: &Path) -> Result<(), String> {
    let manifests: Vec<_> = MEMBERS.iter().map(|member| format!("{member}/Cargo.toml")).collect();
    let sources = MEMBERS.iter().map(|member| format!("{member}/src"));
    for source in manifests
        .iter()
        .cloned()
        .chain(sources.clone())
        .chain(["wit".to_owned(), "Cargo.toml".to_owned()])
    {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let mut sdk = manifests.clone();
    for source in sources {
        sdk.extend(files(root, &source)?);
    }
    let workspace = workspace(root, &manifests)?;
    let entry = |place: &str, file: &String| {
        format!(
            "    ({:?}, include_str!({:?})),\n",
            place.to_owned() + file,
            root.join(file).to_string_lossy()
        )
    };
    let mut contract = vec![PAGE.to_owned()];
    for directory in CONTRACT {
        contract.extend(files(root, directory)?);
    }
    let sdk = sdk.iter().map(|file| entry("sdk/", file));
    // In the repository, this directory is a link to the contract.
    let linked = contract.iter().map(|file| entry("sdk/guest-sdk/", file));
    let sdk: String = sdk.chain(linked).collect();
    let wit: String = contract.iter().map(|file| entry("", file)).collect();
    let text = format!(
        "/// The SDK, a workspace of its own.\npub(super) const SDK: &[(&str, &str)] = &[\n    (\"sdk/Cargo.toml\", {workspace:?}),\n{sdk}];\n\n\
         /// The contract.\npub(super) const WIT: &[(&str, &str)] = &[\n{wit}];\n"
    );
    let out =
        PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is a build script")?);
    fs::write(out.join("vendored.rs"), text)
        .map_err(|error| format!("cannot write {}/vendored.rs: {error}", out.display()))
}

/// Lists the sources and Markdown pages below a directory, sorted, by their paths in the
/// repository.
fn files(root: &Path, directory: &str) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot list {directory}: {error}");
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(directory)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().map_err(failed)?.is_dir() {
            found.extend(files(root, &name)?);
        } else if [".rs", ".wit", ".md"].iter().any(|extension| name.ends_with(extension)) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the manifest of the SDK's workspace: the parts of this repository's manifest that the
/// members refer to.
fn workspace(root: &Path, manifests: &[String]) -> Result<String, String> {
    let mut wanted = BTreeSet::new();
    for file in manifests {
        let manifest = parse(root, file)?;
        let dependencies =
            DEPENDENCIES.iter().filter_map(|table| manifest.get(*table)?.as_table()).flatten();
        let shared = |value: &Value| value.get("workspace").and_then(Value::as_bool) == Some(true);
        wanted
            .extend(dependencies.filter(|(_, value)| shared(value)).map(|(name, _)| name.clone()));
    }
    let mut ours = parse(root, "Cargo.toml")?;
    let workspace = ours
        .get_mut("workspace")
        .and_then(Value::as_table_mut)
        .ok_or("Cargo.toml has no [workspace]")?;
    workspace.retain(|key, _| ["dependencies", "lints", "package", "resolver"].contains(&key));
    workspace.insert("members".to_owned(), MEMBERS.map(Value::from).to_vec().into());
    if let Some(dependencies) = workspace.get_mut("dependencies").and_then(Value::as_table_mut) {
        dependencies.retain(|name, _| wanted.contains(name));
    }
    ours.retain(|key, _| key == "workspace");
    Ok(format!("{HEAD}{ours}"))
}

fn parse(root: &Path, file: &str) -> Result<Table, String> {
    let text = fs::read_to_string(root.join(file))
        .map_err(|error| format!("cannot read {file}: {error}"))?;
    text.parse().map_err(|error| format!("{file}: {error}"))
}
