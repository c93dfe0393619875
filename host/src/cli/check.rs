//! `airlock check`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use airlock_compile::Compiling;
use airlock_config::{Config, ConfigError, Problem, Source};
use airlock_core::tool::ClientName;
use airlock_mcp_client::NetworkIsolation;
use airlock_plugin::Drift;
use airlock_plugin_cli::accept_command;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Check a configuration without starting anything
///
/// Reads the file, looks up the environment variables that it names, and checks that the files and
/// directories that it names exist, and that the definitions of MCP servers in `airlock.lock` can be
/// used. Reports every plugin that the gateway would not load: one whose grants do not
/// suffice, one with a secret without a value, and one that is not the component that `airlock.lock`
/// pins. No plugin is run. Guards are asked whether they accept their settings. Warns of commands of MCP servers that are
/// not in PATH, of clients of which no tool is offered, of names in `tools_to_execute` that a plugin
/// does not have, of names in rules of information flow that nothing has, and of plugins that are not
/// pinned because there is no `airlock.lock`. A warning is no error: the gateway may have another PATH. For servers without a network, it prints what this
/// machine can keep from them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock check --config airlock.json")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, file, errors: [{key, message}], warnings: [{key, message}],
    /// unpinned: [client], keys_without_value: [key], network_isolation}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &CheckArgs) -> anyhow::Result<CommandOutcome> {
    let file = args.config.path.display().to_string();
    let mut isolated = Vec::new();
    let mut generated = BTreeSet::new();
    let (checked, unpinned, warnings) = match Config::load_valid_parts(&args.config.path) {
        Ok((config, problems)) => {
            isolated = config.as_ref().map(without_network).unwrap_or_default();
            generated =
                config.as_ref().map(|config| config.keys_without_value.clone()).unwrap_or_default();
            let unpinned = config.as_ref().map(Config::unpinned).unwrap_or_default();
            let warnings = config.as_ref().map(Config::warnings).unwrap_or_default();
            (check(config.as_ref(), problems, &args.config).await, unpinned, warnings)
        }
        Err(error) => (Err(error), Vec::new(), Vec::new()),
    };
    if args.json {
        let mut report = report(&file, checked.as_ref().err(), &warnings, &unpinned);
        report["keys_without_value"] = json!(generated);
        output::document(&report)?;
        return Ok(checked.is_ok().into());
    }
    for warning in &warnings {
        output::warning(&warning.to_string());
    }
    checked?;
    output::line(&format!("{file}: ok"))?;
    if !isolated.is_empty() {
        output::hint(&format!("{}: {}", isolated.join(", "), coverage(NetworkIsolation::detect())));
    }
    if !generated.is_empty() {
        output::hint(&generation(&generated));
    }
    if !unpinned.is_empty() {
        output::hint(&advice(&unpinned, &args.config));
    }
    Ok(CommandOutcome::Success)
}

/// Checks the files that the valid parts of a configuration name, and that its lock file permits
/// every plugin. `problems` are those of the configuration itself.
async fn check(
    config: Option<&Config>,
    mut problems: Vec<Problem>,
    file: &ConfigFile,
) -> Result<(), ConfigError> {
    let name = file.path.display().to_string();
    if let Some(config) = config {
        match config.check_files(&name).await {
            Ok(()) => {}
            Err(ConfigError::Invalid { problems: more, .. }) => problems.extend(more),
            Err(error @ ConfigError::Unreadable { .. }) => return Err(error),
        }
        problems.extend(config.check_guards(Compiling::in_child()).await);
        problems.extend(config.check_pins(|drift| remedy(drift, file)).await);
        problems.extend(config.check_accepted());
    }
    if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid { file: name, problems }) }
}

/// Returns the servers that are processes without a network.
fn without_network(config: &Config) -> Vec<String> {
    let clients = config.clients.iter().filter(|client| match &client.source {
        Source::Upstream(settings) => settings.transport.has_no_network(),
        Source::Plugin(_) => false,
    });
    clients.map(|client| client.name.to_string()).collect()
}

