//! `airlock.lock`: the accepted state of each plugin, and the accepted definitions of MCP servers.
//! The file is beside the configuration, and the operator keeps it under version control. If it lists
//! plugins, a plugin that differs from it, or that it does not list, is not loaded. What differs is shown line
//! by line.

mod digest;
mod file;
mod line_diff;
mod reading;

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use airlock_core::{regular_file, tool::ClientName};
use airlock_strings::{visible, visible_json};

pub use self::{
    digest::{digest, sorted},
    file::{WATCH_PERIOD, file_version},
    line_diff::{CONTEXT_LINES, MAX_COMPARED_LINES, MAX_DIFF_LINES, diff_deadline, diff_lines},
    reading::{FileReadings, READING_PATIENCE},
};

/// File name, beside the configuration.
pub const FILE_NAME: &str = "airlock.lock";
/// Version of the format that this build writes and reads.
const VERSION: u32 = 1;
/// Maximum size of the file, in bytes, so that a path to another file by mistake does not fill the memory.
const MAX_BYTES: u64 = 64 << 20;
const HEAD: &str = "# The accepted state of plugins and of the tools of MCP servers; keep it under version control.\n\
                    # Written by `airlock plugin accept` and `airlock upstream accept`. The gateway uses nothing that has\n\
                    # changed since: `airlock plugin diff` and `airlock upstream diff` show the changes.\n\n";

/// The accepted state of plugins and MCP servers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lock {
    /// `None` if the file says nothing about plugins.
    pins: Option<Vec<Pin>>,
    upstreams: Vec<UpstreamLock>,
}

/// The accepted definitions of one MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UpstreamLock {
    client: String,
    #[serde(default, rename = "tool")]
    tools: Vec<LockedTool>,
}

/// One accepted definition of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTool {
    /// Name of the tool at its server.
    pub name: String,
    /// Digest of the definition, `sha256:` and hexadecimal.
    pub digest: String,
    /// The whole definition, as JSON.
    pub definition: String,
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
    /// Place that it was installed from: `oci://` with the digest of the manifest, or `https://`. Absent for
    /// a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Publisher whose signature it had when it was accepted, by the name in `plugins.publishers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
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
struct LockDocument {
    version: u32,
    #[serde(default, rename = "plugin", skip_serializing_if = "Option::is_none")]
    plugins: Option<Vec<Pin>>,
    #[serde(default, rename = "upstream", skip_serializing_if = "Vec::is_empty")]
    upstreams: Vec<UpstreamLock>,
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
    #[error("{path} is not a lock file: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// The file has changed since it was read, or another process writes it now.
    #[error(
        "{path} has changed meanwhile, or another process writes it; it stays as it is, try again"
    )]
    Changed {
        /// The file.
        path: PathBuf,
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

impl LockError {
    fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), what: "read", source }
    }

    fn malformed(path: &Path, reason: String) -> Self {
        Self::Malformed { path: path.to_owned(), reason }
    }
}

impl Lock {
    /// Creates the lock of one accepted plugin.
    pub fn of_one(pin: Pin) -> Self {
        Self { pins: Some(vec![pin]), upstreams: Vec::new() }
    }

