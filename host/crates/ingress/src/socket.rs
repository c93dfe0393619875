//! The Unix socket of the management API: its listener, and a client for the command line. The
//! permissions of two files are the credential: that of the socket, and that of its [token](token_path).

mod client;
mod token;

use std::{
    fs::{self, File, Permissions},
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        },
    },
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};

pub use self::{
    client::request,
    token::{SocketToken, token_path},
};

/// Maximum length of the path of a Unix socket, in bytes: `sun_path` of `sockaddr_un` has room for
/// 108 with the terminating zero.
pub const MAX_PATH_BYTES: usize = 107;
/// Mode of the directory in which a socket is made.
const DIRECTORY_MODE: u32 = 0o700;
/// Mode of a socket when it gets its place.
const SOCKET_MODE: u32 = 0o600;
/// Permission of every user to create and rename files in a directory.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Restriction of that permission to files of one's own.
const STICKY: u32 = 0o1000;
/// Name of a socket in the directory where it is made.
const NAME: &str = "s";

/// Listener on a Unix socket. Dropping it removes the path of the socket, unless another file is
/// there by now.
#[derive(Debug)]
pub struct SocketListener {
    // Dropped before the listener. While the listener is open, no other file can have its inode
    // number.
    _path: BoundPath,
    _token_path: BoundPath,
    token: SocketToken,
    listener: UnixListener,
}

impl SocketListener {
    /// Binds a socket to `path`. A socket that is there is replaced if no program listens on it.
    ///
    /// The socket is made in a new directory of mode 0700 beside `path`, gets the mode 0600 there,
    /// and is then renamed to `path`. So no other user can connect to it at any moment.
    ///
    /// A file beside it, with the mode 0600 too, has a [token](token_path) that each request must have.
    ///
    /// The permissions of these files are the only credential. The user at the other end of a
    /// connection (`SO_PEERCRED`) is not checked as well: an operator may grant a group access
    /// with `chown` and `chmod`, and a check that accepts only the gateway's user would make that
    /// ineffective without a reason that shows. A mode that was changed by mistake therefore
    /// grants access to those it names; keep the socket in a directory that they cannot enter.
    ///
    /// Fails if `path` is longer than 107 bytes, if it leads to another kind of file or to a socket
    /// on which a program listens, or if every user may rename files in its directory. Must be
    /// called in the context of a Tokio runtime. Dropping the future leaves nothing behind.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        check_length(path)?;
        let directory = directory_of(path);
        check_directory(directory)?;
        check_free(path).await?;
        let made_in = private_directory(directory)
            .map_err(|error| explained(&error, "a directory cannot be made beside", path))?;
        let listener = listen_in(made_in.path())
            .map_err(|error| explained(&error, "a socket cannot be made for", path))?;
        let made = made_in.path().join(NAME);
        fs::set_permissions(&made, Permissions::from_mode(SOCKET_MODE))?;
        let (token_path, token) = token::make(made_in.path(), path)?;
        let bound = BoundPath::new(&made, path)?;
        fs::rename(&made, path)
            .map_err(|error| explained(&error, "the socket cannot be moved to", path))?;
        Ok(Self { _path: bound, _token_path: token_path, token, listener })
    }

    /// Returns the token that requests through the socket must have.
    pub(super) fn token(&self) -> SocketToken {
        self.token
    }

    /// Accepts a connection. Dropping the future loses none.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

/// Fails if a path is too long for the address of a socket.
fn check_length(path: &Path) -> io::Result<()> {
    let length = path.as_os_str().len();
    if length <= MAX_PATH_BYTES {
        return Ok(());
    }
    let path = path.display();
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        format!(
            "the path {path} has {length} bytes; the path of a Unix socket may have at most {MAX_PATH_BYTES}"
        ),
    ))
}

/// Returns the directory of a path.
fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().as_bytes().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Fails if every user may rename files of others in a directory: one could put another directory
/// in the place of that in which the socket is made.
fn check_directory(directory: &Path) -> io::Result<()> {
    let metadata = fs::metadata(directory)
        .map_err(|error| explained(&error, "cannot read the directory", directory))?;
    if metadata.mode() & (WRITABLE_BY_ALL | STICKY) != WRITABLE_BY_ALL {
        return Ok(());
    }
    let directory = directory.display();
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "every user may rename files in {directory}; the socket needs a directory in which only its own user may"
        ),
    ))
}

/// Fails if there is anything at a path but a socket on which no program listens.
async fn check_free(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(explained(&error, "cannot read", path)),
    };
    if !found.file_type().is_socket() {
        let message = format!("{} exists and is not a socket; it is not replaced", path.display());
        return Err(io::Error::new(ErrorKind::AlreadyExists, message));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        // The connections that its program has not accepted fill its queue.
        Err(error) if error.kind() != ErrorKind::WouldBlock => {
            Err(explained(&error, "cannot find out whether a program listens on", path))
        }
        Ok(_) | Err(_) => {
            let message = format!("another program listens on {}", path.display());
            Err(io::Error::new(ErrorKind::AddrInUse, message))
        }
    }
}

/// Makes a directory that only this user can enter. Removed on drop.
fn private_directory(parent: &Path) -> io::Result<TempDir> {
    let mode = Permissions::from_mode(DIRECTORY_MODE);
    tempfile::Builder::new().prefix(".airlock-").permissions(mode).tempdir_in(parent)
}

/// Makes a socket in a directory. The path of the directory may have any length.
fn listen_in(directory: &Path) -> io::Result<UnixListener> {
    let path = directory.join(NAME);
    if check_length(&path).is_ok() {
        return UnixListener::bind(path);
    }
    let directory = File::open(directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()))
}

/// Returns an error of the same kind that tells what failed.
fn explained(error: &io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

/// The path of a socket or of its token. Removed on drop if it still leads to that file.
#[derive(Debug)]
struct BoundPath {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl BoundPath {
    /// Notes that the file `made` gets the path `path`.
    fn new(made: &Path, path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(made)?;
        Ok(Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }

    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode)
    }
}

impl Drop for BoundPath {
    fn drop(&mut self) {
        if self.is_there() {
            // A path that stays is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
