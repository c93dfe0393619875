//! Compiles the guests of this repository, for build scripts: cargo makes a component of a plugin
//! and a core module of the script executor, which then becomes a component as well.
//!
//! No guest runs here. The host asks plugins for their tools and prepares the executor, with the
//! engine that it has anyway; a build script with an engine of its own would compile Cranelift a
//! second time.

mod cargo;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use wit_component::ComponentEncoder;

use self::cargo::Crate;

/// Names a directory with finished components, `<name>.wasm` each, which then are taken instead of
/// compiled.
const FINISHED: &str = "AIRLOCK_GUESTS";
/// Names the profile that guests are compiled with, instead of the one that goes with the profile
/// of the build script.
const PROFILE: &str = "AIRLOCK_GUEST_PROFILE";

/// Inputs of every guest beside its own directory.
const SHARED: [&str; 5] = ["wit", "guest-sdk", "Cargo.toml", "Cargo.lock", ".cargo/config.toml"];

/// The guests of a repository, as one build script wants them compiled.
pub struct Guests {
    root: PathBuf,
    /// Target directory of the guests. It lies in the one of the build script, and all build
    /// scripts share it.
    target: PathBuf,
    profile: String,
    /// Where the build script leaves what it makes.
    out: PathBuf,
    finished: Option<PathBuf>,
}

impl Guests {
    /// Looks at the environment that cargo gives to a build script, and tells cargo what the
    /// outcome depends on.
    ///
    /// `root` is the repository. Guests are compiled with the profile `release` in a release build
    /// and with `guest`, which skips link-time optimisation, in any other. Fails outside a build
    /// script.
    pub fn of_build_script(root: &Path) -> Result<Self, String> {
        for variable in [FINISHED, PROFILE, "AIRLOCK_WASM_TOOLCHAIN", "RUSTUP_TOOLCHAIN"] {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let profile = set(PROFILE).unwrap_or_else(|| {
            let is_release = set("PROFILE").is_some_and(|profile| profile == "release");
            if is_release { "release" } else { "guest" }.to_owned()
        });
        let finished = set(FINISHED).map(|directory| root.join(directory));
        if let Some(directory) = &finished {
            println!("cargo::rerun-if-changed={}", directory.display());
        }
        let out =
            PathBuf::from(set("OUT_DIR").ok_or("OUT_DIR is not set: this is for build scripts")?);
        Ok(Self {
            root: root.to_owned(),
            target: target(&out)?.join("guests"),
            profile,
            out,
            finished,
        })
    }

    /// Compiles the plugin `plugins/<name>` to `OUT_DIR`/<name>.wasm, and returns that path.
    pub fn plugin(&self, name: &str) -> Result<PathBuf, String> {
        self.component(&self.root.join("plugins").join(name))
    }

    /// Compiles a plugin, by the directory of its crate, to `OUT_DIR`/<directory's name>.wasm, and
    /// returns that path. The crate's name is `airlock-` and the directory's.
    pub fn component(&self, directory: &Path) -> Result<PathBuf, String> {
        self.place(directory, |guest| self.compile(guest, "wasm32-wasip2", &[]))
    }

    /// Compiles the script executor `plugins/<name>`, and makes a component of it that is still to
    /// be prepared.
    pub fn executor(&self, name: &str) -> Result<PathBuf, String> {
        self.place(&self.root.join("plugins").join(name), |guest| {
            // `getrandom` compiles for a target without an entropy source only if it is told where
            // to turn to.
            let flags = ["--cfg", "getrandom_backend=\"custom\""];
            let module = self.compile(guest, "wasm32-unknown-unknown", &flags)?;
            let component = ComponentEncoder::default()
                .module(&module)
                .and_then(|encoder| encoder.validate(true).encode());
            component.map_err(|error| {
                format!("{} exports no world of the contract: {error:#}", guest.directory.display())
            })
        })
    }

    fn compile(&self, guest: &Crate<'_>, triple: &str, flags: &[&str]) -> Result<Vec<u8>, String> {
        println!("cargo::rerun-if-changed={}", guest.directory.display());
        for shared in SHARED {
            println!("cargo::rerun-if-changed={}", self.root.join(shared).display());
        }
        cargo::compile(&self.root, guest, triple, &self.profile, flags, &self.target)
    }

    fn place(
        &self,
        directory: &Path,
        compile: impl FnOnce(&Crate<'_>) -> Result<Vec<u8>, String>,
    ) -> Result<PathBuf, String> {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let file = format!("{name}.wasm");
        let bytes = match &self.finished {
            Some(finished) => read(&finished.join(&file))
                .map_err(|error| format!("{error}; {FINISHED} names a directory with {file}")),
            None => compile(&Crate { package: format!("airlock-{name}"), directory }),
        }?;
        let placed = self.out.join(file);
        fs::write(&placed, bytes)
            .map_err(|error| format!("cannot write {}: {error}", placed.display()))?;
        Ok(placed)
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// The target directory of the cargo that runs a build script: `OUT_DIR` is
/// `<target>/[<triple>/]<profile>/build/…/out`.
fn target(out: &Path) -> Result<&Path, String> {
    let lost = || format!("{} is not where cargo puts the output of build scripts", out.display());
    let build = out.ancestors().find(|directory| directory.ends_with("build")).ok_or_else(lost)?;
    // build → profile → target, with the triple between the last two where one was asked for.
    let above = build.ancestors().nth(2).ok_or_else(lost)?;
    let is_triple = above
        .file_name()
        .is_some_and(|name| env::var_os("TARGET").is_some_and(|triple| name == triple));
    if is_triple { above.parent().ok_or_else(lost) } else { Ok(above) }
}