/// Describes what this machine keeps from a server without a network.
fn coverage(isolation: NetworkIsolation) -> &'static str {
    match isolation {
        NetworkIsolation::Full => {
            "this machine refuses all sockets but Unix sockets, and abstract Unix sockets of others"
        }
        NetworkIsolation::WithoutAbstractSockets => {
            "this machine refuses all sockets but Unix sockets; abstract Unix sockets of others stay \
             reachable (refused from Linux 6.12, with Landlock), and before Linux 6.7 so does the memory \
             of the user's other processes in /proc, unless `confine` is set"
        }
        NetworkIsolation::Unavailable => "this machine cannot keep a process from the network",
    }
}

/// Returns the commands that show and accept the difference of a plugin to its lock file.
pub(super) fn remedy(drift: &Drift, file: &ConfigFile) -> String {
    let client = &drift.client;
    let option = file.option();
    let accept = accept_command(drift, file);
    format!("`airlock plugin diff {client}{option}` shows it, `{accept}` accepts it")
}

/// Announces that the gateway makes the values of virtual keys.
fn generation(keys: &BTreeSet<String>) -> String {
    let keys = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(", ");
    format!(
        "without a value: the virtual keys {keys}. `airlock serve` makes the value of each, unless the store has one \
         already, and prints it once on standard error"
    )
}

/// Returns the command that pins the plugins, and the reason to run it.
pub(super) fn advice(unpinned: &[ClientName], config: &ConfigFile) -> String {
    let names = unpinned.iter().map(ClientName::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "not pinned: {names}. The gateway loads any component at their paths until \
         `airlock plugin accept --all{}` pins them",
        config.option()
    )
}

