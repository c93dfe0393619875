//! Metadata of a component: known without running it, accepted by the operator, and compared
//! later.

use serde_json::Value;

use super::{BadManifest, Manifest, Request, ToolEffects, manifest::SECTION};
use airlock_compile::{imports, section_anywhere};
use airlock_core::tool::{ClientName, ToolDefinition};
use airlock_lock::{Pin, PinnedTool, digest, sorted};
use airlock_sandbox::{self as sandbox, Effect, LoadError};
use airlock_strings::visible_line;

/// Reason that the metadata of a component cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The bytes are not a component, or its embedded sections cannot be read.
    #[error(transparent)]
    Component(#[from] LoadError),
    /// The embedded manifest is invalid.
    #[error("the plugin's manifest (plugin.toml) is invalid")]
    Manifest(#[from] BadManifest),
    /// The manifest names another version of the contract than the component exports.
    #[error(
        "the plugin's manifest (plugin.toml) has `contract = {stated:?}`, but the component exports \
         version {exported} of the contract; build it with the SDK of version {stated}"
    )]
    Contract {
        /// Version in the manifest; one that this gateway supports.
        stated: String,
        /// Version that the component exports.
        exported: String,
    },
    /// The component embeds tool descriptors that would never be offered. The tools of a component
    /// without the contract are its functions.
    #[error(
        "the component embeds descriptors of tools (the section airlock:tools) but does not export \
         airlock:plugin/tools, so they are not what it does; remove the section"
    )]
    Descriptors,
}

/// Metadata of one component.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// Digest of its bytes: `sha256:` and hexadecimal.
    pub digest: String,
    /// Its tools, from the embedded descriptors; empty if none are embedded and the component was
    /// not run.
    pub tools: Vec<ToolDefinition>,
    /// Its manifest, written by the author.
    pub manifest: Option<Manifest>,
    /// Interfaces that it imports.
    pub imports: Vec<String>,
}

impl ToolEffects {
    /// Returns whether the tool declares an effect on any request.
    pub fn has(&self, effect: Effect) -> bool {
        self.effects.iter().any(|declared| declared.effect == effect)
    }

    fn lock_lines(&self) -> impl Iterator<Item = String> {
        self.effects.iter().map(|effect| format!("effect {effect} of {}", self.name))
    }
}

impl Metadata {
    /// Reads the metadata of a component without running it.
    pub fn read(wasm: &[u8]) -> Result<Self, MetadataError> {
        let section = section_anywhere(wasm, SECTION).map_err(LoadError::from)?;
        let manifest = section.map(Manifest::parse).transpose()?;
        let exported = sandbox::contract_version(wasm)?;
        let tools = match (sandbox::embedded_tools(wasm)?, &exported) {
            (Some(_), None) => return Err(MetadataError::Descriptors),
            (tools, _) => tools.unwrap_or_default(),
        };
        // A component that exports no contract has its functions as tools, whatever the contract.
        if let (Some(Manifest { contract, .. }), Some(exported)) = (&manifest, exported)
            && !sandbox::exports_contract(wasm, contract)?
        {
            return Err(MetadataError::Contract { stated: contract.clone(), exported });
        }
        Ok(Self::new(wasm, tools, manifest, imports(wasm).map_err(LoadError::from)?))
    }

    /// Combines the metadata of a component.
    pub fn new(
        wasm: &[u8],
        mut tools: Vec<ToolDefinition>,
        manifest: Option<Manifest>,
        mut imports: Vec<String>,
    ) -> Self {
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        imports.sort();
        Self { digest: digest(wasm), tools, manifest, imports }
    }

    /// Returns the id in the manifest; `None` without a manifest.
    pub fn id(&self) -> Option<&str> {
        self.manifest.as_ref().map(|manifest| manifest.id.as_str())
    }

    /// Returns the digest, `sha256:` and hexadecimal, of the tools' canonical form: tools sorted by
    /// name, members of objects sorted too.
    pub fn descriptors(&self) -> String {
        let tools: Vec<_> = self.tools.iter().map(canonical_tool).collect();
        digest(Value::from(tools).to_string().as_bytes())
    }

