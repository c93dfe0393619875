//! The executors of scripts: one component for each language, which the build script compiles from source. They are
//! embedded, so that a program needs no other files.

use airlock_core::door::ScriptLanguage;

/// Executor of scripts in Starlark.
#[cfg(feature = "starlark")]
const STARLARK: Option<EmbeddedExecutor> = Some(EmbeddedExecutor {
    wasm: include_bytes!(concat!(env!("OUT_DIR"), "/starlark.wasm")),
    sha256: *include_bytes!(concat!(env!("OUT_DIR"), "/starlark.sha256")),
});
#[cfg(not(feature = "starlark"))]
const STARLARK: Option<EmbeddedExecutor> = None;

/// Executor of scripts in Python.
#[cfg(feature = "python")]
const PYTHON: Option<EmbeddedExecutor> = Some(EmbeddedExecutor {
    wasm: include_bytes!(concat!(env!("OUT_DIR"), "/python.wasm")),
    sha256: *include_bytes!(concat!(env!("OUT_DIR"), "/python.sha256")),
});
#[cfg(not(feature = "python"))]
const PYTHON: Option<EmbeddedExecutor> = None;

/// An executor that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedExecutor {
    /// The component, which is still to be prepared and compiled.
    pub wasm: &'static [u8],
    /// SHA-256 digest of the component. It is computed by the build, so that a start that finds the compiled code reads
    /// none of the ten megabytes of a component.
    pub sha256: [u8; 32],
}

/// Returns the executor of a language; `None` if the program was built without the feature of the language.
pub fn executor(language: ScriptLanguage) -> Option<EmbeddedExecutor> {
    match language {
        ScriptLanguage::Starlark => STARLARK,
        ScriptLanguage::Python => PYTHON,
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_digest_of_each_executor_is_that_of_its_component() {
        for language in ScriptLanguage::ALL {
            if let Some(EmbeddedExecutor { wasm, sha256 }) = executor(language) {
                let digest: [u8; 32] = Sha256::digest(wasm).into();
                assert_eq!(sha256, digest, "{}", language.name());
            }
        }
    }
}