fn report(
    file: &str,
    error: Option<&ConfigError>,
    warnings: &[Problem],
    unpinned: &[ClientName],
) -> Value {
    let errors = match error {
        None => Vec::new(),
        Some(ConfigError::Unreadable { source, .. }) => {
            vec![json!({"key": "", "message": format!("cannot be read: {source}")})]
        }
        Some(ConfigError::Invalid { problems, .. }) => {
            problems.iter().map(|problem| json!(problem)).collect()
        }
    };
    json!({
        "ok": error.is_none(),
        "file": file,
        "errors": errors,
        "warnings": warnings,
        "unpinned": unpinned,
        "network_isolation": match NetworkIsolation::detect() {
            NetworkIsolation::Full => "full",
            NetworkIsolation::WithoutAbstractSockets => "without_abstract_sockets",
            NetworkIsolation::Unavailable => "unavailable",
        },
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use airlock_lock::{FILE_NAME as LOCK_FILE, Lock};
    use airlock_plugin::Metadata;

    /// Writes a configuration with one plugin. Returns the path of its component, and its file.
    fn configured(home: &Path) -> (std::path::PathBuf, ConfigFile) {
        let component = home.join("p.wasm");
        fs::write(&component, wat::parse_str("(component)").expect("a component")).expect("a file");
        let client =
            json!({"name": "p", "connection_type": "wasm", "wasm_config": {"component": "p.wasm"}});
        let path = home.join("gateway.json");
        let text = json!({"mcp": {"client_configs": [client]}}).to_string();
        fs::write(&path, text).expect("a file");
        (component, ConfigFile { path })
    }

    async fn checked(file: &ConfigFile) -> Result<(), String> {
        let config = Config::load(&file.path).expect("a good file");
        let home = file.path.parent().expect("a directory").display().to_string();
        check(Some(&config), Vec::new(), file)
            .await
            .map_err(|error| error.to_string().replace(&home, "HOME"))
    }

    #[tokio::test]
    async fn a_component_that_is_not_the_pinned_one_is_an_error_with_the_commands_that_settle_it() {
        let home = tempfile::tempdir().expect("a directory");
        let (component, file) = configured(home.path());
        assert_eq!(checked(&file).await, Ok(()), "without a lock file, any component is loaded");

        let path = home.path().join(LOCK_FILE);
        let name = ClientName::parse("p").expect("a name");
        let mut lock = Lock::default();
        lock.save(&path).expect("written");
        insta::assert_snapshot!(checked(&file).await.expect_err("it is not pinned"), @r#"HOME/gateway.json: mcp.client_configs[name = "p"].wasm_config.component: the gateway does not load it, because it was never accepted; `airlock plugin diff p --config HOME/gateway.json` shows it, `airlock plugin accept p --config HOME/gateway.json` accepts it"#);
        let wasm = fs::read(&component).expect("it is there");
        lock.accept(Metadata::read(&wasm).expect("its metadata").pin(&name));
        lock.save(&path).expect("written");
        assert_eq!(checked(&file).await, Ok(()));

        let other = wat::parse_str("(component (core module))").expect("a component");
        fs::write(&component, other).expect("a file");
        let changed = checked(&file).await.expect_err("it changed");
        let (told, commands) = changed.split_once("; ").expect("commands");
        assert!(
            told.contains("because it changed since it was accepted: its code (sha256:"),
            "{changed}"
        );
        assert!(commands.contains("`airlock plugin accept p --config HOME/"), "{changed}");
        fs::write(&path, "this is a text").expect("written");
        let unreadable = checked(&file).await.expect_err("nothing tells what was accepted");
        assert!(unreadable.contains("HOME/airlock.lock is not a lock file"), "{unreadable}");
    }

    #[tokio::test]
    async fn mistakes_of_every_stage_are_found_at_once() {
        let home = tempfile::tempdir().expect("a directory");
        let (_, file) = configured(home.path());
        let clients = [
            json!({"name": "typed", "connection_type": "stdio", "stdio_config": {"command": 7}}),
            plugin(&json!(7), "p.wasm"),
            plugin(&json!("not a name"), "p.wasm"),
            json!({"name": "untyped"}),
            plugin(&json!("lost"), "lost.wasm"),
            json!({"name": "s", "connection_type": "http", "connection_string": "http://localhost", "prefix": "a b"}),
        ];
        let keys =
            json!([{"name": "a", "value": "short", "mcp_configs": [{"mcp_client_name": "typed"}]}]);
        let text = json!({
            "sever": {}, "server": {"read_timeout": 1, "max_body": "1PiB", "allowed_hosts": [3]},
            "mcp": {"client_configs": clients}, "governance": {"virtual_keys": keys},
        });
        fs::write(&file.path, text.to_string()).expect("a file");
        let (config, problems) = Config::load_valid_parts(&file.path).expect("a file");
        let found = check(config.as_ref(), problems, &file).await.expect_err("mistakes");
        let home = home.path().display().to_string();
        insta::assert_snapshot!(found.to_string().replace(&home, "HOME"), @r#"
        HOME/gateway.json has 11 errors:
          sever: unknown key; did you mean "server"?
          server.read_timeout: expected a time with its unit, such as "250ms", "30s" or "10m", found 1
          server.max_body: must be from 1KiB to 256MiB, found 1048576GiB
          server.allowed_hosts[0]: expected a string, found 3
          mcp.client_configs[0].stdio_config.command: expected a string, found 7
          mcp.client_configs[1].name: expected a string, found 7
          mcp.client_configs[3].connection_type: is required, but missing
          mcp.client_configs[2].name: "not a name" is not a valid client name: use a letter or `_`, then letters, digits or `_`, at most 32 characters
          mcp.client_configs[5].prefix: "a b" is not a valid prefix: use a letter or `_`, then letters, digits or `_`, at most 32 characters; or "" for none
          governance.virtual_keys[0].value: must start with "sk-bf-" and have at least 20 characters, without spaces
          mcp.client_configs[name = "lost"].wasm_config.component: there is no file HOME/lost.wasm
        "#);
    }

    fn plugin(name: &Value, component: &str) -> Value {
        json!({"name": name, "connection_type": "wasm", "wasm_config": {"component": component}})
    }

    #[tokio::test]
    async fn a_limit_beyond_its_maximum_is_reported_once() {
        let home = tempfile::tempdir().expect("a directory");
        let (_, file) = configured(home.path());
        let mut client = plugin(&json!("p"), "p.wasm");
        client["wasm_config"]["limits"] = json!({"memory": "8GiB", "fuel": 1_000});
        let text = json!({"mcp": {"client_configs": [client]}}).to_string();
        fs::write(&file.path, text).expect("a file");
        let (config, problems) = Config::load_valid_parts(&file.path).expect("a file");
        let found = check(config.as_ref(), problems, &file).await.expect_err("too much memory");
        let keys: Vec<_> = found.problems().iter().map(|problem| problem.key.to_string()).collect();
        assert_eq!(keys, ["mcp.client_configs[0].wasm_config.limits.memory"]);
    }

    #[tokio::test]
    async fn a_server_whose_paths_or_accepted_definitions_are_missing_or_damaged_is_an_error() {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join("plain"), "").expect("a file");
        let clients = [
            stdio("good", &json!({"command": "/bin/sh", "cwd": ".", "confine": {"read": ["."]}})),
            stdio("searched", &json!({"command": "no-such-command"})),
            stdio("placed", &json!({"command": "sh", "envs": ["PATH=/nowhere"]})),
            stdio(
                "lost",
                &json!({"command": "nowhere/server", "cwd": "plain", "confine": {"read": ["."], "write": ["gone"]}}),
            ),
            stdio("plain", &json!({"command": "./plain"})),
        ];
        let path = home.path().join("gateway.json");
        let text = json!({"mcp": {"client_configs": clients}}).to_string();
        fs::write(&path, text).expect("a file");
        let file = ConfigFile { path };
        insta::assert_snapshot!(checked(&file).await.expect_err("paths are missing"), @r#"
        HOME/gateway.json has 5 errors:
          mcp.client_configs[name = "placed"].stdio_config.command: command "sh" is not found in its PATH; install it, or write its whole path
          mcp.client_configs[name = "lost"].stdio_config.command: there is no file HOME/nowhere/server
          mcp.client_configs[name = "lost"].stdio_config.cwd: there is no directory HOME/plain
          mcp.client_configs[name = "lost"].stdio_config.confine.write[0]: there is no file or directory HOME/gone
          mcp.client_configs[name = "plain"].stdio_config.command: HOME/./plain is not executable; run `chmod +x` on it, or name an interpreter as the command
        "#);
        let warnings = Config::load(&file.path).expect("a good file").warnings();
        let mut commands = warnings.iter().filter(|warning| warning.message.contains("PATH"));
        let searched = commands.next().expect("it is not found");
        assert_eq!(commands.next(), None);
        insta::assert_snapshot!(searched, @r#"mcp.client_configs[name = "searched"].stdio_config.command: command "no-such-command" is not found in its PATH; install it, or write its whole path; a gateway that is started with another PATH may find it"#);
        let document = report("f", None, &warnings, &[]);
        assert_eq!(
            (&document["ok"], document["warnings"].as_array().map(Vec::len)),
            (&json!(true), Some(warnings.len()))
        );

        let clients = [stdio("good", &json!({"command": "/bin/sh"}))];
        let text = json!({"mcp": {"client_configs": clients}}).to_string();
        fs::write(&file.path, text).expect("a file");
        let lock = "version = 1\n[[upstream]]\nclient = \"good\"\n[[upstream.tool]]\nname = \"t\"\n\
                    digest = \"sha256:00\"\ndefinition = '{\"name\": \"t\", \"inputSchema\": {}}'\n";
        fs::write(home.path().join(LOCK_FILE), lock).expect("a file");
        insta::assert_snapshot!(checked(&file).await.expect_err("the file was edited"), @r#"HOME/gateway.json: mcp.client_configs[name = "good"]: no tool of the server is offered: the definition of tool "t" in airlock.lock does not have the digest beside it; restore the file from version control, or delete the server's entry in it and accept the server again"#);
    }

    fn stdio(name: &str, stdio: &Value) -> Value {
        json!({"name": name, "connection_type": "stdio", "stdio_config": stdio})
    }
}
