//! What a guest's contract comes down to, whichever version it was built for.
//!
//! A version is one module here: the types made from its `wit/`, their conversion to the catalog's,
//! the linking of what it imports, and a [`ToolGuest`]. What the imports do is said once, in
//! [`imports`](super::imports). Which version a component speaks is read from the names of its
//! exports; all versions live in one linker. A new version is a new module, and one line in
//! [`VERSIONS`].

mod known;
pub(super) mod v0_1;

use airlock_core::tool::{ToolDefinition, ToolError, ToolOutput};
use futures_util::future::BoxFuture;
use wasmtime::{
    Store,
    component::{Component, InstancePre, Linker},
};

use super::{LoadError, instance::State, plain};

/// The interface that every tool plugin exports, without its version.
const TOOLS: &str = "airlock:plugin/tools";

/// What every version of the plugin contract comes down to: a compiled and linked component that
/// can tell its tools and run them. Every call is made in a store of its own.
pub(super) trait ToolGuest: Send + Sync {
    /// The tools as the component itself tells them. The inner error is its own refusal, the outer
    /// one ended it.
    fn describe<'a>(
        &'a self,
        store: &'a mut Store<State>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Vec<ToolDefinition>, String>>>;

    /// Runs one tool, named as the component names it, with arguments that are the JSON text of an
    /// object.
    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<State>,
        tool: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, wasmtime::Result<Result<ToolOutput, ToolError>>>;

    /// Whether its build embeds its tools, so that what is found in the component is believed and
    /// `describe` is the exception.
    fn embeds_descriptors(&self) -> bool {
        true
    }
}

/// One supported version.
struct Version {
    /// What the version of an export must match.
    range: &'static str,
    open: fn(InstancePre<State>) -> wasmtime::Result<Box<dyn ToolGuest>>,
}

/// Every version that this build speaks, the newest first.
const VERSIONS: [Version; 1] = [Version { range: "0.1", open: v0_1::open }];

/// Links what plugins of every version import.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    v0_1::link(linker)
}

/// Opens a component by the version that it exports, or by its functions if it exports none. `wasm`
/// is what it was compiled from.
pub(super) fn open(
    linker: &Linker<State>,
    component: &Component,
    wasm: &[u8],
) -> Result<Box<dyn ToolGuest>, LoadError> {
    let unknown = known::unknown_imports(component);
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImports { names: unknown });
    }
    let Some(found) = exported_version(component) else {
        return plain::open(linker, component, wasm);
    };
    let Some(version) = VERSIONS.iter().find(|version| is_of(version.range, &found)) else {
        let supported = VERSIONS.map(|version| version.range).join(", ");
        return Err(LoadError::Version { found, supported });
    };
    let opened = linker.instantiate_pre(component).and_then(version.open);
    opened.map_err(|error| LoadError::Contract { world: "tool-plugin", cause: error.into() })
}

fn exported_version(component: &Component) -> Option<String> {
    let exports = component.component_type();
    let mut exports = exports.exports(component.engine());
    exports.find_map(|(name, _)| version_of(name).map(str::to_owned))
}

/// The version in the name of the export by which a plugin is known.
pub(super) fn version_of(export: &str) -> Option<&str> {
    export.strip_prefix(TOOLS)?.strip_prefix('@')
}

/// Whether `version` is a patch release of `range`. While the major number is 0 a new minor one
/// breaks.
fn is_of(range: &str, version: &str) -> bool {
    version.strip_prefix(range).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_release_is_of_its_range_and_a_longer_number_is_not() {
        assert!(is_of("0.1", "0.1.0") && is_of("0.1", "0.1.17") && is_of("0.1", "0.1.0-rc.1"));
        assert!(!is_of("0.1", "0.10.0") && !is_of("0.1", "0.2.0") && !is_of("0.1", "1.0.1"));
    }

    #[test]
    fn a_component_of_another_version_is_refused_with_what_was_found_and_what_would_do() {
        let engine = super::super::engine::engine(1).expect("an engine");
        let mut linker = Linker::new(&engine);
        link(&mut linker).expect("it links");
        let open_text = |text: &str| {
            let wasm = wat::parse_str(text).expect("a component");
            let component = Component::new(&engine, &wasm).expect("it compiles");
            open(&linker, &component, &wasm).err().expect("refused").to_string()
        };
        let instance = r#"(instance $i) (export "airlock:plugin/tools@0.2.0" (instance $i))"#;
        insta::assert_snapshot!(
            open_text(&format!("(component {instance})")),
            @"the plugin was built for version 0.2.0 of the contract, this gateway speaks 0.1; build it again with the SDK of one of these"
        );
        insta::assert_snapshot!(
            open_text(r#"(component (import "acme:gpu/compute@1.0.0" (instance)) (import "run" (func)))"#),
            @"the component imports what this gateway does not lend: acme:gpu/compute@1.0.0, run"
        );
    }
}