    /// Reads the file; `None` if it does not exist. Fails if it cannot be read, is not a regular file, or is a
    /// dangling symbolic link, because the accepted state is then unknown.
    pub fn load(path: &Path) -> Result<Option<Self>, LockError> {
        let text = match regular_file::open(path).and_then(read) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && fs::symlink_metadata(path).is_err() =>
            {
                return Ok(None);
            }
            Err(error) => return Err(LockError::unreadable(path, error)),
            Ok(text) => text,
        };
        if text.len() as u64 > MAX_BYTES {
            return Err(LockError::malformed(path, format!("more than {MAX_BYTES} bytes")));
        }
        let file: LockDocument =
            toml::from_str(&text).map_err(|error| LockError::malformed(path, error.to_string()))?;
        if file.version != VERSION {
            let reason = format!("found version {}, this build reads {VERSION}", file.version);
            return Err(LockError::malformed(path, reason));
        }
        let LockDocument { plugins, upstreams, .. } = file;
        // A file without any section is an empty list of plugins: nothing is accepted.
        let pins = plugins.or_else(|| upstreams.is_empty().then(Vec::new));
        Ok(Some(Self { pins, upstreams }))
    }

    /// Reads the file as far as it is about plugins; `None` if it does not exist or says nothing
    /// about plugins. Fails as [`Self::load`] does.
    pub fn load_of_plugins(path: &Path) -> Result<Option<Self>, LockError> {
        Ok(Self::load(path)?.filter(Self::is_of_plugins))
    }

    /// Returns whether the file says which plugins are accepted. A file that was written for MCP
    /// servers alone does not.
    pub fn is_of_plugins(&self) -> bool {
        self.pins.is_some()
    }

    /// Replaces the file atomically: a reader sees the old file or the new one. Fails if it would be larger than a
    /// lock file that is read.
    pub fn save(&self, path: &Path) -> Result<(), LockError> {
        let plugins = self.pins.clone();
        let upstreams = self.upstreams.clone();
        let text = toml::to_string(&LockDocument { version: VERSION, plugins, upstreams });
        let saved = text.map_err(io::Error::other).and_then(|text| replace(path, &text));
        saved.map_err(|source| LockError::Io { path: path.to_owned(), what: "written", source })
    }

    /// Replaces the file as [`Self::save`] does, if it still has the state that was `read`; `None` if there was no file.
    /// Fails if it has another state, or if another process writes it: what another command has accepted or withdrawn
    /// meanwhile must not be undone.
    pub fn save_over(&self, path: &Path, read: Option<&Self>) -> Result<(), LockError> {
        // Locked from the comparison to the end. On file systems without locks, only the comparison is left.
        let directory = File::open(directory_of(path)).ok();
        let attempt = directory.as_ref().map(File::try_lock);
        let is_busy = matches!(attempt, Some(Err(TryLockError::WouldBlock)));
        if is_busy || Self::load(path)?.as_ref() != read {
            return Err(LockError::Changed { path: path.to_owned() });
        }
        self.save(path)
    }

    /// Returns the accepted state of a client; `None` if it was never accepted.
    pub fn pin(&self, client: &ClientName) -> Option<&Pin> {
        self.pins.iter().flatten().find(|pin| pin.client == client.as_str())
    }

    /// Accepts this state of a plugin, in the place of an earlier one. Invisible characters of the tools are
    /// made visible, so that a reader of the file sees them.
    pub fn accept(&mut self, pin: Pin) {
        let tools = pin.tools.into_iter().map(|tool| PinnedTool {
            description: visible(&tool.description),
            definition: visible_json(&tool.definition),
            ..tool
        });
        let pin = Pin { tools: tools.collect(), ..pin };
        let pins = self.pins.get_or_insert_default();
        pins.retain(|other| other.client != pin.client);
        pins.push(pin);
        pins.sort_by(|one, other| one.client.cmp(&other.client));
    }

    /// Removes a client. Returns whether it was present.
    pub fn remove(&mut self, client: &ClientName) -> bool {
        let Some(pins) = &mut self.pins else { return false };
        let before = pins.len();
        pins.retain(|pin| pin.client != client.as_str());
        pins.len() < before
    }

    /// Returns the accepted definitions of an MCP server; `None` if nothing of it was ever accepted.
    pub fn upstream(&self, client: &ClientName) -> Option<&[LockedTool]> {
        let found = self.upstreams.iter().find(|upstream| upstream.client == client.as_str());
        found.map(|upstream| upstream.tools.as_slice())
    }

    /// Accepts these definitions of an MCP server, and no others. Invisible characters of the
    /// definitions are escaped, so that a reader of the file sees them.
    pub fn accept_upstream(&mut self, client: &ClientName, tools: Vec<LockedTool>) {
        self.upstreams.retain(|upstream| upstream.client != client.as_str());
        let escaped = tools
            .into_iter()
            .map(|tool| LockedTool { definition: visible_json(&tool.definition), ..tool });
        let tools = escaped.collect();
        self.upstreams.push(UpstreamLock { client: client.to_string(), tools });
        self.upstreams.sort_by(|one, other| one.client.cmp(&other.client));
    }
}

impl PinnedTool {
    /// Returns the definition as JSON; `null` if the file was edited and the text is not JSON.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.definition).unwrap_or_default()
    }
}

