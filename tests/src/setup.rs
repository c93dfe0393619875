//! Writes configuration files as an operator would write them. Nothing here uses the gateway's
//! types.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{Airlock, Gateway, wat::Text};

/// A configuration in its own temporary directory, which is removed with the value.
pub struct Setup {
    config: Value,
    directory: TempDir,
}

/// Token of the operator of every gateway of the tests, an administrator.
pub const OPERATOR: &str = "alop_operator-of-every-gateway-of-the-tests";

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// Creates the configuration of a gateway on a free port, without sources and providers.
    pub fn new() -> Self {
        let config = json!({
            "server": {"listen": "127.0.0.1:0"},
            "management": {"operators": [{"name": "tests", "role": "admin", "token": OPERATOR}]},
            "providers": {},
            "mcp": {"client_configs": [], "tool_manager_config": {}},
        });
        Self { config, directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// Adds a source of tools.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        let clients =
            self.config["mcp"]["client_configs"].as_array_mut().expect("new() makes it one");
        clients.push(client.0);
        self
    }

    /// Sets a value by its JSON pointer. Missing parents are created.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set(&mut self.config, pointer, value.into());
        self
    }

    /// Adds a model provider of kind `openai`.
    #[must_use]
    pub fn openai(self, name: &str, base_url: &str) -> Self {
        let provider = json!({"kind": "openai", "base_url": base_url, "api_key": "sk-test"});
        self.set(&format!("/providers/{name}"), provider)
    }

    /// Adds a model provider that takes its responses from `script`.
    #[must_use]
    pub fn scripted(self, name: &str, script: &Value) -> Self {
        let file = self.file(&format!("{name}.json"), script.to_string());
        self.set(&format!("/providers/{name}"), json!({"kind": "scripted", "script": file}))
    }

    /// Adds a virtual key.
    #[must_use]
    pub fn key(mut self, name: &str, value: &str, rows: &[(&str, &[&str])]) -> Self {
        let rows: Vec<_> = rows
            .iter()
            .map(|(client, tools)| json!({"mcp_client_name": client, "tools_to_execute": tools}))
            .collect();
        let key = json!({"name": name, "value": value, "mcp_configs": rows});
        let mut keys = self.config["governance"]["virtual_keys"].take();
        match keys.as_array_mut() {
            Some(keys) => keys.push(key),
            None => keys = json!([key]),
        }
        self.config["governance"]["virtual_keys"] = keys;
        self
    }

    /// Returns the directory of the configuration.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file next to the configuration. Returns its path.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory().join(name);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Writes the configuration. Returns its path.
    pub fn write(&self) -> PathBuf {
        self.file(
            "airlock.json",
            serde_json::to_string_pretty(&self.config).expect("a value is JSON"),
        )
    }

    /// Starts a gateway with it and waits for the address that it announces.
    pub async fn serve(self) -> Gateway {
        Gateway::start(self).await
    }

    /// Starts a gateway with it and with these variables besides those of the test, and waits for the
    /// address that it announces.
    pub async fn serve_with(self, variables: &[(&str, &str)]) -> Gateway {
        Gateway::start_with(self, variables).await
    }

    /// Starts a gateway like [`serve_with`](Self::serve_with), and does not wait for plugins to be
    /// loaded.
    pub async fn listen_with(self, variables: &[(&str, &str)]) -> Gateway {
        Gateway::launch(self, variables, false).await
    }

    /// Starts a gateway with it and waits until every source is connected.
    pub async fn serve_connected(self) -> Gateway {
        let clients = self.config["mcp"]["client_configs"].as_array().expect("new() makes it one");
        let names: Vec<_> = clients
            .iter()
            .map(|client| client["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        let gateway = Gateway::start(self).await;
        for name in names {
            gateway.connected(&name).await;
        }
        gateway
    }

    /// Prepares a run of the command line with it: `subcommand --config …`, to be followed by
    /// arguments.
    pub fn airlock(&self, subcommand: &str) -> Airlock {
        Airlock::new().arg(subcommand).arg("--config").arg(self.write())
    }

    /// Calls one tool with the command line. Returns the printed document.
    pub async fn call(&self, name: &str, arguments: &Value) -> Value {
        self.airlock("call").arg(name).arg(arguments.to_string()).arg("--json").run().await.json()
    }

    /// Runs a script with the command line. Returns the printed document.
    pub async fn script(&self, source: &str) -> Value {
        self.script_named("script.star", source).await
    }

    /// Runs a script like [`Setup::script`], from a file of this name, by which its language is known.
    pub async fn script_named(&self, name: &str, source: &str) -> Value {
        let file = self.file(name, source);
        self.airlock("run").arg(file).arg("--json").run().await.json()
    }
}

/// A source of tools as the configuration has it. All its tools may be executed, and each call
/// needs approval.
#[derive(Clone)]
pub struct Client(Value);

impl Client {
    fn new(name: &str, connection_type: &str) -> Self {
        Self(json!({"name": name, "connection_type": connection_type, "tools_to_execute": ["*"]}))
    }

    /// Creates a source from its element of the configuration.
    pub fn from_element(element: Value) -> Self {
        Self(element)
    }

    /// Creates a source that is a plugin.
    pub fn wasm(name: &str, component: impl AsRef<Path>) -> Self {
        Self::new(name, "wasm")
            .set("/wasm_config/component", component.as_ref().display().to_string())
    }

    /// Creates a source that is a plugin written as text. Its file lies next to the configuration.
    pub fn text(setup: &Setup, name: &str, plugin: &Text) -> Self {
        Self::wasm(name, setup.file(&format!("{name}.wasm"), plugin.component()))
    }

    /// Creates a source that is an MCP server over stdio, as a child process.
    pub fn stdio<I: IntoIterator<Item: Into<String>>>(
        name: &str,
        command: impl AsRef<Path>,
        arguments: I,
    ) -> Self {
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let command = command.as_ref().display().to_string();
        Self::new(name, "stdio")
            .set("/stdio_config", json!({"command": command, "args": arguments}))
    }

    /// Creates a source that is an MCP server in a container.
    pub fn docker(name: &str, config: Value) -> Self {
        Self::new(name, "docker").set("/docker_config", config)
    }

    /// Creates a source that is an MCP server over streamable HTTP.
    pub fn http(name: &str, url: &str) -> Self {
        Self::new(name, "http").set("/connection_string", url)
    }

    /// Creates a source that is an MCP server over HTTP+SSE.
    pub fn sse(name: &str, url: &str) -> Self {
        Self::new(name, "sse").set("/connection_string", url)
    }

    /// Sets a value by its JSON pointer.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set(&mut self.0, pointer, value.into());
        self
    }

    /// Names the tools that may be executed at all.
    #[must_use]
    pub fn execute(self, tools: &[&str]) -> Self {
        self.set("/tools_to_execute", tools)
    }

    /// Names the tools that may be executed without approval.
    #[must_use]
    pub fn auto(self, tools: &[&str]) -> Self {
        self.set("/tools_to_auto_execute", tools)
    }

    /// Offers its tools to scripts instead of models.
    #[must_use]
    pub fn code_mode(self) -> Self {
        self.set("/is_code_mode_client", true)
    }

    /// Passes variables of the gateway's environment on to a child process, or sets them
    /// (`NAME=value`).
    #[must_use]
    pub fn envs(self, envs: &[&str]) -> Self {
        self.set("/stdio_config/envs", envs)
    }

    /// Grants a directory to a plugin.
    #[must_use]
    pub fn directory(self, name: &str, path: &Path, access: &str) -> Self {
        let grant = json!({"path": path, "access": access});
        self.set(&format!("/wasm_config/grants/files/{name}"), grant)
    }

    /// Grants tools to a plugin.
    #[must_use]
    pub fn tools(self, tools: &[&str]) -> Self {
        self.set("/wasm_config/grants/tools", tools)
    }

    /// Raises the ceiling of a plugin's limits to that of the engine.
    #[must_use]
    pub fn trusted(self) -> Self {
        self.set("/wasm_config/profile", "trusted")
    }

    /// Sets one limit of a plugin.
    #[must_use]
    pub fn limit(self, name: &str, value: impl Into<Value>) -> Self {
        self.set(&format!("/wasm_config/limits/{name}"), value)
    }
}

fn set(root: &mut Value, pointer: &str, value: Value) {
    let mut place = root;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
}