    /// Returns the state that the lock file records of a plugin that is accepted as it is now.
    pub fn pin(&self, client: &ClientName) -> Pin {
        Pin {
            client: client.to_string(),
            id: self.id().map(str::to_owned),
            version: self.manifest.as_ref().map(|manifest| manifest.version.to_string()),
            component: self.digest.clone(),
            source: None,
            publisher: None,
            descriptors: self.descriptors(),
            requests: self.lock_lines(),
            tools: self.tools.iter().map(pinned_tool).collect(),
        }
    }

    /// Returns the lines of the lock file about the imports, the requested rights and the declared
    /// effects, one for each, with invisible characters made visible. A line changes only if the request or the effect
    /// does.
    pub fn lock_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.imports.iter().map(|import| format!("import {import}")).collect();
        if let Some(Manifest { request, tools, .. }) = &self.manifest {
            lines.extend(tools.iter().flat_map(ToolEffects::lock_lines));
            lines.extend(request.all().flat_map(Request::lock_lines));
            let limits = request.limits.amounts();
            lines.extend(
                limits.map(|(limit, amount)| {
                    format!("limits.{} {}", limit.key(), limit.show(amount))
                }),
            );
        }
        lines.sort();
        lines.iter().map(|line| visible_line(line)).collect()
    }
}

fn pinned_tool(tool: &ToolDefinition) -> PinnedTool {
    PinnedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        definition: canonical_tool(tool).to_string(),
    }
}

