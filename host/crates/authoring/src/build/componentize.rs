//! JavaScript and Python: the tools of the Bytecode Alliance make a component of an interpreter
//! with the program already loaded. They run in the plugin's directory and are installed there.
//!
//! Of WASI, only HTTP is left out where it is not requested. Without the rest, the compilers put
//! functions in place that trap or do nothing: `setTimeout` in JavaScript and `print` in Python would
//! end a call, the output of a program would be lost, and its random numbers would be those of the
//! build. The time that its absence would save is small beside that of a call of an interpreter.
//!
//! A guard has none of WASI: its decision depends on its input alone, so these functions may trap, and
//! numbers of the build are as good as any.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{fs, process::Command};

use super::{
    error::BuildError,
    process::{command, output_of, run, run_explained, version},
    project::Project,
    reporter::Reporter,
    world::{self, World},
};
use crate::interfaces::Interface;
use airlock_plugin::Manifest;

/// Oldest Node.js, as major and minor version, that runs componentize-js.
const MIN_NODE: (u32, u32) = (20, 6);
/// Oldest Python, as major and minor version, that componentize-py has a wheel for.
const MIN_PYTHON: (u32, u32) = (3, 10);
const JAVASCRIPT: &str = "node_modules/.bin/componentize-js";
const PYTHON: &str = ".venv/bin/componentize-py";
/// Imports a module with the Python of this machine, whose tracebacks are short and come at once. The
/// last line of what it prints names the problem. A plugin without the SDK imports modules that exist
/// in a component alone. Its arguments are the texts of [`PythonModule`].
const IMPORT_MODULE: &str = "
import sys
module, export, call, with_what = sys.argv[1:]
try:
    imported = __import__(module)
except ModuleNotFoundError as error:
    if (error.name or '').split('.')[0] in ('wit_world', 'componentize_py_types', 'componentize_py_runtime'):
        sys.exit(0)
    raise
found = getattr(imported, export, None)
if found is None:
    sys.exit(f'{module}.py has no `{export}`: its last line is `{export} = {call}`, with {with_what}')
if not isinstance(found, type):
    sys.exit(f'`{export}` in {module}.py is a {type(found).__name__} and not the class that `{call}` returns')
";

/// Module in Python that is compiled.
struct PythonModule {
    world: World,
    name: &'static str,
    /// The class that it exports.
    export: &'static str,
    /// The call that makes the class.
    call: &'static str,
    /// The functions that the call takes, for messages.
    with_what: &'static str,
}

const PLUGIN_MODULE: PythonModule = PythonModule {
    world: World::Plugin,
    name: "app",
    export: "Tools",
    call: "plugin(TOOL, …)",
    with_what: "the functions that have @tool",
};
const GUARD_MODULE: PythonModule = PythonModule {
    world: World::Guard,
    name: "guard",
    export: "Hooks",
    call: "guard(before=FUNCTION, …)",
    with_what: "the functions that decide",
};

/// Compiles a JavaScript module and its relative imports to a component.
pub(super) async fn javascript(
    project: &Project,
    reporter: &mut dyn Reporter,
) -> Result<Vec<u8>, BuildError> {
    find_node(project).await?;
    let package = NodePackage::read(project).await?;
    if !package.has_build {
        check_syntax(project, &package.main, reporter).await?;
    }
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
        install(project, npm, "npm", step, JAVASCRIPT, reporter).await?;
    }
    if package.has_build {
        let mut npm = command("npm", &project.directory);
        npm.args(["run", "--silent", "build"]);
        run(&mut npm, "npm run build", reporter).await?;
        if !project.has(&package.main) {
            return Err(BuildError::Failed(format!(
                "`npm run build` did not write {}, which package.json names as `main`",
                package.main
            )));
        }
        check_syntax(project, &package.main, reporter).await?;
    }
    let world = World::of_module(&package.main);
    let out = BuildOutput::new(project, world)?;
    let mut componentize = command(project.directory.join(JAVASCRIPT), &project.directory);
    componentize.arg(package.main).arg("--wit").arg(&out.wit).args(["--world-name", world::NAME]);
    for feature in disabled(&project.manifest, world) {
        componentize.arg("--disable").arg(feature);
    }
    componentize.arg("--out").arg(&out.file);
    let mut component = out.compile(&mut componentize, "componentize-js", reporter).await?;
    erase_path(&mut component, &project.directory);
    Ok(component)
}

