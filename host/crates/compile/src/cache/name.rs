//! Names of compiled code.

use std::{
    fmt,
    hash::{Hash as _, Hasher},
};

use airlock_strings::hex;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;

use crate::settings::Form;

/// Version of the cache's format, part of every name and digest. It is raised when the content that
/// is stored under a name changes its meaning.
pub(super) const GENERATION: &[u8] = b"airlock code cache 2";

/// End of the name of every file of code.
pub(super) const CODE_SUFFIX: &str = ".cwasm";

/// Name of compiled code: a digest of the component and of everything that its compilation depends
/// on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CodeName(pub(super) String);

impl CodeName {
    pub(crate) fn new(engine: &Engine, form: Form, wasm: &[u8]) -> Self {
        Self::from_digest(engine, form, Sha256::digest(wasm).into())
    }

    /// Returns the name of the code of the component that has this SHA-256 digest.
    pub(crate) fn from_digest(engine: &Engine, form: Form, sha256: [u8; 32]) -> Self {
        let mut key = KeyHasher(Sha256::new_with_prefix(GENERATION));
        form.hash(&mut key);
        key.write(&sha256);
        engine.precompile_compatibility_hash().hash(&mut key);
        Self(hex(&key.0.finalize()))
    }

    /// Returns the name of the file of functions. The key of each function covers the compiler and its
    /// settings.
    pub(super) fn functions() -> Self {
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
