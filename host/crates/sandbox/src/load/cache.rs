//! Cache of native code on disk: a component is compiled once, and from then on mapped from its
//! file.
//!
//! Loading native code is running it. So only this user can write to the directory. Every file is
//! written whole, made read-only and never changed. It ends with a keyed digest of itself; the key
//! is in the same directory, in a file that only this user can read. An attacker who can write to
//! the directory but cannot read the key (through a restored backup, a shared volume, or a path
//! that a program was tricked into) cannot plant a file that is loaded. Nothing on disk protects
//! against an attacker with all rights of this user.
//!
//! The digest follows the code in the same file, so that one rename replaces both. It does not
//! precede the code, because the code is mapped in place and must begin on a page boundary. The
//! digest also covers the file's name. The name is itself a digest of the component's bytes, every
//! compiler setting and the exact version of the engine (`Engine::precompile_compatibility_hash`;
//! the version check in the code itself accepts other patch releases).
//!
//! The directory is bounded: when a file is stored, the least recently used ones are evicted
//! ([`prune`]).

mod functions;
mod key;
mod prune;

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{Hash as _, Hasher},
    io::{self, Read as _, Seek as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{
            DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
        },
    },
    path::{Path, PathBuf},
};

use airlock_strings::hex;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use tracing::{debug, warn};
use wasmtime::{Engine, component::Component};

pub(crate) use self::functions::FunctionCache;
use self::key::Key;
use super::compile::Form;

/// Version of the cache's format, part of every name and digest. It is raised when the content that
/// is stored under a name changes its meaning.
const GENERATION: &[u8] = b"airlock code cache 2";
/// Mode of every file of code: its owner may read it, nothing else is allowed.
const CODE_MODE: u32 = 0o400;
/// End of the name of every file of code.
const CODE_SUFFIX: &str = ".cwasm";
/// Most bytes of all files of code. An interpreter of Python or JavaScript takes 25 to 40 MB, and each
/// build of a plugin stores one.
const MAX_BYTES: u64 = 4 << 30;

/// A directory of compiled components.
pub(crate) struct CodeCache {
    directory: PathBuf,
    key: Key,
    /// Size limit of all files of code.
    max_bytes: u64,
}

/// Name of compiled code: a digest of the component and of everything that its compilation depends
/// on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CodeName(String);

