//! JavaScript and Python: the tools of the Bytecode Alliance make a component of an interpreter
//! with the program already loaded. They run in the plugin's directory and are installed there.
//!
//! WASI stays enabled where it does no harm: the output of a program then goes to the log, and the
//! program has random numbers, and clocks as far as they are granted.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{fs, process::Command};

use super::{
    process::{asked, command, run, version},
    project::Project,
    step::Step,
};

const MIN_NODE: u32 = 20;
const MIN_PYTHON: (u32, u32) = (3, 10);
const JAVASCRIPT: &str = "node_modules/.bin/componentize-js";
const PYTHON: &str = ".venv/bin/componentize-py";

/// Compiles a JavaScript module and its relative imports to a component.
pub(super) async fn javascript(project: &Project) -> anyhow::Result<Vec<u8>> {
    find_node(project).await?;
    let main = main(project).await?;
    // The compiler does not report the place of a syntax error.
    run(command("node", &project.directory).arg("--check").arg(&main), "node --check").await?;
    if !project.has(JAVASCRIPT) {
        let step = "installing componentize-js into node_modules with npm, once (210 MB)";
        let how = if project.has("package-lock.json") { "ci" } else { "install" };
        let mut npm = command("npm", &project.directory);
        npm.args([
            how,
            "--include=dev",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
        ]);
        install(project, npm, "npm", step, JAVASCRIPT).await?;
    }
    let out = Out::new()?;
    let mut componentize = command(project.directory.join(JAVASCRIPT), &project.directory);
    componentize.arg(main).args(["--wit", wit(project)?, "--world-name", world(project)]);
    // `fetch-event` serves requests, which is no part of the contract. `http` provides `fetch`, and
    // stays for a plugin that asks for network access.
    componentize.args(["--disable", "fetch-event"]);
    if project.manifest.request.http.is_empty() {
        componentize.args(["--disable", "http"]);
    }
    componentize.arg("--out").arg(&out.file);
    out.of(&mut componentize, "componentize-js").await
}

/// Compiles `app.py` and its imports to a component.
pub(super) async fn python(project: &Project) -> anyhow::Result<Vec<u8>> {
    find_python(project).await?;
    if !project.has(PYTHON) {
        let step = "installing componentize-py into .venv with pip, once (70 MB)";
        let mut venv = command("python3", &project.directory);
        run(venv.args(["-m", "venv", ".venv"]), "python3 -m venv").await?;
        let mut pip = command(project.directory.join(".venv/bin/pip"), &project.directory);
        pip.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
            "requirements.txt",
        ]);
        install(project, pip, "pip", step, PYTHON).await?;
    }
    let out = Out::new()?;
    let mut componentize = command(project.directory.join(PYTHON), &project.directory);
    componentize.args([
        "--quiet",
        "--wit-path",
        wit(project)?,
        "--world",
        world(project),
        "componentize",
        "app",
        "--output",
    ]);
    // So that the compiler finds the packages that are installed next to it.
    componentize.arg(&out.file).env("VIRTUAL_ENV", project.directory.join(".venv"));
    out.of(&mut componentize, "componentize-py").await
}

async fn find_node(project: &Project) -> anyhow::Result<()> {
    let Some(node) = asked(command("node", &project.directory).arg("--version")).await else {
        bail!(
            "Node.js is not installed; install version {MIN_NODE} or newer from https://nodejs.org"
        );
    };
    let is_new = version(&node).is_some_and(|(major, _)| major >= MIN_NODE);
    ensure!(
        is_new,
        "this Node.js is {node}; install version {MIN_NODE} or newer from https://nodejs.org"
    );
    if asked(command("npm", &project.directory).arg("--version")).await.is_none() {
        bail!("npm is not installed; install it (Debian: `apt-get install npm`)");
    }
    Ok(())
}

async fn find_python(project: &Project) -> anyhow::Result<()> {
    let (major, minor) = MIN_PYTHON;
    let Some(python) = asked(command("python3", &project.directory).arg("--version")).await else {
        bail!(
            "python3 is not installed; install Python {major}.{minor} or newer from https://python.org"
        );
    };
    let is_new = version(&python).is_some_and(|found| found >= MIN_PYTHON);
    ensure!(
        is_new,
        "this is {python}; install Python {major}.{minor} or newer from https://python.org"
    );
    if asked(command("python3", &project.directory).args(["-c", "import ensurepip, venv"]))
        .await
        .is_none()
    {
        bail!(
            "this Python has no pip for virtual environments; install them (Debian: `apt-get install python3-venv`)"
        );
    }
    Ok(())
}

async fn install(
    project: &Project,
    mut installer: Command,
    name: &str,
    step: &str,
    made: &str,
) -> anyhow::Result<()> {
    let _step = Step::begin(step);
    run(&mut installer, name).await?;
    let tool = Path::new(made).file_name().unwrap_or_default().to_string_lossy();
    ensure!(
        project.has(made),
        "{name} did not install {tool}; is it among the plugin's dependencies?"
    );
    Ok(())
}

/// Returns the module that `package.json` names as `main`, or `plugin.js`.
async fn main(project: &Project) -> anyhow::Result<String> {
    let text = fs::read_to_string(project.directory.join("package.json"))
        .await
        .context("package.json cannot be read")?;
    let package: Value = serde_json::from_str(&text).context("package.json cannot be used")?;
    Ok(package["main"].as_str().unwrap_or("plugin.js").to_owned())
}

/// Returns the directory of the contract. Fails if the contract is missing.
fn wit(project: &Project) -> anyhow::Result<&'static str> {
    ensure!(
        project.has("wit/plugin.wit"),
        "the contract is missing: copy the directory `wit` of a plugin that `airlock plugin new` writes"
    );
    Ok("wit")
}

/// Returns the world of the contract that the plugin is built for.
fn world(project: &Project) -> &'static str {
    let reveals = project.manifest.request.secret.values().any(|secret| secret.reveal);
    if reveals { "tool-plugin-revealing" } else { "tool-plugin" }
}

/// Temporary place for a component that was not inspected yet.
struct Out {
    _directory: TempDir,
    file: PathBuf,
}

impl Out {
    fn new() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("no temporary directory can be created")?;
        let file = directory.path().join("plugin.wasm");
        Ok(Self { _directory: directory, file })
    }

    /// Runs a compiler and returns the component that it wrote here.
    async fn of(&self, compiler: &mut Command, name: &str) -> anyhow::Result<Vec<u8>> {
        let _step = Step::begin(&format!("compiling with {name}"));
        run(compiler, name).await?;
        fs::read(&self.file).await.with_context(|| format!("{name} wrote no component"))
    }
}