/// Returns the features of the JavaScript runtime that a component is built without. `fetch-event` serves
/// requests, which is no part of the contract. `http` provides `fetch`, and stays for a plugin that asks for
/// network access. The others are the rest of WASI.
fn disabled(manifest: &Manifest, world: World) -> &'static [&'static str] {
    match world {
        World::Guard => &["fetch-event", "http", "stdio", "random", "clocks"],
        World::Plugin if manifest.request.http.is_empty() => &["fetch-event", "http"],
        World::Plugin => &["fetch-event"],
    }
}

/// Overwrites the path of the plugin's directory in a component. The compiler passes it to the
/// interpreter, whose memory becomes that of the component; nothing reads it after the program is
/// loaded. It is overwritten only between spaces or zero bytes, as it stands there; a text of the
/// program that has this path between spaces is changed too. A path of one name, such as `/app`, does
/// not identify a machine and could be a path of the interpreter's own.
fn erase_path(component: &mut [u8], directory: &Path) {
    if directory.components().count() <= 2 {
        return;
    }
    let path = [directory.as_os_str().as_encoded_bytes(), b"/"].concat();
    let mut start = 0;
    while let Some(found) = component[start..].windows(path.len()).position(|window| window == path)
    {
        let at = start + found;
        start = at + path.len();
        let before = at.checked_sub(1).and_then(|before| component.get(before));
        if is_end(before) && is_end(component.get(start)) {
            component[at..start].fill(b'/');
        }
    }
}

fn is_end(byte: Option<&u8>) -> bool {
    matches!(byte, Some(0 | b' '))
}

/// Checks the syntax of a module: the compiler does not report the position of an error.
async fn check_syntax(
    project: &Project,
    module: &str,
    reporter: &mut dyn Reporter,
) -> Result<(), BuildError> {
    let mut node = command("node", &project.directory);
    run(node.arg("--check").arg(module), "node --check", reporter).await
}

/// Compiles `app.py`, or `guard.py` of a guard, and its imports to a component. A plugin may have a module `guard` too.
pub(super) async fn python(
    project: &Project,
    reporter: &mut dyn Reporter,
) -> Result<Vec<u8>, BuildError> {
    find_python(project).await?;
    let module = if project.has("app.py") { &PLUGIN_MODULE } else { &GUARD_MODULE };
    if !project.has(PYTHON) {
        let step = "installing componentize-py into .venv with pip, once (70 MB)";
        let mut venv = command("python3", &project.directory);
        run(venv.args(["-m", "venv", ".venv"]), "python3 -m venv", reporter).await?;
        let mut pip = command(project.directory.join(".venv/bin/pip"), &project.directory);
        pip.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
            "requirements.txt",
        ]);
        install(project, pip, "pip", step, PYTHON, reporter).await?;
    }
    let mut import = command(project.directory.join(".venv/bin/python"), &project.directory);
    // Without files of compiled code beside the sources.
    import.args(["-B", "-c", IMPORT_MODULE]);
    import.args([module.name, module.export, module.call, module.with_what]);
    run_explained(&mut import, "python", reporter, |output| last_line(module.name, output)).await?;
    let out = BuildOutput::new(project, module.world)?;
    let mut componentize = command(project.directory.join(PYTHON), &project.directory);
    componentize.args(["--quiet", "--world", world::NAME, "--wit-path"]).arg(&out.wit);
    componentize.args(["componentize", module.name]);
    if module.world == World::Guard {
        componentize.arg("--stub-wasi");
    }
    componentize.arg("--output");
    // So that the compiler finds the packages that are installed next to it.
    componentize.arg(&out.file).env("VIRTUAL_ENV", project.directory.join(".venv"));
    out.compile(&mut componentize, "componentize-py", reporter).await
}

