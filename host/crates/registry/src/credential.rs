//! Credentials of registries, from the configuration file of Docker.

use std::{
    collections::BTreeMap,
    io,
    io::Read as _,
    path::{Path, PathBuf},
};

use airlock_core::{regular_file, secret::Secret};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::HeaderValue;
use serde::Deserialize;

/// Maximum size of the file, in bytes, so that a path to another file by mistake does not fill the memory.
const MAX_BYTES: u64 = 1 << 20;

/// User and password for a registry.
#[derive(Debug, Clone)]
pub struct Credential {
    user: String,
    password: Secret,
}

/// The part of the file that is read. Helper programs are not run.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerAuth>,
}

#[derive(Deserialize)]
struct DockerAuth {
    /// User and password with `:` between them, in Base64.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// Reason that the file of Docker cannot be used. It does not quote the file.
#[derive(Debug, thiserror::Error)]
pub enum BadDockerConfig {
    /// The file exists and cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not one of Docker.
    #[error("{path} is not a configuration of Docker: it is not JSON with an object `auths`")]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// The entry of the registry has no user and password.
    #[error("{path}: the credential for {registry} is not a user and a password in Base64")]
    Credential {
        /// The file.
        path: PathBuf,
        /// The registry.
        registry: String,
    },
}

impl Credential {
    /// Creates a credential.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: Secret::new(password) }
    }

    /// Reads the credential of a registry from the member `auths` of a configuration file of Docker.
    /// `None` if there is no such file, or no such entry in it.
    pub fn from_docker(path: &Path, registry: &str) -> Result<Option<Self>, BadDockerConfig> {
        let text = match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(BadDockerConfig::Unreadable { path: path.to_owned(), source });
            }
            Ok(text) => text,
        };
        let config: DockerConfig = serde_json::from_str(&text)
            .map_err(|_| BadDockerConfig::Malformed { path: path.to_owned() })?;
        let Some((_, auth)) = config.auths.into_iter().find(|(key, _)| is_of(key, registry)) else {
            return Ok(None);
        };
        // An entry of a helper program is empty.
        if auth.auth.is_none() && auth.username.is_none() {
            return Ok(None);
        }
        let found = auth.credential().ok_or_else(|| BadDockerConfig::Credential {
            path: path.to_owned(),
            registry: registry.to_owned(),
        })?;
        Ok(Some(found))
    }

    /// Returns the credential as the value of the header `Authorization`; `None` if it cannot be one.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let pair = format!("{}:{}", self.user, self.password.expose());
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl DockerAuth {
    fn credential(self) -> Option<Credential> {
        let Some(auth) = self.auth else {
            return Some(Credential::new(self.username?, self.password?));
        };
        let pair = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
        let (user, password) = pair.split_once(':')?;
        Some(Credential::new(user, password))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    regular_file::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns whether a key of `auths` is of a registry: its host and port, also in an address as older
/// versions of Docker write it.
fn is_of(key: &str, registry: &str) -> bool {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let host = key.split('/').next().unwrap_or_default();
    host.eq_ignore_ascii_case(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(json: &str, registry: &str) -> Result<Option<String>, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), json).expect("written");
        let found = Credential::from_docker(file.path(), registry);
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.map(|found| format!("{}:{}", found.user, found.password.expose())))
    }

    #[test]
    fn the_credential_of_a_registry_is_that_of_its_host_and_port() {
        let json = r#"{"auths": {"ghcr.io": {"auth": "YW5uOnA6dw=="}, "https://r.example:5000/v2/":
            {"username": "bob", "password": "x"}, "helped.example": {}}, "credsStore": "pass"}"#;
        assert_eq!(read_from(json, "ghcr.io"), Ok(Some("ann:p:w".to_owned())));
        assert_eq!(read_from(json, "r.example:5000"), Ok(Some("bob:x".to_owned())));
        for other in ["r.example", "evil-ghcr.io", "ghcr.io.evil", "helped.example"] {
            assert_eq!(read_from(json, other), Ok(None), "{other}");
        }
        assert_eq!(read_from("{}", "ghcr.io"), Ok(None));
        let missing = Credential::from_docker(Path::new("/proc/absent"), "ghcr.io");
        assert!(missing.expect("no file is no error").is_none());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error_without_its_content() {
        for json in ["hush", r#"{"auths": {"ghcr.io": {"auth": "hush"}}}"#] {
            let error = read_from(json, "ghcr.io").expect_err("it is refused");
            assert!(!error.contains("hush"), "{error}");
        }
        let credential = Credential::new("ann", "hush");
        assert!(!format!("{credential:?} {:?}", credential.header()).contains("hush"));
    }
}