/// Returns a tool as JSON with sorted members, so that the order in the source does not matter.
pub(super) fn canonical_tool(tool: &ToolDefinition) -> Value {
    sorted(serde_json::to_value(tool).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::tests::manifest_with;

    #[test]
    fn invisible_characters_of_a_request_are_visible_in_its_line() {
        let request = json!({"slot": {"mail": {"description": "a\u{202e}b", "reason": "r"}}});
        let manifest = manifest_with(&json!({"request": request}));
        let lines = Metadata::new(b"", Vec::new(), Some(manifest), Vec::new()).lock_lines();
        assert_eq!(lines, ["slot.mail a⟨U+202E⟩b"]);
    }

    #[test]
    fn embedded_tools_without_the_contract_are_refused() {
        let section = r#"{"schema":"airlock.tools/1","tools":[{"name":"a","inputSchema":{}}]}"#;
        let tools = format!("(@custom \"airlock:tools\" {section:?})");
        let contract = r#"(instance $i) (export "airlock:plugin/tools@0.1.0" (instance $i))"#;
        assert!(matches!(metadata_of(&tools), Err(MetadataError::Descriptors)));
        assert!(metadata_of("").expect("a plain component").tools.is_empty());
        assert!(metadata_of(contract).expect("a plugin").tools.is_empty());
        assert_eq!(metadata_of(&format!("{contract} {tools}")).expect("a plugin").tools.len(), 1);
    }

    fn metadata_of(content: &str) -> Result<Metadata, MetadataError> {
        Metadata::read(&wat::parse_str(format!("(component {content})")).expect("a component"))
    }

    #[test]
    fn a_manifest_and_a_component_of_different_contracts_are_refused() {
        assert!(exporting("0.1.3").is_ok());
        let refused = exporting("0.2.0").expect_err("another contract").to_string();
        insta::assert_snapshot!(refused, @r#"the plugin's manifest (plugin.toml) has `contract = "0.1"`, but the component exports version 0.2.0 of the contract; build it with the SDK of version 0.1"#);
    }

    fn exporting(version: &str) -> Result<Metadata, MetadataError> {
        let manifest =
            json!({"schema": "airlock.plugin/1", "id": "p", "version": "1.0.0", "contract": "0.1"});
        let section = manifest.to_string();
        let name = format!("airlock:plugin/tools@{version}");
        let component = format!(
            "(component (instance $i) (export {name:?} (instance $i)) (@custom \"airlock:manifest\" {section:?}))"
        );
        Metadata::read(&wat::parse_str(component).expect("a component"))
    }

    #[test]
    fn the_faults_of_an_embedded_manifest_are_told_once() {
        let wasm = wat::parse_str("(component (@custom \"airlock:manifest\" \"{}\"))")
            .expect("a component");
        let error = Metadata::read(&wasm).expect_err("four keys are missing");
        let told = airlock_strings::with_causes(&error);
        assert!(
            told.starts_with(
                "the plugin's manifest (plugin.toml) is invalid: 4 errors: schema: is missing"
            ),
            "{told}"
        );
        assert_eq!(told.matches("schema: is missing").count(), 1, "{told}");
    }

    fn lock_lines(request: &Value) -> Vec<String> {
        let manifest = manifest_with(&json!({"request": request}));
        let imports = vec!["wasi:io/poll@0.2.0".to_owned(), "airlock:host/log@0.1.0".to_owned()];
        Metadata::new(b"", Vec::new(), Some(manifest), imports).lock_lines()
    }

    #[test]
    fn every_request_has_its_lines_in_the_lock_file() {
        let request = json!({
            "http": {
                "api": {"url": "https://api.example.com", "methods": ["POST"], "paths": ["/v1/**"], "private": true, "reason": "r"},
                "web": {"url": "*", "reason": "r"},
            },
            "secret": {"t": {"inject": {"header": "x-key"}, "audience": ["api", "web"], "reveal": true, "reason": "r"}},
            "kv": {"cache": {"max_bytes": "1MiB", "reason": "r"}},
            "files": {
                "data": {"access": "read_write", "max_bytes": "1GiB", "max_files": 5, "reason": "r"},
                "*": {"access": "read_only", "reason": "r"},
            },
            "scratch": {"max_bytes": "1500B", "max_files": 3, "reason": "r"},
            "tools": {"call": ["text-count", "files-read"], "reason": "r"},
            "clocks": {"reason": "r"},
            "slot": {
                "forecast": {"description": "Returns a forecast.", "reason": "r"},
                "notify": {"reason": "r", "optional": true},
            },
            "limits": {
                "fuel": 5, "cpu_time": "1500ms", "deadline": "2m", "memory": "1MiB", "result": "1KiB",
                "host_calls": 7, "http_requests": 3, "http_request": "2KiB", "http_response": "1000B", "http_timeout": "5s",
            },
        });
        insta::assert_snapshot!(lock_lines(&request).join("\n"), @r"
        clocks
        files.* read_only
        files.data read_write 1GiB 5 files
        http.api https://api.example.com POST /v1/** private
        http.web *
        import airlock:host/log@0.1.0
        import wasi:io/poll@0.2.0
        kv.cache 1MiB
        limits.cpu_time 1s 500ms
        limits.deadline 2m
        limits.fuel 5
        limits.host_calls 7
        limits.http_request 2KiB
        limits.http_requests 3
        limits.http_response 1000B
        limits.http_timeout 5s
        limits.memory 1MiB
        limits.result 1KiB
        scratch 1500B 3 files
        secret.t in header x-key to api, web and shown to the plugin
        slot.forecast Returns a forecast.
        slot.notify
        tools files-read
        tools text-count
        ");
    }

    #[test]
    fn every_effect_of_a_tool_has_its_line_in_the_lock_file() {
        let manifest = manifest_with(&json!({
            "tool": [{"name": "put", "effects": ["write_kv.notes", "http"]}, {"name": "count"}],
            "request": {
                "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
                "kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}},
            },
        }));
        let lines = Metadata::new(b"", Vec::new(), Some(manifest), Vec::new()).lock_lines();
        assert_eq!(lines[..2], ["effect http of put", "effect write_kv.notes of put"]);
        assert!(!lines.iter().any(|line| line.contains("count")), "{lines:?}");
    }

    #[test]
    fn a_lock_line_shows_the_header_prefix_user_query_and_audience_of_a_secret() {
        assert_eq!(
            line_of_secret(&json!({"header": "authorization", "prefix": "Bearer "})),
            r#"secret.t in header authorization behind "Bearer " to api"#
        );
        assert_eq!(line_of_secret(&json!({"header": "x-key"})), "secret.t in header x-key to api");
        assert_eq!(line_of_secret(&json!({"query": "key"})), "secret.t in query key to api");
        assert_eq!(
            line_of_secret(&json!({"basic": "me"})),
            r#"secret.t as Basic password of "me" to api"#
        );
        assert_eq!(
            line_of_secret(&json!({"basic": ""})),
            "secret.t as Basic user and password to api"
        );
    }

    fn line_of_secret(inject: &Value) -> String {
        let http = json!({"api": {"url": "https://api.example.com", "reason": "r"}});
        let secret = json!({"t": {"inject": inject, "audience": ["api"], "reason": "r"}});
        let lines = lock_lines(&json!({"http": http, "secret": secret}));
        lines.into_iter().find(|line| line.starts_with("secret")).expect("a line")
    }
}
