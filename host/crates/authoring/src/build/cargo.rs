//! Rust: cargo compiles the component. A plugin that needs nothing of WASI is compiled for the
//! bare target: linking the imports of WASI, which the standard library brings along, takes most of
//! the time of a call that does nothing.

mod paths;

use std::{io, path::PathBuf, process::Stdio};

use serde_json::Value;
use tokio::{
    fs,
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::Child,
};
use wit_component::ComponentEncoder;

use self::paths::FlagPassing;
use super::{
    error::BuildError,
    process::{command, output_of},
    profile::BuildProfile,
    project::Project,
    reporter::Reporter,
};

/// Target of a plugin that uses WASI. Its linker writes a component.
const WITH_WASI: &str = "wasm32-wasip2";
/// Target of a plugin that does not. Its linker writes a module.
const WITHOUT_WASI: &str = "wasm32-unknown-unknown";
/// Part of the message with which crates refuse to compile without a source of randomness.
const REFUSES_TARGET: &str = "unknown-unknown";
/// Message of the standard library's panic for a time where there is no clock.
const NO_CLOCK: &[u8] = b"time not implemented on this platform";

/// Cargo's profile for builds while a plugin is written.
const QUICK: &str = "airlock-dev";
/// Its settings: those of `release` without what takes time. Without any optimisation, the code is so
/// large that this machine's compiler needs longer than cargo saves.
const QUICK_SETTINGS: [&str; 7] = [
    "inherits=\"release\"",
    "lto=\"off\"",
    "opt-level=1",
    "codegen-units=64",
    "incremental=true",
    "debug=false",
    "strip=\"debuginfo\"",
];

/// Messages of one run of cargo.
#[derive(Default)]
struct CargoMessages {
    /// The file with the code of the plugin.
    file: Option<PathBuf>,
    /// True if a crate refused to compile for a target without WASI.
    needs_wasi: bool,
}

/// Compiles the crate to a component.
pub(super) async fn compile(
    project: &Project,
    profile: BuildProfile,
    reporter: &mut dyn Reporter,
) -> Result<Vec<u8>, BuildError> {
    let target = if project.source.needs_wasi() { WITH_WASI } else { WITHOUT_WASI };
    let libraries = find_target(project, target).await?;
    // The libraries of a target are in `lib/rustlib/TARGET/lib` of the compiler's directory.
    let renaming = paths::renaming(&project.directory, libraries.ancestors().nth(4));
    let messages = cargo(project, target, profile, &renaming, reporter).await?;
    let Some(file) = messages.file else {
        return Err(BuildError::Failed("cargo wrote no WebAssembly for this crate".to_owned()));
    };
    let unread = BuildError::io(format!("{} cannot be read", file.display()));
    let bytes = fs::read(&file).await.map_err(unread)?;
    if project.source.needs_wasi() {
        return Ok(bytes);
    }
    if bytes.windows(NO_CLOCK.len()).any(|found| found == NO_CLOCK) {
        reporter.output("airlock", CLOCK_WARNING);
    }
    let encoded = tokio::task::spawn_blocking(move || component(&bytes)).await;
    encoded.map_err(|panic| BuildError::Encode(panic.into()))?
}

const CLOCK_WARNING: &str = "warning: the plugin's code contains `Instant::now` or `SystemTime::now`, which panic \
     without WASI; if a tool uses them, write `[request.clocks]` with a `reason` to plugin.toml for \
     the real time, or `[build]` with `wasi = true` for a clock that starts at the same time in every call";

/// Makes a component of a module.
fn component(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let encoder = ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.validate(true).encode());
    encoder.map_err(|error| BuildError::Encode(error.into()))
}

/// Runs cargo, and passes the messages of the compiler on as they come.
async fn cargo(
    project: &Project,
    target: &str,
    profile: BuildProfile,
    renaming: &[String],
    reporter: &mut dyn Reporter,
) -> Result<CargoMessages, BuildError> {
    let format = if reporter.is_colourful() { "json-diagnostic-rendered-ansi" } else { "json" };
    let mut cargo = command("cargo", &project.directory);
    // `rustc` sets the crate type: a library that is an `rlib` as well gets no link-time
    // optimisation.
    cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--target", target]);
    match profile {
        BuildProfile::Release => {
            cargo.arg("--release");
        }
        BuildProfile::Development => {
            cargo.args(["--profile", QUICK]);
            for setting in QUICK_SETTINGS {
                cargo.args(["--config", &format!("profile.{QUICK}.{setting}")]);
            }
        }
    }
    match paths::passing(&project.directory, target, renaming) {
        FlagPassing::Config(setting) => cargo.args(["--config", &setting]),
        FlagPassing::Variable(name, value) => cargo.env(name, value),
    };
    let mut child = cargo
        .args(["--message-format", format])
        .stdout(Stdio::piped())
        .stderr(if reporter.shares_stderr() { Stdio::inherit() } else { Stdio::piped() })
        .spawn()
        .map_err(BuildError::io("cargo cannot be started"))?;
    let read = read(&mut child, project, reporter).await;
    let (messages, own) = read.map_err(BuildError::io("cargo's messages cannot be read"))?;
    let status = child.wait().await.map_err(BuildError::io("cargo cannot be waited for"))?;
    if status.success() {
        return Ok(messages);
    }
    reporter.output("cargo", &own);
    let mut reason = format!("cargo could not compile it; {}", reporter.place());
    if messages.needs_wasi {
        reason.push_str(
            ". A crate does not compile without WASI, usually because it needs random numbers: \
             write `[build]` with `wasi = true` to plugin.toml",
        );
    }
    Err(BuildError::Failed(reason))
}

