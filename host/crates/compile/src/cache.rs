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
//! ([`prune`]), also to make room on a full disk.

mod file;
mod key;
pub(crate) mod name;
mod prune;

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Seek as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use tracing::debug;
use wasmtime::{Engine, component::Component};

use self::{
    file::{
        CODE_MODE, CacheFileError, check_metadata, discard, open_without_following, own_user,
        write_whole,
    },
    key::DigestKey,
    name::{CODE_SUFFIX, CodeName},
};
use crate::functions::FunctionCache;

/// Bytes of all files of code. An interpreter of Python or JavaScript takes 25 to 40 MB, and each
/// build of a plugin stores one: room for the last hundred.
const MAX_BYTES: u64 = 4 << 30;

/// A directory of compiled components.
pub struct CodeCache {
    directory: PathBuf,
    key: DigestKey,
    /// Size limit of all files of code.
    max_bytes: u64,
}

impl CodeCache {
    /// Opens the directory and its key, or makes them. Fails if it is not a directory that only
    /// this user can write to.
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Self::check_directory(directory)?;
        let key = DigestKey::open(directory)?;
        Ok(Self { directory: directory.to_owned(), key, max_bytes: MAX_BYTES })
    }

    /// Fails if `directory` is not a directory that only this user can write to. Changes nothing.
    pub fn check_directory(directory: &Path) -> io::Result<()> {
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
        Ok(())
    }

    /// Returns the directory for compiled code that a user has by the variables of the environment: below
    /// `AIRLOCK_CACHE_DIR`, else below the user's cache directory. `None` if neither is known.
    pub fn default_directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let cache =
            variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        variable("AIRLOCK_CACHE_DIR")
            .or_else(|| cache.map(|cache| cache.join("airlock")))
            .map(|directory| directory.join("code"))
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
    pub fn functions(&self) -> FunctionCache {
        let name = CodeName::functions();
        let path = self.path(&name);
        let functions = self.read_functions(&name, &path);
        functions.map_err(|reason| discard(&path, &reason)).unwrap_or_default()
    }

    fn read_functions(
        &self,
        name: &CodeName,
        path: &Path,
    ) -> Result<FunctionCache, CacheFileError> {
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

    fn read(
        &self,
        engine: &Engine,
        name: &CodeName,
        path: &Path,
    ) -> Result<Component, CacheFileError> {
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
        component.map_err(CacheFileError::Engine)
    }

    /// Opens a file that is exactly what was written, and returns it with the length of what precedes
    /// its digest. Records that it was used.
    fn verified(&self, name: &CodeName, path: &Path) -> Result<(File, u64), CacheFileError> {
        let mut file = open_without_following(path)?;
        let metadata = file.metadata()?;
        check_metadata(&metadata)?;
        let code_bytes =
            metadata.len().checked_sub(blake3::OUT_LEN as u64).ok_or(CacheFileError::Digest)?;
        let digest = self.key.digest(name, (&mut file).take(code_bytes))?;
        let mut written = Vec::with_capacity(blake3::OUT_LEN);
        // One byte more than a digest has: a file that has grown since does not match.
        (&mut file).take(blake3::OUT_LEN as u64 + 1).read_to_end(&mut written)?;
        // Compared in constant time.
        if !blake3::Hash::from_slice(&written).is_ok_and(|written| written == digest) {
            return Err(CacheFileError::Digest);
        }
        prune::record_use(&file, &metadata);
        Ok((file, code_bytes))
    }

    /// Stores compiled code: writes a new file and then renames it, so that a reader sees all of it
    /// or nothing. Other files are removed if the cache is above its size limit, or if the disk is full.
    pub(crate) fn store(&self, name: &CodeName, native: &[u8]) -> io::Result<()> {
        let digest = self.key.digest(name, native)?;
        let path = self.path(name);
        let parts: [&[u8]; 2] = [native, digest.as_bytes()];
        if let Err(error) = write_whole(&self.directory, &path, &parts, CODE_MODE) {
            if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                return Err(error);
            }
            let bytes = parts.iter().map(|part| part.len() as u64).sum();
            prune::make_room(&self.directory, &path, bytes)?;
            write_whole(&self.directory, &path, &parts, CODE_MODE)?;
        }
        if let Err(error) = prune::prune(&self.directory, &path, self.max_bytes) {
            debug!(%error, "the cache of compiled code cannot be pruned");
        }
        Ok(())
    }

    fn path(&self, name: &CodeName) -> PathBuf {
        self.directory.join(format!("{name}{CODE_SUFFIX}"))
    }
}

#[cfg(test)]
mod tests;
