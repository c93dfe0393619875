//! Compiles the guests of this repository, for build scripts. Cargo compiles a plugin that needs
//! WASI to a component. It compiles the script executor, and a plugin that does not need WASI, to a
//! core module, which is then converted to a component.
//!
//! No guest runs here. The host asks plugins for their tools and prepares the executor, with its
//! own engine; an engine in a build script would compile Cranelift a second time.

mod cargo;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use wit_component::ComponentEncoder;

use self::cargo::Crate;

/// Variable that names a directory with finished components, `<name>.wasm` each, which are used
/// instead of compiling them.
const FINISHED: &str = "AIRLOCK_GUESTS";
/// Variable that names the profile of the guests. It overrides the default, which depends on the
/// profile of the build script.
const PROFILE: &str = "AIRLOCK_GUEST_PROFILE";

/// Inputs of every guest in addition to its own directory.
const SHARED: [&str; 5] = ["wit", "guest-sdk", "Cargo.toml", "Cargo.lock", ".cargo/config.toml"];

/// The crate that all script executors share.
const EXECUTOR: &str = "plugins/executor";

/// Flags of the compiler for guests without WASI. `getrandom` compiles for a target without an
/// entropy source only if a backend is named; the executor contains it. The flags are the same for
/// all of these guests: cargo compiles shared dependencies again whenever they change.
const WITHOUT_WASI: [&str; 2] = ["--cfg", "getrandom_backend=\"custom\""];

/// The guests of a repository, as one build script compiles them.
pub struct Guests {
    root: PathBuf,
    /// Target directory of the guests. It lies in that of the build script, and all build scripts
    /// share it.
    target: PathBuf,
    profile: String,
    /// Output directory of the build script.
    out: PathBuf,
    finished: Option<PathBuf>,
}

/// Runs a build script, and tells cargo why it fails.
///
/// `above` is the path from the package of the build script to the repository. Guests are compiled with the profile
/// `release` in a release build and with `guest`, which skips link-time optimisation, in any other. Fails outside a build
/// script.
pub fn build(above: &str, compile: impl FnOnce(&Guests) -> Result<(), String>) -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new(above)
        .canonicalize()
        .map_err(|error| format!("cannot find the repository: {error}"));
    match root.and_then(Guests::new).and_then(|guests| compile(&guests)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

impl Guests {
    /// Reads the environment that cargo sets for a build script, and tells cargo which inputs to
    /// watch. `root` is the repository.
    fn new(root: PathBuf) -> Result<Self, String> {
        for variable in [FINISHED, PROFILE, "AIRLOCK_WASM_TOOLCHAIN", "RUSTUP_TOOLCHAIN"] {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let profile = variable(PROFILE).unwrap_or_else(|| {
            let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
            if is_release { "release" } else { "guest" }.to_owned()
        });
        let finished = variable(FINISHED).map(|directory| root.join(directory));
        if let Some(directory) = &finished {
            println!("cargo::rerun-if-changed={}", directory.display());
        }
        let out = PathBuf::from(
            variable("OUT_DIR").ok_or("OUT_DIR is not set: this is for build scripts")?,
        );
        Ok(Self { root, target: target(&out)?.join("guests"), profile, out, finished })
    }

    /// The repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Compiles the plugin `plugins/<name>` to `OUT_DIR/<name>.wasm`, and returns that path.
    pub fn plugin(&self, name: &str) -> Result<PathBuf, String> {
        self.component(&self.root.join("plugins").join(name))
    }

    /// Compiles a plugin, by the directory of its crate, to `OUT_DIR`/<directory's name>.wasm, and
    /// returns that path. The crate's name is `airlock-` and the directory's. A crate without a
    /// plugin.toml is compiled with WASI, because nothing says that it does without.
    pub fn component(&self, directory: &Path) -> Result<PathBuf, String> {
        self.place(directory, &name(directory), |guest| {
            let manifest = airlock_manifest::read(directory).map_err(|bad| bad.to_string())?;
            if manifest.is_none_or(|manifest| manifest.needs_wasi()) {
                self.compile(guest, "wasm32-wasip2", &[])
            } else {
                self.compile_module(guest)
            }
        })
    }

    /// Compiles a plugin with WASI, whatever it requests, to `OUT_DIR/<name>.wasm`, and returns that
    /// path.
    pub fn component_with_wasi(&self, directory: &Path, name: &str) -> Result<PathBuf, String> {
        self.place(directory, name, |guest| self.compile(guest, "wasm32-wasip2", &[]))
    }

    /// Compiles a guard, which imports nothing, to `OUT_DIR`/<directory's name>.wasm, and returns that path.
    pub fn guard(&self, directory: &Path) -> Result<PathBuf, String> {
        self.place(directory, &name(directory), |guest| self.compile_module(guest))
    }

    /// Compiles the script executor `plugins/<name>` to a component, which still has to be
    /// prepared.
    pub fn executor(&self, name: &str) -> Result<PathBuf, String> {
        self.place(&self.root.join("plugins").join(name), name, |guest| {
            println!("cargo::rerun-if-changed={}", self.root.join(EXECUTOR).display());
            self.compile_module(guest)
        })
    }

    /// Compiles a guest without WASI, and converts the module to a component.
    fn compile_module(&self, guest: &Crate<'_>) -> Result<Vec<u8>, String> {
        let module = self.compile(guest, "wasm32-unknown-unknown", &WITHOUT_WASI)?;
        let component = ComponentEncoder::default()
            .module(&module)
            .and_then(|encoder| encoder.validate(true).encode());
        component.map_err(|error| {
            format!("{} exports no world of the contract: {error:#}", guest.directory.display())
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
        stem: &str,
        compile: impl FnOnce(&Crate<'_>) -> Result<Vec<u8>, String>,
    ) -> Result<PathBuf, String> {
        let file = format!("{stem}.wasm");
        let bytes = match &self.finished {
            Some(finished) => read(&finished.join(&file))
                .map_err(|error| format!("{error}; {FINISHED} names a directory with {file}")),
            None => compile(&Crate { package: format!("airlock-{}", name(directory)), directory }),
        }?;
        let placed = self.out.join(file);
        fs::write(&placed, bytes)
            .map_err(|error| format!("cannot write {}: {error}", placed.display()))?;
        Ok(placed)
    }
}

/// Returns a variable of the environment; `None` if it is not set or empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn name(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Returns the target directory of the cargo that runs a build script: `OUT_DIR` is
/// `<target>/[<triple>/]<profile>/build/…/out`.
fn target(out: &Path) -> Result<&Path, String> {
    let build = out.ancestors().find(|directory| directory.ends_with("build"));
    // build → profile → target, with the triple between the last two if a target was given.
    build.and_then(|build| build.ancestors().nth(2)).and_then(without_triple).ok_or_else(|| {
        format!("{} is not where cargo puts the output of build scripts", out.display())
    })
}

/// Returns the directory above one that is named like the target triple, and any other as it is.
fn without_triple(directory: &Path) -> Option<&Path> {
    let is_triple = directory
        .file_name()
        .is_some_and(|name| env::var_os("TARGET").is_some_and(|triple| name == triple));
    if is_triple { directory.parent() } else { Some(directory) }
}
