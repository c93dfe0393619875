//! Findings of a build and of the checks: what was found, where, and what to write.

use std::fmt;

use serde::Serialize;

use airlock_manifest::{FILE, ManifestSource, Position};

use crate::interfaces::{self, Interface};
use airlock_compile::imported_functions;
use airlock_plugin::Manifest;
use airlock_sandbox::LoadError;
use airlock_strings::visible;

/// One finding, with invisible characters made visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Place: a tool, an imported interface, or a key of plugin.toml, with its line if the file is
    /// at hand.
    at: Option<String>,
    found: String,
    /// Text for the author to write.
    write: Option<String>,
    #[serde(skip)]
    key: Option<String>,
}

impl<T: AsRef<str>> From<T> for Finding {
    fn from(found: T) -> Self {
        Self { at: None, found: visible(found.as_ref()), write: None, key: None }
    }
}

impl Finding {
    /// Adds the place.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.at = Some(visible(place));
        self
    }

    /// Adds a key of plugin.toml as the place.
    pub(crate) fn of_key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.at = Some(visible(&format!("plugin.toml: {key}")));
        self.key = Some(key);
        self
    }

    /// Adds what to write.
    pub(crate) fn write(mut self, write: impl Into<String>) -> Self {
        self.write = Some(write.into());
        self
    }

    /// Adds the position of the key, if this finding is about one.
    pub(crate) fn locate(&mut self, source: &ManifestSource) {
        let Some(key) = &self.key else { return };
        if let Some(Position { line, column }) = source.position(key) {
            self.at = Some(visible(&format!("{FILE}:{line}:{column}: {key}")));
        }
    }

    /// Returns the finding as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let write = self.write.iter().map(|write| format!("  write: {write}"));
        std::iter::once(self.to_string()).chain(write).collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.found),
            None => f.write_str(&self.found),
        }
    }
}

/// Returns a finding for each import of a component that its manifest does not request. A call
/// through it would be denied.
pub(crate) fn unrequested(
    wasm: &[u8],
    imports: &[String],
    manifest: &Manifest,
) -> Result<Vec<Finding>, LoadError> {
    let mut findings = Vec::new();
    let mut found: Vec<&Interface> = Vec::new();
    for import in imports {
        let Some(interface) = Interface::of_import(import) else { continue };
        // One finding for all versions of an interface: its functions take long to find.
        let is_known = found.iter().any(|known| std::ptr::eq(*known, interface));
        if !is_known && !interface.is_requested(manifest) {
            found.push(interface);
            let functions = imported_functions(wasm, import)?;
            let finding = Finding::from(format!(
                "imported for {}, and plugin.toml does not request it, so that {}",
                names(&functions),
                interface.without_request()
            ));
            findings.push(
                finding.at(import).write(format!("{}, or remove the calls", interface.request)),
            );
        }
    }
    Ok(findings)
}

/// Returns a finding for each request of a manifest that no import of the component uses.
pub(crate) fn unused(imports: &[String], manifest: &Manifest) -> Vec<Finding> {
    let findings = interfaces::unused(manifest, imports).into_iter().map(|key| {
        let found = "requested, and the component does not import the interface for it";
        let write = "no such request, so that no operator is asked to grant it";
        Finding::from(found).of_key(key).write(write)
    });
    findings.collect()
}

/// Formats names of functions as their author knows them: `store.get` for `[method]store.get`.
fn names(functions: &[String]) -> String {
    if functions.is_empty() {
        return "its types".to_owned();
    }
    let names = functions.iter().map(|function| {
        let name = function.rsplit_once(']').map_or(function.as_str(), |(_, name)| name);
        format!("`{name}`")
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest_with;

    const KV: &str = "airlock:host/kv@0.1.0";

    fn component() -> Vec<u8> {
        let text = format!(
            r#"(component
                (import "{KV}" (instance
                    (export "store" (type (sub resource)))
                    (export "open" (func))
                    (export "[static]store.list" (func))))
                (import "airlock:host/log@0.1.0" (instance (export "write" (func)))))"#
        );
        wat::parse_str(text).expect("a component")
    }

    fn manifest(request: &serde_json::Value) -> Manifest {
        manifest_with(&json!({"request": request}))
    }

    #[test]
    fn an_import_that_is_not_requested_is_found_with_its_functions_and_the_request_to_write() {
        let wasm = component();
        let imports = airlock_compile::imports(&wasm).expect("imports");
        let found = unrequested(&wasm, &imports, &manifest(&json!({}))).expect("it is read");
        let lines: Vec<_> = found.iter().flat_map(Finding::lines).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        airlock:host/kv@0.1.0: imported for `open`, `store.list`, and plugin.toml does not request it, so that every call is denied
          write: [request.kv.NAME] with `max_bytes` and `reason`, or remove the calls
        ");
        let kv = manifest(&json!({"kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}}}));
        assert_eq!(unrequested(&wasm, &imports, &kv).expect("it is read"), []);
        assert_eq!(unused(&imports, &kv), []);
    }

    #[test]
    fn an_unrequested_configuration_is_found_with_the_key_that_takes_its_schema_from_the_code() {
        let import = r#"(import "airlock:host/config@0.1.0" (instance (export "get" (func))))"#;
        let wasm = wat::parse_str(format!("(component {import})")).expect("a component");
        let imports = airlock_compile::imports(&wasm).expect("imports");
        let found = unrequested(&wasm, &imports, &manifest(&json!({}))).expect("it is read");
        let lines: Vec<_> = found.iter().flat_map(Finding::lines).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        airlock:host/config@0.1.0: imported for `get`, and plugin.toml does not request it, so that the configuration is always empty
          write: [config] with `from_code = true`, or remove the calls
        ");
    }

    #[test]
    fn a_request_without_an_import_is_found_with_its_line() {
        let manifest = manifest(&json!({"tools": {"call": ["text-count"], "reason": "r"}}));
        let home = tempfile::tempdir().expect("a directory");
        let text = "id = 'p'\n\n[request.tools]\ncall = ['text-count']\n";
        std::fs::write(home.path().join(FILE), text).expect("a file");
        let source = airlock_manifest::read(home.path()).expect("it is TOML").expect("a file");
        let mut found = unused(&[KV.to_owned()], &manifest);
        for finding in &mut found {
            finding.locate(&source);
        }
        let lines: Vec<_> = found.iter().flat_map(Finding::lines).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        plugin.toml:3:10: request.tools: requested, and the component does not import the interface for it
          write: no such request, so that no operator is asked to grant it
        ");
    }
}