async fn find_node(project: &Project) -> Result<(), BuildError> {
    let (major, minor) = MIN_NODE;
    let Some(node) = output_of(command("node", &project.directory).arg("--version")).await else {
        return install_first(format!(
            "Node.js is not installed; install version {major}.{minor} or newer from https://nodejs.org"
        ));
    };
    if version(&node).is_none_or(|found| found < MIN_NODE) {
        return install_first(format!(
            "this Node.js is {node}; install version {major}.{minor} or newer from https://nodejs.org"
        ));
    }
    if output_of(command("npm", &project.directory).arg("--version")).await.is_none() {
        return install_first("npm is not installed; install it (Debian: `apt-get install npm`)");
    }
    Ok(())
}

async fn find_python(project: &Project) -> Result<(), BuildError> {
    let (major, minor) = MIN_PYTHON;
    let Some(python) = output_of(command("python3", &project.directory).arg("--version")).await
    else {
        return install_first(format!(
            "python3 is not installed; install Python {major}.{minor} or newer from https://python.org"
        ));
    };
    if version(&python).is_none_or(|found| found < MIN_PYTHON) {
        return install_first(format!(
            "this is {python}; install Python {major}.{minor} or newer from https://python.org"
        ));
    }
    if output_of(command("python3", &project.directory).args(["-c", "import ensurepip, venv"]))
        .await
        .is_none()
    {
        return install_first(
            "this Python has no pip for virtual environments; install them (Debian: `apt-get install python3-venv`)",
        );
    }
    Ok(())
}

fn install_first(what: impl Into<String>) -> Result<(), BuildError> {
    Err(BuildError::Compiler(what.into()))
}

async fn install(
    project: &Project,
    mut installer: Command,
    name: &str,
    step: &str,
    made: &str,
    reporter: &mut dyn Reporter,
) -> Result<(), BuildError> {
    reporter.begin_step(step);
    let outcome = run(&mut installer, name, reporter).await;
    reporter.end_step();
    outcome?;
    if project.has(made) {
        return Ok(());
    }
    let tool = Path::new(made).file_name().unwrap_or_default().to_string_lossy();
    Err(BuildError::Failed(format!(
        "{name} did not install {tool}; is it among the plugin's dependencies?"
    )))
}

/// The members of `package.json` that a build reads.
struct NodePackage {
    /// The module that is compiled: `main`, or `plugin.js`.
    main: String,
    /// True if there is a script `build`, which writes that module: from TypeScript, or with packages of
    /// npm in it.
    has_build: bool,
}

impl NodePackage {
    async fn read(project: &Project) -> Result<Self, BuildError> {
        let text = fs::read_to_string(project.directory.join("package.json"))
            .await
            .map_err(BuildError::io("package.json cannot be read"))?;
        let package: Value = serde_json::from_str(&text).map_err(BuildError::Package)?;
        Ok(Self {
            main: package["main"].as_str().unwrap_or("plugin.js").to_owned(),
            has_build: package["scripts"]["build"].is_string(),
        })
    }
}

/// Temporary directory for the generated world, and for a component that was not inspected yet.
struct BuildOutput {
    _directory: TempDir,
    world: World,
    wit: PathBuf,
    file: PathBuf,
}

/// Returns the last line of what Python prints: the exception without the traceback.
fn last_line(module: &str, output: &str) -> Option<String> {
    let line = output.lines().rfind(|line| !line.trim().is_empty())?.trim();
    let is_exception = line.split(':').next().is_some_and(|name| name.ends_with("Error"));
    Some(if is_exception {
        format!("{module}.py cannot be imported: {line}")
    } else {
        line.to_owned()
    })
}

