//! The executors of scripts: one component for each language, which the build script compiles from source. They are
//! embedded, so that a program needs no other files.

use airlock_core::door::ScriptLanguage;

/// Executor of scripts in Starlark.
#[cfg(feature = "starlark")]
const STARLARK: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/starlark.wasm")));
#[cfg(not(feature = "starlark"))]
const STARLARK: Option<&[u8]> = None;

/// Executor of scripts in Python.
#[cfg(feature = "python")]
const PYTHON: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/python.wasm")));
#[cfg(not(feature = "python"))]
const PYTHON: Option<&[u8]> = None;

/// Returns the executor of a language, as a component that is still to be prepared and compiled; `None` if the program was
/// built without the feature of the language.
pub fn executor(language: ScriptLanguage) -> Option<&'static [u8]> {
    match language {
        ScriptLanguage::Starlark => STARLARK,
        ScriptLanguage::Python => PYTHON,
    }
}