/// Reads a file, up to one byte more than a lock file may have.
fn read(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file by the head and `text`. Fails if it would be larger than a lock file that is read: then no
/// plugin would be loaded.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let bytes = (HEAD.len() + text.len()) as u64;
    if bytes > MAX_BYTES {
        let problem = format!("it would have {bytes} bytes; the limit is {MAX_BYTES}");
        return Err(io::Error::other(problem));
    }
    let mut file = tempfile::NamedTempFile::new_in(directory_of(path))?;
    file.write_all(HEAD.as_bytes())?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    // Readable by others, as the operator's other files are; a temporary file is not.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Returns the directory of a file, which is the working directory for a bare name.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> ClientName {
        ClientName::parse(name).expect("a name")
    }

    fn locked(name: &str, definition: &str) -> LockedTool {
        let name = name.to_owned();
        let definition = definition.to_owned();
        LockedTool { name, digest: "sha256:00".to_owned(), definition }
    }

    fn pin(client: &str) -> Pin {
        Pin {
            client: client.to_owned(),
            id: None,
            version: None,
            component: digest(b""),
            source: Some("oci://r.example/guest@sha256:00".to_owned()),
            publisher: Some("ann".to_owned()),
            descriptors: digest(b"[]"),
            requests: Vec::new(),
            tools: Vec::new(),
        }
    }

    #[test]
    fn a_file_for_servers_alone_says_nothing_about_plugins() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE_NAME);
        let mut lock = Lock::default();
        lock.accept_upstream(&client("up"), vec![locked("add", "{}")]);
        lock.save(&path).expect("written");
        let read = Lock::load(&path).expect("read").expect("it is there");
        assert_eq!(read, lock);
        assert!(!read.is_of_plugins() && Lock::load_of_plugins(&path).expect("read").is_none());
        assert_eq!(read.upstream(&client("up")), Some(&[locked("add", "{}")][..]));
        assert_eq!(read.upstream(&client("other")), None);
        lock.accept(pin("guest"));
        lock.save(&path).expect("written");
        let read = Lock::load_of_plugins(&path).expect("read").expect("it is of plugins");
        assert_eq!(read, lock);
        lock.remove(&client("guest"));
        lock.save(&path).expect("written");
        assert!(Lock::load_of_plugins(&path).expect("read").is_some(), "all plugins are refused");
    }

    #[test]
    fn of_two_writers_that_have_read_the_same_file_the_second_one_writes_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE_NAME);
        let mut one = Lock::default();
        one.accept_upstream(&client("one"), vec![locked("add", "{}")]);
        let mut other = Lock::default();
        other.accept_upstream(&client("other"), Vec::new());
        one.save_over(&path, None).expect("there is no file");
        for read in [None, Some(&other)] {
            let refused = other.save_over(&path, read).expect_err("the first one has written");
            assert!(matches!(refused, LockError::Changed { .. }), "{refused:?}");
            assert_eq!(Lock::load(&path).expect("read").as_ref(), Some(&one));
        }
        let writing = File::open(home.path()).expect("the directory");
        writing.lock().expect("it is free");
        let refused = other.save_over(&path, Some(&one)).expect_err("another process writes");
        assert!(matches!(refused, LockError::Changed { .. }), "{refused:?}");
        drop(writing);
        other.save_over(&path, Some(&one)).expect("nothing has changed");
        assert_eq!(Lock::load(&path).expect("read"), Some(other));
    }

    #[test]
    fn a_dangling_link_in_the_place_of_the_file_is_an_error() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE_NAME);
        assert!(Lock::load(&path).expect("there is no file").is_none());
        std::os::unix::fs::symlink(home.path().join("nothing"), &path).expect("linked");
        let refused = Lock::load(&path).expect_err("the state is unknown");
        assert!(matches!(refused, LockError::Io { what: "read", .. }), "{refused:?}");
    }

    #[test]
    fn a_device_in_the_place_of_the_file_is_not_read() {
        let refused = Lock::load(Path::new("/dev/null")).expect_err("it is no file");
        assert!(matches!(refused, LockError::Io { what: "read", .. }), "{refused:?}");
    }

    #[test]
    fn a_file_without_sections_accepts_no_plugin_and_an_unknown_section_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE_NAME);
        fs::write(&path, "version = 1\n").expect("written");
        assert!(Lock::load_of_plugins(&path).expect("read").is_some());
        for text in [
            "version = 1\n[[server]]\nclient = 'up'\n",
            "version = 1\n[[upstream]]\nclient = 'up'\nmode = 'off'\n",
            "version = 1\n[[upstream]]\nclient = 'up'\n[[upstream.tool]]\nname = 'a'\n",
        ] {
            fs::write(&path, text).expect("written");
            assert!(matches!(Lock::load(&path), Err(LockError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn a_file_that_could_not_be_read_again_is_not_written() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE_NAME);
        let room = usize::try_from(MAX_BYTES).expect("it fits") - HEAD.len();
        let text = "x".repeat(room + 1);
        assert!(replace(&path, &text).is_err() && !path.exists());
        replace(&path, &text[..room]).expect("it fits");
        assert_eq!(fs::metadata(&path).expect("it is there").len(), MAX_BYTES);
    }

    #[test]
    fn invisible_characters_of_a_definition_are_escaped_in_the_file() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE_NAME);
        let definition = "{\"description\":\"a\u{202e}b\u{e0041}é\"}";
        let mut lock = Lock::default();
        lock.accept_upstream(&client("up"), vec![locked("add", definition)]);
        let tool = PinnedTool {
            name: "add".to_owned(),
            description: "a\u{202e}b".to_owned(),
            definition: definition.to_owned(),
        };
        lock.accept(Pin { tools: vec![tool], ..pin("guest") });
        lock.save(&path).expect("written");
        let text = fs::read_to_string(&path).expect("read");
        assert_eq!(text.matches(r"a\u202eb\udb40\udc41é").count(), 2, "{text}");
        assert!(text.contains("a⟨U+202E⟩b") && !text.contains('\u{202e}'), "{text}");
        let read = Lock::load(&path).expect("read").expect("it is there");
        let tool = &read.upstream(&client("up")).expect("accepted")[0];
        let value: Value = serde_json::from_str(&tool.definition).expect("JSON");
        assert_eq!(value, serde_json::from_str::<Value>(definition).expect("JSON"));
        assert_eq!(read.pin(&client("guest")).expect("accepted").tools[0].value(), value);
    }
}