/// Finds an import of the plugin or the guard that its world does not have in the output of componentize-js.
fn unrequested(world: World, output: &str) -> Option<String> {
    let (_, rest) = output.split_once("Error loading module \"")?;
    let (import, _) = rest.split_once('"')?;
    let interface = Interface::of_import(import)?;
    if world == World::Guard {
        return Some(format!(
            "the guard imports {import}, and a guard imports nothing; of airlock-plugin, it uses guard.js alone"
        ));
    }
    Some(format!(
        "the plugin imports {import}, which plugin.toml does not request; write {}",
        interface.request
    ))
}

impl BuildOutput {
    fn new(project: &Project, world: World) -> Result<Self, BuildError> {
        let directory =
            tempfile::tempdir().map_err(BuildError::io("no temporary directory can be created"))?;
        let wit = directory.path().join("wit");
        let file = directory.path().join("plugin.wasm");
        world::write(&wit, &project.manifest, world)?;
        Ok(Self { _directory: directory, world, wit, file })
    }

    /// Runs a compiler and returns the component that it wrote here.
    async fn compile(
        &self,
        compiler: &mut Command,
        name: &str,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<u8>, BuildError> {
        reporter.begin_step(&format!("compiling with {name}"));
        let outcome =
            run_explained(compiler, name, reporter, |output| unrequested(self.world, output)).await;
        reporter.end_step();
        outcome?;
        fs::read(&self.file).await.map_err(BuildError::io(format!("{name} wrote no component")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_of_python_is_named_without_its_traceback() {
        let traceback =
            "Traceback (most recent call last):\n  File \"<string>\", line 4\nTypeError: no\n\n";
        assert_eq!(
            last_line("app", traceback).as_deref(),
            Some("app.py cannot be imported: TypeError: no")
        );
        assert_eq!(
            last_line("guard", traceback).as_deref(),
            Some("guard.py cannot be imported: TypeError: no")
        );
        let missing = "app.py has no `Tools`";
        assert_eq!(last_line("app", &format!("{missing}\n")).as_deref(), Some(missing));
        assert_eq!(last_line("app", " \n"), None);
    }

    #[test]
    fn the_path_of_the_plugin_is_erased_where_it_stands_alone() {
        let slashes = "/".repeat("/home/ann/p/".len());
        assert_eq!(
            erased("\0/home/ann/p/\0--prefix /home/ann/p/ plugin.js\0", "/home/ann/p"),
            format!("\0{slashes}\0--prefix {slashes} plugin.js\0")
        );
        for same in ["'/home/ann/p/'", "\0/home/ann/p/x\0", "\0/home/ann/p\0", " /home/ann/p/"] {
            assert_eq!(erased(same, "/home/ann/p"), same);
        }
        assert_eq!(erased("\0/tmp/\0", "/tmp"), "\0/tmp/\0");
    }

    fn erased(text: &str, directory: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        erase_path(&mut bytes, Path::new(directory));
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn an_import_that_is_not_requested_is_explained_by_the_lines_to_write() {
        let output = "Error: Error loading module \"airlock:host/kv@0.1.0\" (main)";
        insta::assert_snapshot!(
            unrequested(World::Plugin, output).expect("it is known"),
            @"the plugin imports airlock:host/kv@0.1.0, which plugin.toml does not request; write [request.kv.NAME] with `max_bytes` and `reason`"
        );
        insta::assert_snapshot!(
            unrequested(World::Guard, output).expect("it is known"),
            @"the guard imports airlock:host/kv@0.1.0, and a guard imports nothing; of airlock-plugin, it uses guard.js alone"
        );
        assert_eq!(unrequested(World::Plugin, "Error loading module \"left-pad\""), None);
        assert_eq!(unrequested(World::Plugin, "SyntaxError"), None);
    }

    #[test]
    fn a_guard_is_built_without_any_feature_of_wasi() {
        let manifest = crate::manifest_with(&serde_json::json!({}));
        assert_eq!(disabled(&manifest, World::Plugin), ["fetch-event", "http"]);
        let features = ["fetch-event", "http", "stdio", "random", "clocks"];
        assert_eq!(disabled(&manifest, World::Guard), features);
    }
}
