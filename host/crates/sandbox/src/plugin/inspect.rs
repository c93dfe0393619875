//! Reads and writes the tool descriptors of a component, and reads its contract, without running it.

use airlock_core::tool::ToolDefinition;

use super::{contract, descriptors};
use crate::LoadError;

/// Returns the tool descriptors that the build of a component embedded; `None` if it embedded none.
pub fn embedded_tools(wasm: &[u8]) -> Result<Option<Vec<ToolDefinition>>, LoadError> {
    descriptors::find(wasm)?.map(descriptors::parse).transpose()
}

/// Returns the component with its descriptors embedded, so that listing its tools does not run it.
pub fn embed_tools(wasm: &[u8], tools: &[ToolDefinition]) -> Result<Vec<u8>, LoadError> {
    Ok(airlock_compile::embed(wasm, descriptors::NAME, descriptors::encode(tools).as_bytes())?)
}

/// Returns the version of the plugin contract that calls of a component use: the newest supported
/// one that it exports, else the first one. `None` if it exports none.
pub fn contract_version(wasm: &[u8]) -> Result<Option<String>, LoadError> {
    let exports = airlock_compile::exports(wasm)?;
    Ok(contract::selected(&versions(&exports)).map(str::to_owned))
}

/// Returns whether a component exports a version of the plugin contract, such as `0.1`.
pub fn exports_contract(wasm: &[u8], contract: &str) -> Result<bool, LoadError> {
    let exports = airlock_compile::exports(wasm)?;
    Ok(versions(&exports).iter().any(|version| contract::is_of(contract, version)))
}

/// Returns whether a component is a guard: it exports the hooks of one, and no tools.
pub fn is_guard(wasm: &[u8]) -> Result<bool, LoadError> {
    let exports = airlock_compile::exports(wasm)?;
    Ok(contract::has_only_hooks(&exports.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn versions(exports: &[String]) -> Vec<&str> {
    exports.iter().filter_map(|name| contract::version_of(name)).collect()
}

/// Returns the versions of the plugin contract that this build supports, the newest first: `0.1`.
pub fn supported_contracts() -> Vec<&'static str> {
    contract::supported().to_vec()
}
