//! Frameworks and clients of the OpenAI API against the gateway, and the table of them in the docs.
//!
//! `tests/fixtures/clients` has their programs. The table of `docs/clients.md` is what this test saw;
//! with `UPDATE_CLIENTS` set, the test writes it. Any difference fails the test.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};

use airlock_tests::{Gateway, Setup, peers};
use serde_json::{Value, json};
use tokio::process::Command;

/// Lines around the table.
const BEGIN: &str = "<!-- The table is made by tests/it/clients.rs. -->\n\n";
const END: &str = "\n<!-- End of the table. -->\n";
/// Columns of the table: name of the cell, title, and the end of the text that is expected. Without
/// one, the cell has what happens.
const COLUMNS: [(&str, &str, Option<&str>); 6] = [
    ("plain", "plain", Some("hello yourself, hello again")),
    ("streamed", "streamed", Some("hello yourself")),
    ("gateway", "gateway's tool", Some("It is 3.")),
    ("own", "own tool beside it", Some("It is 42 and sunny.")),
    ("structured", "structured", Some(r#"{"city":"Bern","sum":7}"#)),
    ("approval", "approval", None),
];

/// Observations of the clients: rows, and their cells.
type Rows = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the script of the model.
fn script() -> Value {
    let user = |contains: &str, answer: Value| json!({"when": {"role": "user", "contains": contains}, "answer": answer});
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let sum = |a: u32, b: u32| call("gate-get-sum", json!({"a": a, "b": b}));
    let seen = |results: u32, contains: &str, text: &str| {
        let when = json!({"role": "tool", "tool_results": results, "contains": contains});
        json!({"when": when, "answer": {"content": text}})
    };
    let weather = call("get_weather", json!({"city": "Bern"}));
    let shell = call("exec_command", json!({"cmd": "echo sunny"}));
    json!({"turns": [
        user("hello", json!({"content": "hello yourself"})),
        user("once more", json!({"content": "hello again"})),
        user("add one and two", json!({"content": "Let me add.", "tool_calls": [sum(1, 2)]})),
        user("sum and weather", json!({"content": "Let me see.", "tool_calls": [sum(20, 22), weather]})),
        user("sum and shell", json!({"content": "Let me see.", "tool_calls": [sum(20, 22), shell]})),
        user("as an object", json!({"content": "Let me look.", "tool_calls": [sum(3, 4)]})),
        user("read the environment", json!({"tool_calls": [call("gate-get-env", json!({}))]})),
        seen(1, "sum of 1 and 2", "It is 3."),
        seen(1, "sum of 3 and 4", r#"{"city":"Bern","sum":7}"#),
        seen(2, "", "It is 42 and sunny."),
        {"when": {"role": "tool"}, "answer": {"content": "One result: {{last_tool_result}}"}},
    ]})
}

async fn gateway() -> Gateway {
    let tools = peers::everything("gate").execute(&["get-env", "get-sum"]).auto(&["get-sum"]);
    let setup = Setup::new().scripted("script", &script());
    setup.client(tools.set("/trust", "trusted")).serve_connected().await
}

#[tokio::test]
async fn the_table_of_clients_in_the_docs_is_what_the_clients_saw() {
    let gateway = gateway().await;
    let programs = Programs::new();
    let node = |program: &'static str| programs.run(peers::recent_node(), program, &gateway);
    let (ai_sdk, agents, codex, python) = tokio::join!(
        node("ai-sdk.mjs"),
        node("agents.mjs"),
        node("codex.mjs"),
        programs.run(peers::python(), "clients.py", &gateway),
    );
    let rows: Rows = [ai_sdk, agents, codex, python].into_iter().flatten().collect();
    println!("{rows:#?}");
    let page = airlock_tests::root().join("docs/clients.md");
    let text = fs::read_to_string(&page).expect("the page");
    let (head, rest) = text.split_once(BEGIN).expect("the line before the table");
    let (documented, tail) = rest.split_once(END).expect("the line after the table");
    let table = table(&rows);
    if std::env::var_os("UPDATE_CLIENTS").is_some() {
        let updated = format!("{head}{BEGIN}{table}{END}{tail}");
        fs::write(&page, updated).expect("the page can be written");
        return;
    }
    assert!(
        documented == table,
        "the page says:\n{documented}\nand the clients saw:\n{table}\nIf that is right, run the test with \
         UPDATE_CLIENTS=1."
    );
}

/// Returns the table as text.
fn table(rows: &Rows) -> String {
    let titles: Vec<_> = COLUMNS.iter().map(|(_, title, _)| *title).collect();
    let mut table = format!("| Client | {} |\n|---{}|\n", titles.join(" | "), "|---".repeat(6));
    for (client, cells) in rows {
        let cell = |(name, _, expected): &(&str, &str, Option<&str>)| {
            let seen = cells.get(*name).map_or("", String::as_str);
            match expected {
                Some(expected) if seen.ends_with(expected) => "yes".to_owned(),
                Some(_) => format!("no: {}", first_line(seen)),
                None => approval(seen).to_owned(),
            }
        };
        let cells: Vec<_> = COLUMNS.iter().map(cell).collect();
        writeln!(table, "| {client} | {} |", cells.join(" | ")).expect("text");
    }
    table
}

/// Returns what a client does with a call that needs an approval.
fn approval(seen: &str) -> &'static str {
    match seen {
        seen if seen.starts_with("calls ") => "returned",
        seen if seen.starts_with("error: ") => "error",
        seen if seen.starts_with("One result: ") => "told the model that it has no such tool",
        "" => "ends without a text",
        _ => "other",
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().replace('|', "/");
    line.chars().take(120).collect()
}

/// The programs of the clients, in a directory in which Node.js finds their packages.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let packages = airlock_tests::root().join(".cache/peers/node_modules");
        assert!(packages.join("ai").exists(), "run `make peers`");
        symlink(packages, directory.path().join("node_modules")).expect("a link");
        for file in
            fs::read_dir(airlock_tests::root().join("tests/fixtures/clients")).expect("files")
        {
            let file = file.expect("a file").path();
            let name = file.file_name().expect("a name");
            fs::copy(&file, directory.path().join(name)).expect("a copy");
        }
        Self(directory)
    }

    /// Runs a program, and returns the rows that it prints.
    async fn run(&self, interpreter: PathBuf, program: &str, gateway: &Gateway) -> Rows {
        let state = self.state(program);
        let mut command = Command::new(&interpreter);
        command.arg(self.0.path().join(program)).arg(format!("{}/v1", gateway.address()));
        command.arg(&state).current_dir(&state);
        // A proxy of this machine must not come between two local processes.
        command.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", interpreter.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{program} printed no rows: {error}: {said}"))
    }

    /// Returns an empty directory for a program.
    fn state(&self, program: &str) -> PathBuf {
        let state = Path::new("state").join(program);
        let state = self.0.path().join(state);
        fs::create_dir_all(&state).expect("a directory");
        state
    }
}
