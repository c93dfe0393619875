//! Changes one entry of a configuration file. Everything else in the file keeps its value and its
//! order.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize as _;
use serde_json::{Map, Value, json};

use crate::file::{StagedFile, directory_of};
use airlock_config::{Config, ConfigError, KeyPath, Problem, environment};
use airlock_core::tool::ClientName;

/// A configuration file that is being changed.
#[derive(Clone)]
pub struct ConfigDocument {
    path: PathBuf,
    /// The text that was read; `None` if there was no file.
    read: Option<String>,
    root: Map<String, Value>,
    indent: String,
}

/// Reason that a configuration file cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The directory that the file would be created in does not exist.
    #[error("{path}: there is no directory {directory}")]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// The missing directory.
        directory: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{path} cannot be {what}")]
    Io {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// The I/O error.
        source: io::Error,
    },
    /// The file has changed since it was read.
    #[error("{path} has changed meanwhile; it stays as it is, try again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a valid configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another source of tools has the name.
    #[error(
        "the configuration has another client named {name}, of the type {kind}; choose a name with --name"
    )]
    NotAPlugin {
        /// The name.
        name: ClientName,
        /// Its `connection_type`.
        kind: String,
    },
    /// The plugin is disabled.
    #[error("the client {0} is disabled in the configuration")]
    Disabled(ClientName),
    /// The entry has no settings of a plugin.
    #[error("the client {0} has no `wasm_config`")]
    NoSettings(ClientName),
}

impl ConfigDocument {
    /// Reads a file that must already be a valid configuration. Starts an empty one if there is no
    /// such file.
    pub fn open(path: &Path) -> Result<Self, DocumentError> {
        let path = path.to_owned();
        let Some(text) = read(&path)? else {
            let directory = directory_of(&path).to_owned();
            if !directory.is_dir() {
                return Err(DocumentError::NoDirectory { path, directory });
            }
            return Ok(Self { path, read: None, root: Map::new(), indent: "  ".to_owned() });
        };
        // Stricter than the parser below, which would lose a key that is written twice.
        Config::parse(&text, &path.display().to_string(), &environment)?;
        match serde_json::from_str(&text) {
            Ok(root) => {
                let indent = indentation(&text);
                Ok(Self { path, read: Some(text), root, indent })
            }
            Err(error) => Err(DocumentError::Io { path, what: "read", source: error.into() }),
        }
    }

    /// Returns the `wasm_config` of the plugin with this name. Adds an entry if there is none.
    pub fn plugin(&mut self, name: &ClientName) -> Result<&mut Map<String, Value>, DocumentError> {
        let clients = list(object(&mut self.root, "mcp"), "client_configs");
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
        if !matches!(kind, "wasm" | "inprocess") {
            return Err(DocumentError::NotAPlugin { name: name.clone(), kind: kind.to_owned() });
        }
        if client["disabled"] == true {
            return Err(DocumentError::Disabled(name.clone()));
        }
        let settings = client["wasm_config"].as_object_mut();
        settings.ok_or_else(|| DocumentError::NoSettings(name.clone()))
    }

    /// Returns whether a client has this name.
    pub fn has(&self, name: &ClientName) -> bool {
        self.position(name).is_some()
    }

    fn position(&self, name: &ClientName) -> Option<usize> {
        self.entries().iter().position(|client| client["name"] == name.as_str())
    }

    /// Returns the entries of all clients.
    pub fn entries(&self) -> &[Value] {
        let clients = self.root.get("mcp").and_then(|mcp| mcp["client_configs"].as_array());
        clients.map_or(&[], Vec::as_slice)
    }

    /// Returns the key of the `wasm_config` of the client with this name.
    pub(super) fn key(&self, name: &ClientName) -> KeyPath {
        entry_key(self.position(name).unwrap_or_default())
    }

    /// Parses the changed file as a configuration.
    pub fn config(&self) -> Result<Config, DocumentError> {
        Ok(Config::parse(&self.text(), &self.file(), &environment)?)
    }

    /// Parses the changed file as far as it is valid. Returns its problems too.
    pub(super) fn valid_parts(&self) -> (Option<Config>, Vec<Problem>) {
        Config::parse_valid_parts(&self.text(), &self.file(), &environment)
    }

    /// Returns the name of the file in messages.
    pub(super) fn file(&self) -> String {
        self.path.display().to_string()
    }

    /// Writes the changed file beside the old one, which [`put`] replaces. Fails if the old one has changed since it was
    /// read: a grant that the operator has removed meanwhile must not return.
    pub(super) fn stage(&self) -> Result<StagedFile, DocumentError> {
        if read(&self.path)? != self.read {
            return Err(DocumentError::Changed { path: self.path.clone() });
        }
        stage(&self.path, self.text().as_bytes())
    }

    fn text(&self) -> String {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        self.root.serialize(&mut serializer).expect("JSON can be written to memory");
        bytes.push(b'\n');
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }
}

/// Returns the object at a key, which is created if it is not there.
pub(super) fn object<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> &'a mut Map<String, Value> {
    let object = parent.entry(key).or_insert_with(|| json!({}));
    if !object.is_object() {
        *object = json!({});
    }
    object.as_object_mut().expect("it was made one above")
}

/// Returns the list at a key, which is created if it is not there.
pub(super) fn list<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let list = parent.entry(key).or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("it was made one above")
}

/// Returns the key of the `wasm_config` of a client by its place in the list.
pub fn entry_key(index: usize) -> KeyPath {
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

/// Reads a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, DocumentError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DocumentError::Io { path: path.to_owned(), what: "read", source }),
    }
}

/// Writes new content of a file beside it. Creates its directory if there is none.
pub(super) fn stage(path: &Path, bytes: &[u8]) -> Result<StagedFile, DocumentError> {
    let staged =
        fs::create_dir_all(directory_of(path)).and_then(|()| StagedFile::write(path, bytes));
    staged.map_err(|source| DocumentError::Io { path: path.to_owned(), what: "written", source })
}

/// Puts new content in the place of a file.
pub(super) fn put(staged: StagedFile) -> Result<(), DocumentError> {
    let path = staged.target().to_owned();
    staged.put().map_err(|source| DocumentError::Io { path, what: "written", source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_does_not_exist_is_begun_only_in_a_directory_that_does() {
        let home = tempfile::tempdir().expect("a directory");
        assert!(ConfigDocument::open(&home.path().join("airlock.json")).is_ok());
        let path = home.path().join("nowhere/airlock.json");
        let refused =
            ConfigDocument::open(&path).map(|_| ()).expect_err("no directory").to_string();
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
            let mut document = ConfigDocument::open(&path).expect("a good file");
            document.plugin(&name).expect("an entry").insert("component".into(), json!(component));
            document.config().expect("it is still good");
            document.stage().and_then(put).expect("written");
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
        let mut document = ConfigDocument::open(&path).expect("a good file");
        insta::assert_snapshot!(refusal(&mut document, "server"), @"the configuration has another client named server, of the type http; choose a name with --name");
        insta::assert_snapshot!(refusal(&mut document, "off"), @"the client off is disabled in the configuration");
        fs::write(&path, r#"{"mcp": {}, "mcp": {}}"#).expect("written");
        assert!(ConfigDocument::open(&path).is_err(), "a key that is written twice would be lost");
    }

    fn refusal(document: &mut ConfigDocument, name: &str) -> String {
        let name = ClientName::parse(name).expect("a name");
        document.plugin(&name).expect_err("refused").to_string()
    }
}