/// Reads both streams of cargo to their ends. Returns the messages and cargo's own output.
async fn read(
    child: &mut Child,
    project: &Project,
    reporter: &mut dyn Reporter,
) -> io::Result<(CargoMessages, String)> {
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let stderr = child.stderr.take();
    let own = async {
        let mut bytes = Vec::new();
        if let Some(mut stderr) = stderr {
            stderr.read_to_end(&mut bytes).await?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let messages = async {
        let mut messages = CargoMessages::default();
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            if let Ok(message) = serde_json::from_str(&line) {
                messages.add(project, &message, reporter);
            }
        }
        Ok(messages)
    };
    tokio::try_join!(messages, own)
}

impl CargoMessages {
    fn add(&mut self, project: &Project, message: &Value, reporter: &mut dyn Reporter) {
        let diagnostic = &message["message"];
        if let Some(rendered) = diagnostic["rendered"].as_str() {
            reporter.output("cargo", rendered);
            let text = diagnostic["message"].as_str().unwrap_or_default();
            self.needs_wasi |= !project.source.needs_wasi()
                && diagnostic["level"] == "error"
                && text.contains(REFUSES_TARGET);
        }
        let manifest = message["manifest_path"].as_str();
        if manifest.is_some_and(|manifest| project.directory.join("Cargo.toml") == *manifest) {
            let files = message["filenames"].as_array().into_iter().flatten();
            let mut files = files.filter_map(|file| Some(PathBuf::from(file.as_str()?)));
            let code =
                files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"));
            self.file = code.or(self.file.take());
        }
    }
}

/// Checks that a Rust compiler is installed, and that it compiles to WebAssembly. Returns the
/// directory of the target's libraries.
async fn find_target(project: &Project, target: &str) -> Result<PathBuf, BuildError> {
    if output_of(command("rustc", &project.directory).arg("--version")).await.is_none()
        || output_of(command("cargo", &project.directory).arg("--version")).await.is_none()
    {
        return Err(BuildError::Compiler(
            "Rust is not installed; see https://rustup.rs".to_owned(),
        ));
    }
    let mut rustc = command("rustc", &project.directory);
    let libraries = output_of(rustc.args(["--print", "target-libdir", "--target", target])).await;
    libraries.map(PathBuf::from).filter(|libraries| libraries.is_dir()).ok_or_else(|| {
        BuildError::Compiler(format!(
            "this Rust cannot compile to {target}; run `rustup target add {target}`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::build::reporter::CollectedOutput;

    fn project(manifest: &str) -> (tempfile::TempDir, Project) {
        let directory = tempfile::tempdir().expect("a directory");
        let head = "schema = 'airlock.plugin/1'\nid = 'a'\nversion = '1.0.0'\ncontract = '0.1'\n";
        fs::write(directory.path().join("plugin.toml"), format!("{head}{manifest}"))
            .expect("a file");
        fs::write(directory.path().join("Cargo.toml"), "").expect("a file");
        let project = Project::find(directory.path()).expect("a project");
        (directory, project)
    }

    /// Returns the messages of a run that printed one error.
    fn after_error(manifest: &str, text: &str) -> (CargoMessages, String) {
        let (_directory, project) = project(manifest);
        let mut messages = CargoMessages::default();
        let mut reporter = CollectedOutput::default();
        let rendered = format!("error: {text}\n");
        let message = json!({"message": {"level": "error", "message": text, "rendered": rendered}});
        messages.add(&project, &message, &mut reporter);
        (messages, reporter.0)
    }

    #[test]
    fn a_crate_that_refuses_to_do_without_wasi_is_recognised() {
        let refusal = "The wasm32-unknown-unknown targets are not supported by default; you may \
                       need to enable the \"wasm_js\" configuration flag";
        let (messages, shown) = after_error("", refusal);
        assert!(messages.needs_wasi);
        assert_eq!(shown, format!("error: {refusal}\n"));
        assert!(!after_error("[build]\nwasi = true", refusal).0.needs_wasi);
        assert!(!after_error("", "mismatched types").0.needs_wasi);
    }

    #[test]
    fn the_file_of_the_plugins_own_crate_is_found() {
        let (_directory, project) = project("");
        let mut messages = CargoMessages::default();
        let own = project.directory.join("Cargo.toml");
        for (manifest, file) in
            [(own.to_str().expect("UTF-8"), "/a/plugin.wasm"), ("/sdk/Cargo.toml", "/a/sdk.wasm")]
        {
            let files = ["/a/plugin.d", file];
            let message = json!({"manifest_path": manifest, "filenames": files});
            messages.add(&project, &message, &mut CollectedOutput::default());
        }
        assert_eq!(messages.file, Some(PathBuf::from("/a/plugin.wasm")));
    }

    #[test]
    fn a_module_that_expects_a_browser_is_refused_with_what_to_write() {
        let module = wat::parse_str(
            r#"(module (import "__wbindgen_placeholder__" "__wbindgen_throw" (func)))"#,
        );
        let refused = component(&module.expect("a module")).expect_err("no such interface");
        assert!(refused.to_string().contains("`wasi = true`"), "{refused:#}");
    }
}
