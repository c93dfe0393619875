//! Which guests there are: crates that say so in their manifest, and `.wat` files.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::cargo;
use crate::options::Options;

/// Something to build.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// File name of the finished component, without `.wasm`.
    pub(crate) name: String,
    /// What becomes of it.
    pub(crate) kind: Kind,
    /// Its `Cargo.toml`, or the `.wat` file.
    pub(crate) path: PathBuf,
    /// The crate's name; empty for text.
    pub(crate) package: String,
    /// The name that its library is compiled under; empty for text.
    pub(crate) library: String,
}

/// What a guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Lends tools; asked for them once, unless `describe` is off.
    Plugin { describe: bool },
    /// Runs scripts.
    Executor,
    /// A component as text.
    Text,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plugin { .. } => "plugin",
            Self::Executor => "executor",
            Self::Text => "text",
        })
    }
}

/// The guests that were asked for, by name or by path; all of the repository if none were.
pub(crate) fn find(options: &Options) -> Result<Vec<Guest>> {
    if options.wanted.iter().all(|wanted| is_path(wanted)) && !options.wanted.is_empty() {
        return options.wanted.iter().map(|wanted| at(Path::new(wanted))).collect();
    }
    let known = all(&options.root)?;
    if options.wanted.is_empty() {
        return Ok(known);
    }
    options.wanted.iter().map(|wanted| if is_path(wanted) { at(Path::new(wanted)) } else { named(wanted, &known) }).collect()
}

fn is_path(wanted: &str) -> bool {
    Path::new(wanted).extension().is_some_and(|it| it == "wat") || Path::new(wanted).join("Cargo.toml").is_file()
}

fn named(wanted: &str, known: &[Guest]) -> Result<Guest> {
    known.iter().find(|guest| guest.name == wanted || guest.package == wanted).cloned().with_context(|| {
        let names: Vec<_> = known.iter().map(|guest| guest.name.as_str()).collect();
        format!("no guest `{wanted}`: there are {}", names.join(", "))
    })
}

/// The guest at a path.
fn at(path: &Path) -> Result<Guest> {
    let path = path.canonicalize().with_context(|| format!("cannot open {}", path.display()))?;
    if path.is_file() {
        return Ok(text(path));
    }
    let manifest = path.join("Cargo.toml");
    crates(&manifest)?
        .into_iter()
        .find(|guest| guest.path == manifest)
        .with_context(|| format!("{} has no [package.metadata.airlock]: add `guest = \"plugin\"`", manifest.display()))
}

/// Every guest of the repository: members of the workspace, then what else lies in `plugins` and `tests/guests`.
fn all(root: &Path) -> Result<Vec<Guest>> {
    let mut guests = crates(&root.join("Cargo.toml"))?;
    let mut more = Vec::new();
    for entry in ["plugins", "tests/guests"].iter().filter_map(|directory| fs::read_dir(root.join(directory)).ok()).flatten() {
        more.push(entry?.path());
    }
    more.sort();
    for path in more {
        let manifest = path.join("Cargo.toml");
        if path.extension().is_some_and(|it| it == "wat") {
            guests.push(text(path));
        } else if manifest.is_file() && guests.iter().all(|guest| guest.path != manifest) {
            guests.extend(crates(&manifest)?.into_iter().filter(|guest| guest.path == manifest));
        }
    }
    Ok(guests)
}

fn text(path: PathBuf) -> Guest {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Guest { name, kind: Kind::Text, path, package: String::new(), library: String::new() }
}

/// The guests in the workspace of a manifest.
fn crates(manifest: &Path) -> Result<Vec<Guest>> {
    let metadata = cargo::metadata(manifest)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().filter_map(|package| from_package(package).transpose()).collect()
}

fn from_package(package: &Value) -> Result<Option<Guest>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = &package["metadata"]["airlock"];
    let path = PathBuf::from(text(&package["manifest_path"]));
    let kind = match ours["guest"].as_str() {
        Some("plugin") => Kind::Plugin { describe: ours["describe"].as_bool().unwrap_or(true) },
        Some("executor") => Kind::Executor,
        None if ours.is_null() => return Ok(None),
        _ => bail!("{}: `guest` in [package.metadata.airlock] is \"plugin\" or \"executor\"", path.display()),
    };
    let package_name = text(&package["name"]);
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_cdylib = |target: &&Value| target["crate_types"].as_array().is_some_and(|types| types.iter().any(|it| it == "cdylib"));
    let library = targets
        .iter()
        .find(is_cdylib)
        .with_context(|| format!("{}: a guest is a library with `crate-type = [\"cdylib\"]` under [lib]", path.display()))?;
    Ok(Some(Guest {
        name: package_name.strip_prefix("airlock-").unwrap_or(&package_name).to_owned(),
        kind,
        path,
        library: text(&library["name"]),
        package: package_name,
    }))
}
