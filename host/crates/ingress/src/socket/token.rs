//! The token of a Unix socket, in a file beside it that only the gateway's own user can read.
//!
//! The mode of the socket alone would not be enough: Landlock, by which servers are confined, keeps a
//! process from files and not from sockets. A confined server runs as the gateway's user, and could
//! make itself an administrator. It cannot read the file, unless its operator lets it read the directory.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use http::HeaderValue;
use uuid::Uuid;

use super::{BoundPath, SOCKET_MODE, explained};
use airlock_core::door::credential_digest;

/// End of the file's name, after that of the socket.
const SUFFIX: &str = ".token";
/// Name of the file in the directory where it is made.
const NAME: &str = "t";
/// Longest file with a token, in bytes. A token has 64 hexadecimal digits.
const MAX_BYTES: u64 = 256;

/// Digest of the token of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketToken([u8; 32]);

impl SocketToken {
    /// Returns whether a credential is the token. Compares digests, so the time of it tells nothing.
    pub fn accepts(self, credential: &str) -> bool {
        credential_digest(credential) == self.0
    }

    /// Returns the digest of a token.
    pub fn new(token: &str) -> Self {
        Self(credential_digest(token))
    }
}

impl fmt::Debug for SocketToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocketToken")
    }
}

/// Returns the path of the file with the token of a socket.
pub fn token_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Makes a token for the socket that will be at `socket`. The file is made in the directory `made_in`,
/// which no other user can enter, and then takes its place.
pub(super) fn make(made_in: &Path, socket: &Path) -> io::Result<(BoundPath, SocketToken)> {
    let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let made = made_in.join(NAME);
    let path = token_path(socket);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(SOCKET_MODE)
        .open(&made)
        .and_then(|mut file| file.write_all(token.as_bytes()))
        .map_err(|error| explained(&error, "a token cannot be written for", socket))?;
    let bound = BoundPath::new(&made, &path)?;
    fs::rename(&made, &path)
        .map_err(|error| explained(&error, "the token cannot be moved to", &path))?;
    Ok((bound, SocketToken::new(&token)))
}

/// Reads the token of a socket as the value of `Authorization`. Fails if this user may not read it, or
/// if no gateway has made one.
pub(super) fn read(socket: &Path) -> io::Result<HeaderValue> {
    let path = token_path(socket);
    let mut token = String::new();
    File::open(&path)
        .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut token))
        .map_err(|error| explained(&error, "cannot read the token in", &path))?;
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(io::Error::other)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_in_a_file_of_its_user_alone_and_differs_each_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("a.sock");
        let (bound, token) = make(directory.path(), &socket).expect("it is made");
        let path = token_path(&socket);
        assert_eq!(path, directory.path().join("a.sock.token"));
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let sent = read(&socket).expect("it can be read");
        let sent = sent.to_str().expect("text").strip_prefix("Bearer ").expect("a scheme");
        assert!(token.accepts(sent) && !token.accepts("") && sent.len() == 64);
        assert!(!format!("{token:?}").contains(sent));
        let (next, other) = make(directory.path(), &socket).expect("it is replaced");
        assert!(!other.accepts(sent));
        drop(bound);
        assert!(path.exists(), "the file is another one by now");
        drop(next);
        assert!(!path.exists());
        assert_eq!(read(&socket).expect_err("gone").kind(), io::ErrorKind::NotFound);
    }
}
