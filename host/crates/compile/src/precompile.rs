//! Compiles a component in this process, in the form that is wanted.

use wasmtime::Engine;

use crate::{error::CompilerFailure, prepare::prepare, settings::Form};

/// Compiles in this process.
pub(crate) fn precompile(
    engine: &Engine,
    form: Form,
    wasm: &[u8],
) -> Result<Vec<u8>, CompilerFailure> {
    let compiled = match form {
        Form::Plain => engine.precompile_component(wasm),
        Form::Prepared => prepare(wasm).and_then(|prepared| engine.precompile_component(&prepared)),
    };
    compiled.map_err(|error| CompilerFailure::Refused(format!("{error:#}")))
}
