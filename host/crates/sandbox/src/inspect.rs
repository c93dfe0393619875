//! Reads and writes the custom sections, imports and exports of a component without running it.

use airlock_compile as component;
use airlock_core::tool::ToolDefinition;

use crate::{LoadError, contract, descriptors};

/// Returns a custom section of a component, without running the component. This is the section of
/// the component itself, or else of the first nested module or component that has one, because
/// compilers put sections there. Its content is as untrusted as the component.
pub fn embedded<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, LoadError> {
    Ok(component::section_anywhere(wasm, name)?)
}

/// Returns the tool descriptors that the build of a component embedded; `None` if it embedded none.
pub fn embedded_tools(wasm: &[u8]) -> Result<Option<Vec<ToolDefinition>>, LoadError> {
    descriptors::find(wasm)?.map(descriptors::parse).transpose()
}

/// Returns the component with its descriptors embedded, so that listing its tools does not run it.
pub fn embed_tools(wasm: &[u8], tools: &[ToolDefinition]) -> Result<Vec<u8>, LoadError> {
    embed(wasm, descriptors::NAME, descriptors::of(tools).as_bytes())
}

/// Returns the component with a custom section of its own, which replaces all its sections of that
/// name. The name must begin with `airlock:`; such sections are never part of the compiled code.
pub fn embed(wasm: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, LoadError> {
    Ok(component::embed(wasm, name, content)?)
}

/// Returns the names of the interfaces and other items that a component imports.
pub fn imports(wasm: &[u8]) -> Result<Vec<String>, LoadError> {
    Ok(component::imports(wasm)?)
}

/// Returns the names of the functions that a component imports with an interface; none if it does
/// not import the interface. The component is validated, which takes a tenth of a second for one that
/// contains an interpreter.
pub fn imported_functions(wasm: &[u8], interface: &str) -> Result<Vec<String>, LoadError> {
    Ok(component::imported_functions(wasm, interface)?)
}

/// Returns whether a data segment of a component's modules contains this text.
pub fn data_contains(wasm: &[u8], text: &[u8]) -> Result<bool, LoadError> {
    Ok(component::data_contains(wasm, text)?)
}

/// Returns the version of the plugin contract that calls of a component use: the newest supported
/// one that it exports, else the first one. `None` if it exports none.
pub fn contract_version(wasm: &[u8]) -> Result<Option<String>, LoadError> {
    let exports = component::exports(wasm)?;
    Ok(contract::selected(&versions(&exports)).map(str::to_owned))
}

/// Returns whether a component exports a version of the plugin contract, such as `0.1`.
pub fn exports_contract(wasm: &[u8], contract: &str) -> Result<bool, LoadError> {
    let exports = component::exports(wasm)?;
    Ok(versions(&exports).iter().any(|version| contract::is_of(contract, version)))
}

fn versions(exports: &[String]) -> Vec<&str> {
    exports.iter().filter_map(|name| contract::version_of(name)).collect()
}

/// Returns the versions of the plugin contract that this build supports, the newest first: `0.1`.
pub fn supported_contracts() -> Vec<&'static str> {
    contract::supported().to_vec()
}
