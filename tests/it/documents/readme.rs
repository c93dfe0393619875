//! The README's own steps: its configuration, commands, script and program.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use airlock_tests::{Gateway, Setup, guests, peers, root};
use serde_json::Value;
use tokio::process::Command;

use super::{Document, entries};

fn readme() -> Document {
    Document::read(root().join("README.md"))
}

/// Returns the files in `docs` with their texts, by their names: the script of the README reads them.
fn pages() -> BTreeMap<String, String> {
    entries(&root().join("docs"))
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().expect("the name of a page").display().to_string();
            (name, fs::read_to_string(&path).expect("UTF-8"))
        })
        .collect()
}

/// The README's reader: a directory with what `make plugins` leaves in the project, below it the one
/// with the README's configuration, and an `npx` that starts the installed server without the
/// network.
struct Reader {
    directory: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let reader = Self { directory };
        let configuration = readme().blocks_in("json").next().expect("a configuration").to_owned();
        reader.write("trial/gateway.json", &configuration);
        for (name, text) in pages() {
            reader.write(&format!("docs/{name}"), &text);
        }
        fs::create_dir_all(reader.path("target/plugins")).expect("a directory");
        for (name, component) in [("files", guests::FILES), ("text", guests::TEXT)] {
            fs::copy(component, reader.path(&format!("target/plugins/{name}.wasm")))
                .expect("a copy");
        }
        let server = peers::everything_program();
        reader.write("bin/npx", &format!("#!/bin/sh\nexec '{}' stdio\n", server.display()));
        fs::set_permissions(reader.path("bin/npx"), fs::Permissions::from_mode(0o755))
            .expect("a mode");
        reader
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in the directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Runs a line of a shell in the directory of the configuration. Returns what it printed to
    /// standard output. Panics if it fails, or warns of anything: it may say that components are
    /// being loaded.
    async fn run(&self, line: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let binary = airlock_tests::binary("airlock-under-test");
        let script = format!("airlock() {{ '{}' \"$@\"; }}; {line}", binary.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(self.path("trial")).kill_on_drop(true);
        shell.env("PATH", format!("{}:{path}", self.path("bin").display()));
        let output = shell.output().await.expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout);
        let logged = String::from_utf8_lossy(&output.stderr);
        let is_quiet = logged.lines().all(|line| line.starts_with("airlock: loading "));
        assert!(output.status.success() && is_quiet, "{line}\n{printed}\n{logged}");
        printed.into_owned()
    }
}

#[tokio::test]
async fn the_commands_of_the_readme_run_in_their_order_without_a_warning() {
    let reader = Reader::new();
    let readme = readme();
    let lines =
        readme.blocks_in("").flat_map(str::lines).filter(|line| line.starts_with("airlock "));
    let mut printed = BTreeMap::new();
    for line in lines.filter(|line| !line.starts_with("airlock serve ")) {
        // No terminal is here to answer the question.
        let line = line.replace("plugin accept ", "plugin accept --yes ");
        let command = line.split(' ').nth(1).expect("a command").to_owned();
        printed.insert(command, reader.run(&line).await);
    }
    assert_eq!(printed["check"], "gateway.json: ok\n");
    assert_eq!(printed["call"], "The sum of 2 and 3 is 5.\n");
    for tool in ["files-read_file", "text-word_count", "everything-get-sum", "executeToolCode"] {
        assert!(printed["tools"].contains(tool), "{printed:?}");
    }
    let script =
        readme.blocks_in("python").find(|block| block.contains("result =")).expect("a script");
    reader.write("trial/count.star", script);
    let result = reader.run("airlock run --config gateway.json count.star").await;
    let pages = pages();
    let words: usize = pages.values().map(|text| text.split_whitespace().count()).sum();
    assert_eq!(result, format!("{{\n  \"words\": {words}\n}}\n"));
    // The README says that its script makes more calls than a script may make by default.
    assert!(2 * pages.len() > 64, "{} pages", pages.len());
}

#[tokio::test]
async fn the_script_on_the_page_about_code_mode_runs_with_the_configuration_of_the_readme() {
    let reader = Reader::new();
    let page = Document::read(root().join("docs/code-mode.md"));
    let scripts: Vec<_> = page.blocks_in("python").collect();
    assert_eq!(scripts.len(), 1);
    reader.write("trial/script.star", scripts[0]);
    reader.run("airlock plugin accept --all --yes --config gateway.json").await;
    reader.run("airlock run --config gateway.json script.star").await;
}

/// Address of the gateway in the README.
const ADDRESS: &str = "http://127.0.0.1:8080";

/// Starts a gateway like that of the README, with its scripted model.
async fn adding_gateway() -> Gateway {
    let readme = readme();
    let turns = readme.blocks_in("").find(|block| block.starts_with("{\"turns\"")).expect("turns");
    let turns: Value = serde_json::from_str(turns).expect("JSON");
    Setup::new()
        .scripted("local", &turns)
        .client(peers::everything("everything").auto(&["get-sum"]))
        .serve_connected()
        .await
}

/// Returns what a client printed that is told the gateway's address. Panics if it fails.
async fn printed(client: &mut Command) -> String {
    // A proxy of this machine must not come between two local processes.
    client.env("NO_PROXY", "*").kill_on_drop(true);
    let output = client.output().await.expect("the client can be started");
    let logged = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{logged}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_openai_client_of_the_readme_gets_a_stream_and_the_record_of_its_calls() {
    let gateway = adding_gateway().await;
    let readme = readme();
    let program =
        readme.blocks_in("python").find(|block| block.contains("OpenAI(")).expect("a program");
    assert!(program.contains(ADDRESS), "{program}");
    let program = program.replace(ADDRESS, gateway.address());
    let printed = printed(Command::new(peers::python()).arg("-c").arg(program)).await;
    assert!(printed.starts_with("It is 5.") && printed.contains("everything-get-sum"), "{printed}");
}

#[tokio::test]
async fn the_curl_command_of_the_readme_prints_the_steps_of_a_tool_and_the_answer() {
    let gateway = adding_gateway().await;
    let readme = readme();
    let command = readme.blocks_in("").find(|block| block.starts_with("curl ")).expect("a command");
    assert!(command.contains(ADDRESS), "{command}");
    let command = command.replace(ADDRESS, gateway.address());
    let printed = printed(Command::new("sh").arg("-c").arg(command)).await;
    let steps = [r#""role":"assistant""#, "call_started", "call_ended", r#""It ""#, "data: [DONE]"];
    let places = steps.map(|step| printed.find(step));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {printed}");
}
