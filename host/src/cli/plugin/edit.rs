//! Changes one entry of a configuration file. Everything else in the file keeps its value and its
//! order.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use serde::Serialize as _;
use serde_json::{Map, Value, json};

use airlock_config::{Config, KeyPath, Problem, environment};
use airlock_core::tool::ClientName;

/// A configuration file that is being changed.
#[derive(Clone)]
pub(super) struct Document {
    path: PathBuf,
    value: Value,
    indent: String,
}

impl Document {
    /// Reads a file that must already be a valid configuration. Starts an empty one if there is no
    /// such file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = directory_of(path);
                ensure!(
                    directory.is_dir(),
                    "{}: there is no directory {}",
                    path.display(),
                    directory.display()
                );
                Ok(Self {
                    path: path.to_owned(),
                    value: json!({"mcp": {"client_configs": []}}),
                    indent: "  ".to_owned(),
                })
            }
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
            Ok(text) => {
                // Stricter than the parser below, which would lose a key that is written twice.
                Config::parse(&text, &path.display().to_string(), &environment)?;
                let value = serde_json::from_str(&text)
                    .with_context(|| format!("{} is not JSON", path.display()))?;
                Ok(Self { path: path.to_owned(), value, indent: indentation(&text) })
            }
        }
    }

    /// Returns the `wasm_config` of the plugin with this name. Adds an entry if there is none.
    pub(super) fn plugin(&mut self, name: &ClientName) -> anyhow::Result<&mut Map<String, Value>> {
        let clients = self.clients()?;
        let at = clients.iter().position(|client| client["name"] == name.as_str()).unwrap_or_else(
            || {
                clients.push(json!({
                    "name": name,
                    "connection_type": "wasm",
                    "wasm_config": {},
                    "tools_to_execute": ["*"],
                }));
                clients.len() - 1
            },
        );
        let client = &mut clients[at];
        let kind = client["connection_type"].as_str().unwrap_or_default();
        ensure!(
            matches!(kind, "wasm" | "inprocess"),
            "the configuration has another client named {name}, of the type {kind}; choose a name with --name"
        );
        ensure!(client["disabled"] != true, "the client {name} is disabled in the configuration");
        match client["wasm_config"].as_object_mut() {
            Some(config) => Ok(config),
            None => bail!("the client {name} has no `wasm_config`"),
        }
    }

    /// Returns whether a client has this name.
    pub(super) fn has(&self, name: &ClientName) -> bool {
        self.entries().iter().any(|client| client["name"] == name.as_str())
    }

    /// Returns the entries of all clients.
    pub(super) fn entries(&self) -> &[Value] {
        self.value["mcp"]["client_configs"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the key of the `wasm_config` of the client with this name.
    pub(super) fn key(&self, name: &ClientName) -> KeyPath {
        let at = self.entries().iter().position(|client| client["name"] == name.as_str());
        entry_key(at.unwrap_or_default())
    }

    fn clients(&mut self) -> anyhow::Result<&mut Vec<Value>> {
        let root = self.value.as_object_mut().context("the configuration is not a JSON object")?;
        let mcp = root
            .entry("mcp")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .context("`mcp` is not an object")?;
        let clients = mcp.entry("client_configs").or_insert_with(|| json!([]));
        clients.as_array_mut().context("`mcp.client_configs` is not a list")
    }

    /// Parses the changed file as a configuration.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::parse(&self.text()?, &self.file(), &environment)?)
    }

    /// Parses the changed file as far as it is valid. Returns its problems too.
    pub(super) fn valid_parts(&self) -> anyhow::Result<(Option<Config>, Vec<Problem>)> {
        Ok(Config::parse_valid_parts(&self.text()?, &self.file(), &environment))
    }

    /// Returns the name of the file in messages.
    pub(super) fn file(&self) -> String {
        self.path.display().to_string()
    }

    /// Replaces the old file with the changed one.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        write(&self.path, self.text()?.as_bytes())
    }

    fn text(&self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.indent.as_bytes());
        self.value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))?;
        bytes.push(b'\n');
        Ok(String::from_utf8(bytes)?)
    }
}

