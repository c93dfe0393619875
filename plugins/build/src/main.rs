//! Turns guest sources into finished components.
//!
//! `airlock-build [--target DIR] [--out DIR] [--list] [NAME|DIRECTORY|FILE.wat …]`
//!
//! A guest is a crate whose manifest says which kind it is, or a component written as text:
//!
//! ```toml
//! [package.metadata.airlock]
//! guest = "plugin"     # or "executor"
//! describe = false     # a plugin that is not to be asked for its tools
//! ```
//!
//! - `guest`: which guests there are
//! - `cargo`: source to core module or component
//! - `describe`: asks a plugin for its tools and embeds the answer
//! - `manifest`: a plugin's `plugin.toml`, embedded as well
//! - `snapshot`: runs an executor's `prepare` ahead and keeps what it built
//! - `section`: custom sections of a component
//! - `sandbox`: the limits under which all of that runs

mod cargo;
mod describe;
mod guest;
#[path = "../../../guest-sdk/macros/src/manifest.rs"]
#[allow(dead_code, reason = "the macros of the SDK need more of it")]
mod manifest;
mod options;
mod sandbox;
mod section;
mod snapshot;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use crate::guest::{Guest, Kind};
use crate::options::Options;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("airlock-build: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Some(options) = Options::from_arguments()? else {
        return Ok(());
    };
    let guests = guest::find(&options)?;
    if options.list {
        for guest in &guests {
            println!("{:16} {:10} {}", guest.name, guest.kind, guest.path.display());
        }
        return Ok(());
    }
    fs::create_dir_all(&options.out).with_context(|| format!("cannot make {}", options.out.display()))?;
    guests.iter().try_for_each(|guest| build(guest, &options).with_context(|| format!("guest `{}`", guest.name)))
}

fn build(guest: &Guest, options: &Options) -> Result<()> {
    let step = Step::begin(guest, "compiled");
    let compiled = match guest.kind {
        Kind::Text => wat::parse_file(&guest.path)?,
        Kind::Plugin { .. } | Kind::Executor => cargo::compile(guest, &options.target)?,
    };
    step.end(compiled.len());

    let output = options.out.join(format!("{}.wasm", guest.name));
    let stamp = options.out.join(format!(".{}.stamp", guest.name));
    let manifest = manifest_of(guest)?;
    let stamp = Stamp::of(&compiled, manifest.as_deref(), &stamp)?;
    if stamp.is_current() && output.is_file() {
        return Ok(());
    }
    let finished = match guest.kind {
        Kind::Text | Kind::Plugin { describe: false } => compiled,
        Kind::Plugin { describe: true } => {
            let step = Step::begin(guest, "described");
            let component = describe::embed(&compiled)?;
            step.end(component.len());
            component
        }
        Kind::Executor => {
            let step = Step::begin(guest, "prepared");
            let component = snapshot::prepare(&compiled)?;
            step.end(component.len());
            component
        }
    };
    let finished = match manifest {
        Some(manifest) => section::replace(&finished, manifest::SECTION, manifest.as_bytes())?,
        None => finished,
    };
    write_if_changed(&output, &finished)?;
    stamp.write()
}

/// What a plugin says of itself in `plugin.toml`, if it does.
fn manifest_of(guest: &Guest) -> Result<Option<String>> {
    let (Kind::Plugin { .. }, Some(directory)) = (guest.kind, guest.path.parent()) else { return Ok(None) };
    let manifest = manifest::read(directory).map_err(|problem| anyhow!(problem))?;
    Ok(manifest.map(|manifest| manifest.json))
}

/// One line of progress: what was done, how long it took, how big the outcome is.
struct Step<'a> {
    guest: &'a Guest,
    what: &'static str,
    begun: Instant,
}

impl<'a> Step<'a> {
    fn begin(guest: &'a Guest, what: &'static str) -> Self {
        Self { guest, what, begun: Instant::now() }
    }

    fn end(self, bytes: usize) {
        let seconds = self.begun.elapsed().as_secs_f64();
        eprintln!("{:16} {:10} {seconds:6.1} s {:8} KiB", self.guest.name, self.what, bytes.div_ceil(1024));
    }
}

/// Remembers what an output was made from, because preparing the executor takes seconds and its input seldom changes.
struct Stamp<'a> {
    path: &'a Path,
    text: String,
}

impl<'a> Stamp<'a> {
    /// The compiled guest, its manifest and this program count.
    fn of(compiled: &[u8], manifest: Option<&str>, path: &'a Path) -> Result<Self> {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let program = fs::read(std::env::current_exe()?).context("cannot read this program")?;
        let mut hasher = DefaultHasher::new();
        (compiled, manifest, program).hash(&mut hasher);
        Ok(Self { path, text: format!("{:016x}\n", hasher.finish()) })
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(self.path).is_ok_and(|found| found == self.text)
    }

    fn write(&self) -> Result<()> {
        write_if_changed(self.path, self.text.as_bytes())
    }
}

/// Leaves a file with these bytes alone, so that what depends on it is not built again; else replaces it in one step.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
