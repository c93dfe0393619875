//! Native code on disk: compiled once, mapped from then on.
//!
//! Loading native code is running it, so the directory belongs to this user alone and every file in it is written whole,
//! made read-only and never changed. The key covers the component's bytes, every compiler setting and the exact version of
//! the engine (`Engine::precompile_compatibility_hash`; the version check in the file itself lets patch releases pass).

use std::{
    fmt::Write as _,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{Hash as _, Hasher},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use tracing::{debug, warn};
use wasmtime::{Engine, component::Component};

/// Raised when what is written below the key changes its meaning.
const GENERATION: &[u8] = b"airlock code cache 1";

/// A directory of compiled components.
pub(super) struct CodeCache {
    directory: PathBuf,
}

impl CodeCache {
    /// Opens or makes the directory. One that others can write to is refused.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let metadata = fs::symlink_metadata(directory)?;
        if !metadata.is_dir() || !is_ours_alone(&metadata) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} must be a directory that only this user can write to", directory.display()),
            ));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether `wasm` would be found.
    pub(super) fn holds(&self, engine: &Engine, wasm: &[u8]) -> bool {
        self.path(engine, wasm).exists()
    }

    /// Loads what was compiled before; a file that cannot be used is removed.
    pub(super) fn load(&self, engine: &Engine, wasm: &[u8]) -> Option<Component> {
        let path = self.path(engine, wasm);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || !is_ours_alone(&metadata) {
            warn!(path = %path.display(), "compiled code that others could have written is not loaded");
            return None;
        }
        #[expect(
            unsafe_code,
            reason = "the file was written by `store` from the engine's own serializer, into a directory and with a mode \
                      that let nobody else change it; its name is a digest of what it was compiled from and for"
        )]
        let loaded = unsafe { Component::deserialize_file(engine, &path) };
        match loaded {
            Ok(component) => Some(component),
            Err(error) => {
                debug!(path = %path.display(), %error, "compiled code is not usable, compiling again");
                // It may be gone already, which is as good.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// Keeps compiled code: a new file, then its final name, so that a reader sees all of it or nothing.
    pub(super) fn store(&self, engine: &Engine, wasm: &[u8], native: &[u8]) -> io::Result<()> {
        let path = self.path(engine, wasm);
        let partial = self.directory.join(format!(".{}.{}", std::process::id(), uuid::Uuid::new_v4()));
        let written = write_new(&partial, native).and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            // What matters is the first error.
            let _ = fs::remove_file(&partial);
        }
        written
    }

    fn path(&self, engine: &Engine, wasm: &[u8]) -> PathBuf {
        let mut key = KeyHasher(Sha256::new_with_prefix(GENERATION));
        key.write(&Sha256::digest(wasm));
        engine.precompile_compatibility_hash().hash(&mut key);
        let mut name = key.0.finalize().iter().fold(String::new(), |mut name, byte| {
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        });
        name.push_str(".cwasm");
        self.directory.join(name)
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(0o400))?;
    file.sync_all()
}

/// Whether a file belongs to the user that this process runs as and nobody else may write to it.
fn is_ours_alone(metadata: &fs::Metadata) -> bool {
    let own = fs::metadata("/proc/self").map(|process| process.uid());
    own.is_ok_and(|uid| uid == metadata.uid()) && metadata.mode() & 0o022 == 0
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
mod tests {
    use super::*;

    fn component() -> Vec<u8> {
        wat::parse_str("(component)").expect("a component")
    }

    #[test]
    fn what_was_stored_is_loaded_and_nobody_else_may_have_touched_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = super::super::engine::engine(1).expect("an engine");
        let cache = CodeCache::open(&directory.path().join("code")).expect("a cache");
        let wasm = component();
        assert!(cache.load(&engine, &wasm).is_none());
        cache.store(&engine, &wasm, &engine.precompile_component(&wasm).expect("it compiles")).expect("stored");
        assert!(cache.holds(&engine, &wasm));
        assert!(cache.load(&engine, &wasm).is_some());
        let path = cache.path(&engine, &wasm);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).expect("changed");
        assert!(cache.load(&engine, &wasm).is_none(), "a file that others can write to is not loaded");
    }

    #[test]
    fn a_broken_file_is_removed_and_an_open_directory_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = super::super::engine::engine(1).expect("an engine");
        let cache = CodeCache::open(directory.path()).expect("a cache");
        let wasm = component();
        cache.store(&engine, &wasm, b"not native code").expect("stored");
        assert!(cache.load(&engine, &wasm).is_none());
        assert!(!cache.holds(&engine, &wasm));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("changed");
        assert!(CodeCache::open(directory.path()).is_err());
    }
}