/// Returns the key of the `wasm_config` of a client by its place in the list.
pub(super) fn entry_key(index: usize) -> KeyPath {
    let clients = KeyPath::default().member("mcp").member("client_configs");
    clients.element(index).member("wasm_config")
}

/// Returns the indentation of the file's first indented line; two spaces if there is none, or if it
/// is longer than 8 characters.
fn indentation(text: &str) -> String {
    let first = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    let indent = first.map(|line| &line[..line.len() - line.trim_start().len()]);
    indent.filter(|indent| indent.len() <= 8).unwrap_or("  ").to_owned()
}

/// Writes a file atomically: a reader sees the old one or the new one. A symbolic link is kept, and
/// its target is replaced.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let failed = || format!("{} cannot be written", path.display());
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = directory_of(&target);
    fs::create_dir_all(directory).with_context(failed)?;
    let mode = fs::metadata(&target).map_or(0o644, |metadata| metadata.permissions().mode());
    let mut file = tempfile::NamedTempFile::new_in(directory).with_context(failed)?;
    file.write_all(bytes).with_context(failed)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode)).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(&target).map_err(|error| error.error).with_context(failed)?;
    Ok(())
}

/// Returns the directory of a file, which is the working directory for a bare name.
fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_exist_is_begun_only_in_a_directory_that_does() {
        let home = tempfile::tempdir().expect("a directory");
        assert!(Document::open(&home.path().join("airlock.json")).is_ok());
        let path = home.path().join("nowhere/airlock.json");
        let refused = Document::open(&path).map(|_| ()).expect_err("no directory").to_string();
        assert!(refused.contains("airlock.json: there is no directory "), "{refused}");
        assert!(!home.path().join("nowhere").exists());
    }

    #[test]
    fn an_entry_is_added_and_changed_and_the_rest_of_the_file_stays_as_it_was() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("airlock.json");
        let before = "{\n    \"server\": {\"listen\": \"127.0.0.1:0\"},\n    \"mcp\": {\"client_configs\": []},\n    \"providers\": {}\n}";
        fs::write(&path, before).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        let name = ClientName::parse("weather").expect("a name");
        for component in ["one.wasm", "two.wasm"] {
            let mut document = Document::open(&path).expect("a good file");
            document.plugin(&name).expect("an entry").insert("component".into(), json!(component));
            document.config().expect("it is still good");
            document.save().expect("written");
        }
        insta::assert_snapshot!(fs::read_to_string(&path).expect("it is there"), @r#"
            {
                "server": {
                    "listen": "127.0.0.1:0"
                },
                "mcp": {
                    "client_configs": [
                        {
                            "name": "weather",
                            "connection_type": "wasm",
                            "wasm_config": {
                                "component": "two.wasm"
                            },
                            "tools_to_execute": [
                                "*"
                            ]
                        }
                    ]
                },
                "providers": {}
            }
            "#);
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_entry_of_a_server_or_a_disabled_plugin_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("airlock.json");
        let clients = json!({"mcp": {"client_configs": [
            {"name": "server", "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp"},
            {"name": "off", "connection_type": "wasm", "disabled": true, "wasm_config": {"component": "x"}},
        ]}});
        fs::write(&path, clients.to_string()).expect("written");
        let mut document = Document::open(&path).expect("a good file");
        insta::assert_snapshot!(refusal(&mut document, "server"), @"the configuration has another client named server, of the type http; choose a name with --name");
        insta::assert_snapshot!(refusal(&mut document, "off"), @"the client off is disabled in the configuration");
        fs::write(&path, r#"{"mcp": {}, "mcp": {}}"#).expect("written");
        assert!(Document::open(&path).is_err(), "a key that is written twice would be lost");
    }

    fn refusal(document: &mut Document, name: &str) -> String {
        let name = ClientName::parse(name).expect("a name");
        document.plugin(&name).expect_err("refused").to_string()
    }
}