/// Reason that a file of the cache is not loaded.
#[derive(Debug, thiserror::Error)]
enum Distrust {
    #[error("it is a {0}")]
    Kind(&'static str),
    #[error("it belongs to user {found}, not to {own}")]
    Owner { found: u32, own: u32 },
    #[error("its mode is {found:o}, not {CODE_MODE:o}")]
    Mode { found: u32 },
    #[error("it has {found} hard links, not one")]
    Links { found: u64 },
    #[error("its digest is not the one that it was written with")]
    Digest,
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the engine does not accept it: {0:#}")]
    Engine(wasmtime::Error),
}

impl CodeName {
    pub(crate) fn new(engine: &Engine, form: Form, wasm: &[u8]) -> Self {
        let mut key = KeyHasher(Sha256::new_with_prefix(GENERATION));
        form.hash(&mut key);
        key.write(&Sha256::digest(wasm));
        engine.precompile_compatibility_hash().hash(&mut key);
        Self(hex(&key.0.finalize()))
    }

    /// Returns the name of the file of functions. The key of each function covers the compiler and its
    /// settings.
    fn functions() -> Self {
        Self(hex(&Sha256::new_with_prefix(GENERATION).chain_update(b"functions").finalize()))
    }
}

impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a digest of everything that compiled code depends on besides the component. Two engines
/// with the same digest can load each other's code.
pub(crate) fn settings_digest(engine: &Engine) -> String {
    let mut key = KeyHasher(Sha256::new_with_prefix(GENERATION));
    engine.precompile_compatibility_hash().hash(&mut key);
    hex(&key.0.finalize())
}

impl CodeCache {
    /// Opens the directory and its key, or makes them. Fails if it is not a directory that only
    /// this user can write to.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let metadata = fs::symlink_metadata(directory)?;
        if !metadata.is_dir() || metadata.uid() != own_user() || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} must be a directory that only this user can write to",
                    directory.display()
                ),
            ));
        }
        let key = Key::of(directory)?;
        Ok(Self { directory: directory.to_owned(), key, max_bytes: MAX_BYTES })
    }

    /// Returns the path of the directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether there is a file under this name. The file is not verified, so loading may
    /// still refuse it.
    pub(crate) fn holds(&self, name: &CodeName) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Loads code that was compiled before; `None` if there is none. A file that is not exactly
    /// what was written is removed and not loaded.
    pub(crate) fn load(&self, engine: &Engine, name: &CodeName) -> Option<Component> {
        let path = self.path(name);
        let component = self.read(engine, name, &path);
        component.map_err(|reason| discard(&path, &reason)).ok()
    }

    /// Returns the functions that were kept; none if there is no file that is exactly what was written.
    pub(crate) fn functions(&self) -> FunctionCache {
        let name = CodeName::functions();
        let path = self.path(&name);
        let functions = self.read_functions(&name, &path);
        functions.map_err(|reason| discard(&path, &reason)).unwrap_or_default()
    }

    fn read_functions(&self, name: &CodeName, path: &Path) -> Result<FunctionCache, Distrust> {
        let mut bytes = Vec::new();
        let (mut file, code_bytes) = self.verified(name, path)?;
        file.seek(io::SeekFrom::Start(0))?;
        file.take(code_bytes).read_to_end(&mut bytes)?;
        Ok(FunctionCache::from_bytes(bytes))
    }

    /// Stores the functions that were compiled, unless all of them are stored already.
    pub(crate) fn store_functions(&self, functions: &FunctionCache) -> io::Result<()> {
        match functions.to_bytes() {
            Some(bytes) => self.store(&CodeName::functions(), &bytes),
            None => Ok(()),
        }
    }

    fn read(&self, engine: &Engine, name: &CodeName, path: &Path) -> Result<Component, Distrust> {
        let (file, _) = self.verified(name, path)?;
        // The engine maps a file by its path. This path names the open file itself, so the bytes
        // that were verified are the bytes that are mapped. Its pages are in memory already, so
        // nothing is read or copied again.
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        #[expect(
            unsafe_code,
            reason = "the file was written by `store` from the engine's own serializer: it carries a digest under a key that \
                      only this user can read, and only this user can write to it; what follows the code in it is not read, \
                      since everything in the code is found from its beginning"
        )]
        let component = unsafe { Component::deserialize_file(engine, open) };
        component.map_err(Distrust::Engine)
    }

    /// Opens a file that is exactly what was written, and returns it with the length of what precedes
    /// its digest. Records that it was used.
    fn verified(&self, name: &CodeName, path: &Path) -> Result<(File, u64), Distrust> {
        let mut file = open_without_following(path)?;
        let metadata = file.metadata()?;
        check_metadata(&metadata)?;
        let code_bytes =
            metadata.len().checked_sub(blake3::OUT_LEN as u64).ok_or(Distrust::Digest)?;
        let digest = self.key.digest(name, (&mut file).take(code_bytes))?;
        let mut written = Vec::with_capacity(blake3::OUT_LEN);
        // One byte more than a digest has: a file that has grown since does not match.
        (&mut file).take(blake3::OUT_LEN as u64 + 1).read_to_end(&mut written)?;
        // Compared in constant time.
        if !blake3::Hash::from_slice(&written).is_ok_and(|written| written == digest) {
            return Err(Distrust::Digest);
        }
        prune::record_use(&file, &metadata);
        Ok((file, code_bytes))
    }

    /// Stores compiled code: writes a new file and then renames it, so that a reader sees all of it
    /// or nothing. Other files are removed if the cache is above its size limit.
    pub(crate) fn store(&self, name: &CodeName, native: &[u8]) -> io::Result<()> {
        let digest = self.key.digest(name, native)?;
        let path = self.path(name);
        write_whole(&self.directory, &path, &[native, digest.as_bytes()], CODE_MODE)?;
        if let Err(error) = prune::prune(&self.directory, &path, self.max_bytes) {
            debug!(%error, "the cache of compiled code cannot be pruned");
        }
        Ok(())
    }

    fn path(&self, name: &CodeName) -> PathBuf {
        self.directory.join(format!("{name}{CODE_SUFFIX}"))
    }
}

/// Removes a file that is not loaded, and logs the reason. A file that is not there is no failure.
fn discard(path: &Path, reason: &Distrust) {
    if matches!(reason, Distrust::Read(error) if error.kind() == io::ErrorKind::NotFound) {
        return;
    }
    warn!(path = %path.display(), %reason, "a file of compiled code is not trusted and is removed");
    if let Err(error) = fs::remove_file(path) {
        debug!(path = %path.display(), %error, "the file cannot be removed");
    }
}

fn check_metadata(metadata: &fs::Metadata) -> Result<(), Distrust> {
    if !metadata.is_file() {
        return Err(Distrust::Kind(if metadata.is_dir() { "directory" } else { "special file" }));
    }
    let found = metadata.uid();
    let own = own_user();
    if found != own {
        return Err(Distrust::Owner { found, own });
    }
    let found = metadata.mode() & 0o7777;
    if found != CODE_MODE {
        return Err(Distrust::Mode { found });
    }
    // A second hard link is a path to the file that this directory does not protect.
    match metadata.nlink() {
        1 => Ok(()),
        found => Err(Distrust::Links { found }),
    }
}

/// Opens a file for reading. Fails on a symbolic link, and does not block on a pipe.
fn open_without_following(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Writes a file that is not visible at `path` before it is complete.
fn write_whole(directory: &Path, path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<()> {
    let partial = directory.join(format!(".{}.{}", std::process::id(), uuid::Uuid::new_v4()));
    let written = write(&partial, parts, mode).and_then(|()| fs::rename(&partial, path));
    written.inspect_err(|_| {
        // Only the first error is reported.
        let _ = fs::remove_file(&partial);
    })
}

fn write(path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A `Hasher` over SHA-256. Its digest does not depend on the build, which the standard hashers do
/// not promise.
struct KeyHasher(Sha256);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
