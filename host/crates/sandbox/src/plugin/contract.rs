//! The versions of the plugin contract that are supported, and the one that a component was built for.
//!
//! It is read from the names of the component's exports; all versions are linked in one linker. A new
//! version is a new module of [`contract`](crate::contract) and one line in [`VERSIONS`].

mod known;
mod version;

use airlock_compile::check_resources;
use airlock_strings::{MAX_NAMED, MAX_WORD_BYTES, cut};
use wasmtime::component::{Component, InstancePre, Linker};

pub(crate) use self::version::{is_of, version_of};
use super::{plain::Plain, side::PluginSide, tool_guest::ToolGuest};
use crate::{LoadError, contract::v0_1::plugin as v0_1, run::state::State};

/// Name of the interface that a guard exports, before its version.
const HOOKS: &str = "airlock:guard/hooks@";

/// Opens a component of one version, whose imports are linked.
type OpenPlugin = fn(InstancePre<State<PluginSide>>) -> wasmtime::Result<Box<dyn ToolGuest>>;

/// One supported version.
struct Version {
    /// Prefix that the version of an export must match.
    range: &'static str,
    open: OpenPlugin,
}

/// Versions that this build supports, the newest first.
const VERSIONS: [Version; 1] = [Version { range: "0.1", open: v0_1::open }];

/// Returns the supported versions, the newest first.
pub(crate) fn supported() -> [&'static str; VERSIONS.len()] {
    VERSIONS.map(|version| version.range)
}

/// Links the imports of plugins of every version.
pub(crate) fn link(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    v0_1::link(linker)
}

/// Opens a component by the version that it exports, or by its functions if it exports none. `wasm`
/// is the binary from which it was compiled.
pub(crate) fn open(
    linker: &Linker<State<PluginSide>>,
    component: &Component,
    wasm: &[u8],
) -> Result<Box<dyn ToolGuest>, LoadError> {
    check_resources(component)?;
    let unknown = known::unknown_imports(component);
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImports { names: unknown });
    }
    let exports = component.component_type();
    let exports: Vec<_> = exports.exports(component.engine()).map(|(name, _)| name).collect();
    let found: Vec<_> = exports.iter().copied().filter_map(version_of).collect();
    if has_only_hooks(&exports) {
        return Err(LoadError::GuardAsPlugin);
    }
    if found.is_empty() {
        let pre = linker.instantiate_pre(component).map_err(misfit)?;
        let plain = Plain::new(pre, wasm).map_err(|error| LoadError::Plain(error.into()))?;
        return Ok(Box::new(plain));
    }
    if let Some(repeated) = repeated(&found) {
        return Err(LoadError::Versions { range: repeated });
    }
    let Some((version, _)) = newest(&found) else {
        let shown: Vec<_> = found
            .iter()
            .take(MAX_NAMED)
            .map(|found| cut((*found).to_owned(), MAX_WORD_BYTES))
            .collect();
        return Err(LoadError::Version {
            found: shown.join(", "),
            supported: supported().join(", "),
        });
    };
    linker.instantiate_pre(component).and_then(version.open).map_err(misfit)
}

/// Returns whether these exports are those of a guard: its hooks, and no contract of plugins.
pub(crate) fn has_only_hooks(exports: &[&str]) -> bool {
    exports.iter().any(|name| name.starts_with(HOOKS))
        && !exports.iter().any(|name| version_of(name).is_some())
}

fn misfit(error: wasmtime::Error) -> LoadError {
    LoadError::Contract { world: "tool-plugin", cause: error.into() }
}

/// Returns the range of which a component exports several versions. It would not be clear which of
/// them a call runs.
fn repeated(exported: &[&str]) -> Option<&'static str> {
    supported()
        .into_iter()
        .find(|range| exported.iter().filter(|found| is_of(range, found)).count() > 1)
}

/// Returns the newest supported version of those that a component exports. A component may export
/// several, so that older gateways load it too.
fn newest<'v>(exported: &[&'v str]) -> Option<(&'static Version, &'v str)> {
    VERSIONS.iter().find_map(|version| {
        let found = exported.iter().find(|found| is_of(version.range, found))?;
        Some((version, *found))
    })
}

/// Returns the version of those that a component exports that a call would use; the first one if
/// none is supported.
pub(crate) fn selected<'v>(exported: &[&'v str]) -> Option<&'v str> {
    newest(exported).map(|(_, found)| found).or_else(|| exported.first().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_exported_versions_the_newest_supported_one_is_used_in_any_order() {
        assert_eq!(selected(&["0.2.0", "0.1.0"]), Some("0.1.0"));
        assert_eq!(selected(&["0.1.0", "0.2.0"]), Some("0.1.0"));
        assert_eq!(selected(&["0.2.0"]), Some("0.2.0"));
        assert_eq!(selected(&[]), None);
    }

    #[test]
    fn unsupported_versions_and_unknown_imports_are_refused_by_name() {
        let engine = airlock_compile::pooled_engine(1, None).expect("an engine");
        let mut linker = Linker::new(&engine);
        link(&mut linker).expect("it links");
        let instance = r#"(instance $i) (export "airlock:plugin/tools@0.2.0" (instance $i))"#;
        insta::assert_snapshot!(
            refusal(&engine, &linker, &format!("(component {instance})")),
            @"the plugin was built for 0.2.0 of the contract; this gateway supports 0.1; build the plugin again with the SDK of a supported version"
        );
        let two = r#"(instance $i) (export "airlock:plugin/tools@0.1.0" (instance $i)) (export "airlock:plugin/tools@0.1.3" (instance $i))"#;
        insta::assert_snapshot!(
            refusal(&engine, &linker, &format!("(component {two})")),
            @"the component exports several versions of 0.1 of the contract; a component exports one of each"
        );
        let two = r#"(instance $i) (export "airlock:plugin/tools@0.3.0" (instance $i)) (export "airlock:plugin/tools@0.2.0" (instance $i))"#;
        insta::assert_snapshot!(
            refusal(&engine, &linker, &format!("(component {two})")),
            @"the plugin was built for 0.3.0, 0.2.0 of the contract; this gateway supports 0.1; build the plugin again with the SDK of a supported version"
        );
        let hooks = r#"(instance $i) (export "airlock:guard/hooks@0.1.0" (instance $i))"#;
        insta::assert_snapshot!(
            refusal(&engine, &linker, &format!("(component {hooks})")),
            @"the component is a guard: it has no tools, and is configured in `guards`, by its `component`"
        );
        insta::assert_snapshot!(
            refusal(&engine, &linker, r#"(component (import "acme:gpu/compute@1.0.0" (instance)) (import "run" (func)))"#),
            @"the component imports what this gateway does not provide: acme:gpu/compute@1.0.0, run"
        );
    }

    fn refusal(
        engine: &wasmtime::Engine,
        linker: &Linker<State<PluginSide>>,
        text: &str,
    ) -> String {
        let wasm = wat::parse_str(text).expect("a component");
        let component = Component::new(engine, &wasm).expect("it compiles");
        open(linker, &component, &wasm).err().expect("refused").to_string()
    }
}
