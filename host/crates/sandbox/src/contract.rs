//! The plugin contract, independent of the version that a guest was built for.
//!
//! Each version is one module: the types generated from its `wit/`, their conversion to the
//! catalog's types, the linking of its imports, and a [`ToolGuest`]. The behaviour of the imports
//! is implemented once, in [`imports`](crate::imports). The version of a component is read from the
//! names of its exports; all versions are linked in one linker. A new version is a new module and
//! one line in [`VERSIONS`].

mod known;
pub(super) mod v0_1;

use airlock_core::tool::{Content, ToolDefinition, ToolError, ToolOutput};
use airlock_strings::cut;
use futures_util::future::BoxFuture;
use wasmtime::{
    Store,
    component::{Component, InstancePre, Linker},
};

use crate::{LoadError, engine, plain, run::instance::State};

/// Versions that an error lists, and bytes of each.
const MAX_LISTED: usize = 3;
const MAX_SHOWN: usize = 64;
/// Name of the interface that every tool plugin exports, without its version.
const TOOLS: &str = "airlock:plugin/tools";

/// A compiled and linked component that can describe its tools and run them: what all versions of
/// the plugin contract have in common. Every call runs in a store of its own.
pub(super) trait ToolGuest: Send + Sync {
    /// Returns the tools as the component describes them. The inner error is the component's own
    /// refusal; the outer error means that the call failed, for example with a trap.
    fn describe<'a>(
        &'a self,
        store: &'a mut Store<State>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Vec<ToolDefinition>, String>>>;

    /// Runs one tool under the name that the component gives it. `arguments` is the JSON text of an
    /// object.
    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<State>,
        tool: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Returned, ToolError>>>;

    /// Returns whether the build of this guest embeds tool descriptors. If it does, embedded
    /// descriptors are used and `describe` is called only without them.
    fn embeds_descriptors(&self) -> bool {
        true
    }
}

/// Result of a guest.
pub(super) struct Returned {
    pub(super) output: ToolOutput,
    /// Number of parts at the start of the content that were emitted ahead of the rest.
    pub(super) emitted: usize,
}

impl Returned {
    /// Returns the result as its readers get it. Data without content of its own gets its text if
    /// parts were emitted, because the data of a result with content is not rendered.
    pub(super) fn readable(self) -> ToolOutput {
        let Self { mut output, emitted } = self;
        if let Some(data) = &output.structured
            && emitted > 0
            && output.content.len() == emitted
        {
            output.content.push(Content::text(data.to_string()));
        }
        output
    }
}

/// One supported version.
struct Version {
    /// Prefix that the version of an export must match.
    range: &'static str,
    open: fn(InstancePre<State>) -> wasmtime::Result<Box<dyn ToolGuest>>,
}

/// Versions that this build supports, the newest first.
const VERSIONS: [Version; 1] = [Version { range: "0.1", open: v0_1::open }];

/// Returns the supported versions, the newest first.
pub(super) fn supported() -> [&'static str; VERSIONS.len()] {
    VERSIONS.map(|version| version.range)
}

/// Links the imports of plugins of every version.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    v0_1::link(linker)
}

/// Opens a component by the version that it exports, or by its functions if it exports none. `wasm`
/// is the binary from which it was compiled.
pub(super) fn open(
    linker: &Linker<State>,
    component: &Component,
    wasm: &[u8],
) -> Result<Box<dyn ToolGuest>, LoadError> {
    engine::check_resources(component)?;
    let unknown = known::unknown_imports(component);
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImports { names: unknown });
    }
    let exports = component.component_type();
    let exports = exports.exports(component.engine()).map(|(name, _)| name);
    let found: Vec<_> = exports.filter_map(version_of).collect();
    if found.is_empty() {
        return plain::open(linker, component, wasm);
    }
    if let Some(repeated) = repeated(&found) {
        return Err(LoadError::Versions { range: repeated });
    }
    let Some((version, _)) = newest(&found) else {
        let shown: Vec<_> = found
            .iter()
            .take(MAX_LISTED)
            .map(|found| cut((*found).to_owned(), MAX_SHOWN))
            .collect();
        return Err(LoadError::Version {
            found: shown.join(", "),
            supported: supported().join(", "),
        });
    };
    let opened = linker.instantiate_pre(component).and_then(version.open);
    opened.map_err(|error| LoadError::Contract { world: "tool-plugin", cause: error.into() })
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
pub(super) fn selected<'v>(exported: &[&'v str]) -> Option<&'v str> {
    newest(exported).map(|(_, found)| found).or_else(|| exported.first().copied())
}

/// Returns the version in the name of a plugin's `tools` export; `None` for any other export.
pub(super) fn version_of(export: &str) -> Option<&str> {
    export.strip_prefix(TOOLS)?.strip_prefix('@')
}

/// Returns whether `version` is a patch release of `range`. While the major number is 0, a new
/// minor number is a breaking change.
pub(super) fn is_of(range: &str, version: &str) -> bool {
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
    fn data_is_rendered_behind_emitted_parts_as_it_is_without_them() {
        assert_eq!(rendered(&[], 0), r#"{"n":1}"#);
        assert_eq!(rendered(&["early"], 1), "early\n{\"n\":1}");
        assert_eq!(rendered(&["early", "late"], 1), "early\nlate");
        assert_eq!(rendered(&["late"], 0), "late");
    }

    fn rendered(texts: &[&str], emitted: usize) -> String {
        let content = texts.iter().map(|text| Content::text(*text)).collect();
        let structured = Some(serde_json::json!({"n": 1}));
        let output = ToolOutput { content, structured, ..ToolOutput::default() };
        Returned { output, emitted }.readable().to_text()
    }

    #[test]
    fn of_several_exported_versions_the_newest_supported_one_is_used_in_any_order() {
        assert_eq!(selected(&["0.2.0", "0.1.0"]), Some("0.1.0"));
        assert_eq!(selected(&["0.1.0", "0.2.0"]), Some("0.1.0"));
        assert_eq!(selected(&["0.2.0"]), Some("0.2.0"));
        assert_eq!(selected(&[]), None);
    }

    #[test]
    fn unsupported_versions_and_unknown_imports_are_refused_by_name() {
        let engine = crate::engine::engine(1, None).expect("an engine");
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
        insta::assert_snapshot!(
            refusal(&engine, &linker, r#"(component (import "acme:gpu/compute@1.0.0" (instance)) (import "run" (func)))"#),
            @"the component imports what this gateway does not provide: acme:gpu/compute@1.0.0, run"
        );
    }

    fn refusal(engine: &wasmtime::Engine, linker: &Linker<State>, text: &str) -> String {
        let wasm = wat::parse_str(text).expect("a component");
        let component = Component::new(engine, &wasm).expect("it compiles");
        open(linker, &component, &wasm).err().expect("refused").to_string()
    }
}
