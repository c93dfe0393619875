//! `airlock.lock`: the accepted state of each plugin. It lies beside the configuration, and the
//! operator keeps it under version control. If it exists, a plugin that differs from it or is not
//! in it is not loaded.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Metadata, metadata::canonical_tool};
use crate::tool::{ClientName, ToolDefinition};

/// File name, beside the configuration.
pub const FILE_NAME: &str = "airlock.lock";
/// Version of the format that this build writes and reads.
const VERSION: u32 = 1;
/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 << 20;
const HEAD: &str = "# What was accepted of each plugin. Written by `airlock plugin accept`; keep it under version control.\n\
                    # The gateway does not load what has changed since: `airlock plugin diff` tells what.\n\n";

/// The accepted state of all plugins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lock {
    pins: Vec<Pin>,
}

/// The accepted state of one plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The client.
    pub client: String,
    /// Name of the plugin in its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Version of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digest of the component.
    pub component: String,
    /// Digest of the tool descriptors.
    pub descriptors: String,
    /// Requested rights.
    pub requests: Vec<String>,
    /// Tools, so that a change can be shown.
    #[serde(default, rename = "tool")]
    pub tools: Vec<PinnedTool>,
}

/// One accepted tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedTool {
    /// Name that the plugin uses.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The whole definition, as JSON.
    pub definition: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default, rename = "plugin")]
    plugins: Vec<Pin>,
}

/// Reason that a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file exists but cannot be read, or it cannot be written.
    #[error("{path} cannot be {what}")]
    Io {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The file is not a lock file of this version.
    #[error("{path} is no lock file: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// The file existed before and is missing now.
    #[error(
        "{path} was there and is gone, so that nothing tells what was accepted; put it back, or restart to go on without"
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
}

impl Lock {
    /// Creates the lock of one accepted plugin.
    pub(super) fn of(pin: Pin) -> Self {
        Self { pins: vec![pin] }
    }

    /// Reads the file; `None` if it does not exist. Fails if it cannot be read, because the
    /// accepted state is then unknown.
    pub fn load(path: &Path) -> Result<Option<Self>, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), what: "read", source };
        let malformed = |reason: String| LockError::Malformed { path: path.to_owned(), reason };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(malformed(format!("more than {MAX_BYTES} bytes")));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let file: File = toml::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        if file.version != VERSION {
            return Err(malformed(format!(
                "found version {}, this build reads {VERSION}",
                file.version
            )));
        }
        Ok(Some(Self { pins: file.plugins }))
    }

    /// Replaces the file atomically: a reader sees the old file or the new one.
    pub fn save(&self, path: &Path) -> Result<(), LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), what: "written", source };
        let text = toml::to_string(&File { version: VERSION, plugins: self.pins.clone() })
            .map_err(|error| failed(io::Error::other(error)))?;
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        let written =
            file.write_all(HEAD.as_bytes()).and_then(|()| file.write_all(text.as_bytes()));
        written.and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        // Readable by others, as the operator's other files are; a temporary file is not.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Returns the accepted state of a client; `None` if it was never accepted.
    pub fn pin(&self, client: &ClientName) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.client == client.as_str())
    }

    /// Accepts the current state of a plugin.
    pub fn accept(&mut self, client: &ClientName, metadata: &Metadata) {
        self.remove(client);
        self.pins.push(Pin::of(client, metadata));
        self.pins.sort_by(|one, other| one.client.cmp(&other.client));
    }

    /// Removes a client. Returns whether it was present.
    pub fn remove(&mut self, client: &ClientName) -> bool {
        let before = self.pins.len();
        self.pins.retain(|pin| pin.client != client.as_str());
        self.pins.len() < before
    }
}

impl Pin {
    /// Returns the current state of a plugin.
    pub(super) fn of(client: &ClientName, metadata: &Metadata) -> Self {
        let tool = |tool: &ToolDefinition| PinnedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            definition: canonical_tool(tool).to_string(),
        };
        Self {
            client: client.to_string(),
            id: metadata.id().map(str::to_owned),
            version: metadata.manifest.as_ref().map(|manifest| manifest.version.to_string()),
            component: metadata.digest.clone(),
            descriptors: metadata.descriptors(),
            requests: metadata.lock_lines(),
            tools: metadata.tools.iter().map(tool).collect(),
        }
    }
}

impl PinnedTool {
    /// Returns the definition as JSON; `null` if the file was edited and the text is not JSON.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.definition).unwrap_or_default()
    }
}
