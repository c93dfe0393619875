//! Native code on disk: compiled once, mapped from then on.
//!
//! Loading native code is running it. So the directory belongs to this user alone; every file in it
//! is written whole, made read-only and never changed; and it ends with a digest of itself under a
//! key that is kept beside it, in a file that only this user can read. Whoever can write to the
//! directory but cannot read the key, through a backup that is restored, a volume that is shared or
//! a path that a program was tricked into, can put nothing there that is loaded. Against someone
//! with all the rights of this user nothing on disk helps, and this does not pretend to.
//!
//! The digest stands behind the code and not in a file beside it, so that the two come and go with
//! one rename; and not in front, because the code is mapped as it lies and has to begin on a page.
//! It covers the file's name as well, which covers the component's bytes, every compiler setting
//! and the exact version of the engine (`Engine::precompile_compatibility_hash`; the version check
//! in the code itself lets patch releases pass).

mod key;

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{Hash as _, Hasher},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{
            DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
        },
    },
    path::{Path, PathBuf},
};

use airlock_core::text::hex;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use tracing::{debug, warn};
use wasmtime::{Engine, component::Component};

use self::key::Key;
use super::compile::Form;

/// Raised when what is written below the name changes its meaning.
const GENERATION: &[u8] = b"airlock code cache 2";
/// What every file of the cache may be done to by whom: read by its owner.
const CODE_MODE: u32 = 0o400;

/// A directory of compiled components.
pub(super) struct CodeCache {
    directory: PathBuf,
    key: Key,
}

/// What compiled code is called: a digest of the component and of all that its compilation depends
/// on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CodeName(String);

/// Why a file of the cache is not loaded.
#[derive(Debug, thiserror::Error)]
enum Distrust {
    #[error("it is a {0}")]
    Kind(&'static str),
    #[error("it belongs to user {found}, not to {own}")]
    Owner { found: u32, own: u32 },
    #[error("its mode is {found:o}, not {CODE_MODE:o}")]
    Mode { found: u32 },
    #[error("it has {found} names, not one")]
    Links { found: u64 },
    #[error("its digest is not the one that it was written with")]
    Digest,
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the engine does not take it: {0:#}")]
    Engine(wasmtime::Error),
}

impl CodeName {
    pub(super) fn new(engine: &Engine, form: Form, wasm: &[u8]) -> Self {
        let mut key = KeyHasher(Sha256::new_with_prefix(GENERATION));
        form.hash(&mut key);
        key.write(&Sha256::digest(wasm));
        engine.precompile_compatibility_hash().hash(&mut key);
        Self(hex(&key.0.finalize()))
    }
}

impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A digest of everything that compiled code depends on beside the component: two engines with the
/// same one can load each other's code.
pub(super) fn settings_digest(engine: &Engine) -> String {
    let mut key = KeyHasher(Sha256::new_with_prefix(GENERATION));
    engine.precompile_compatibility_hash().hash(&mut key);
    hex(&key.0.finalize())
}

impl CodeCache {
    /// Opens or makes the directory and its key. One that others can write to is refused.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
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
        Ok(Self { key: Key::of(directory)?, directory: directory.to_owned() })
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether something is kept under this name. It may turn out to be nothing that is loaded.
    pub(super) fn holds(&self, name: &CodeName) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Loads what was compiled before. A file that is not exactly what was written is removed and
    /// not loaded.
    pub(super) fn load(&self, engine: &Engine, name: &CodeName) -> Option<Component> {
        let path = self.path(name);
        let reason = match self.read(engine, name, &path) {
            Ok(component) => return Some(component),
            Err(Distrust::Read(error)) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(reason) => reason,
        };
        warn!(path = %path.display(), %reason, "compiled code is not loaded, and removed");
        if let Err(error) = fs::remove_file(&path) {
            debug!(path = %path.display(), %error, "it is gone already, or stays");
        }
        None
    }

    fn read(&self, engine: &Engine, name: &CodeName, path: &Path) -> Result<Component, Distrust> {
        let mut file = open_without_following(path)?;
        let metadata = file.metadata()?;
        check_metadata(&metadata)?;
        let code_bytes =
            metadata.len().checked_sub(blake3::OUT_LEN as u64).ok_or(Distrust::Digest)?;
        let digest = self.key.digest(name, (&mut file).take(code_bytes))?;
        let mut written = Vec::with_capacity(blake3::OUT_LEN);
        // One more than there should be: what has grown since is not what was written.
        (&mut file).take(blake3::OUT_LEN as u64 + 1).read_to_end(&mut written)?;
        // Compared in constant time.
        if !blake3::Hash::from_slice(&written).is_ok_and(|written| written == digest) {
            return Err(Distrust::Digest);
        }
        // The engine maps a file by its name. This one is the open file itself, so that what was
        // read is what is mapped; its pages are in memory already, and nothing is read or copied
        // again.
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

    /// Keeps compiled code: a new file, then its final name, so that a reader sees all of it or
    /// nothing.
    pub(super) fn store(&self, name: &CodeName, native: &[u8]) -> io::Result<()> {
        let digest = self.key.digest(name, native)?;
        write_whole(&self.directory, &self.path(name), &[native, digest.as_bytes()], CODE_MODE)
    }

    fn path(&self, name: &CodeName) -> PathBuf {
        self.directory.join(format!("{name}.cwasm"))
    }
}

fn check_metadata(metadata: &fs::Metadata) -> Result<(), Distrust> {
    if !metadata.is_file() {
        return Err(Distrust::Kind(if metadata.is_dir() { "directory" } else { "special file" }));
    }
    let (found, own) = (metadata.uid(), own_user());
    if found != own {
        return Err(Distrust::Owner { found, own });
    }
    let found = metadata.mode() & 0o7777;
    if found != CODE_MODE {
        return Err(Distrust::Mode { found });
    }
    // A second name is a way to the file that this directory does not guard.
    match metadata.nlink() {
        1 => Ok(()),
        found => Err(Distrust::Links { found }),
    }
}

/// Opens a file for reading; a symbolic link is an error, and a pipe does not keep the caller
/// waiting.
fn open_without_following(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Writes a file that nobody sees before it is whole.
fn write_whole(directory: &Path, path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<()> {
    let partial = directory.join(format!(".{}.{}", std::process::id(), uuid::Uuid::new_v4()));
    let write = || {
        let mut file: File =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().inspect_err(|_| {
        // What matters is the first error.
        let _ = fs::remove_file(&partial);
    })
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A `Hasher` whose result does not depend on the build: the standard ones promise less.
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
