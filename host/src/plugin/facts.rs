//! Facts about a component that are known without running it. They are accepted, and compared
//! later.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    BadManifest, Manifest,
    manifest::{ANY, FilesAccess, SECTION, SecretRequest},
};
use crate::{
    sandbox::{self, LoadError},
    text,
    tool::ToolDefinition,
};

/// Reason that the facts of a component cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The bytes are not a component, or its embedded sections cannot be read.
    #[error(transparent)]
    Component(#[from] LoadError),
    /// The embedded manifest is invalid.
    #[error("the plugin's manifest (plugin.toml): {0}")]
    Manifest(#[from] BadManifest),
    /// The component embeds tool descriptors that would never be offered. The tools of a component
    /// without the contract are its functions.
    #[error(
        "the component embeds descriptors of tools (the section airlock:tools) but does not export airlock:plugin/tools, so they \
         are not what it does; take the section out"
    )]
    Descriptors,
}

/// Facts about one component.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Digest of its bytes: `sha256:` and hexadecimal.
    pub component: String,
    /// Its tools, from the embedded descriptors; empty if none are embedded and the component was
    /// not run.
    pub tools: Vec<ToolDefinition>,
    /// Its manifest, written by the author.
    pub manifest: Option<Manifest>,
    /// Interfaces that it imports.
    pub imports: Vec<String>,
}

impl Facts {
    /// Reads the facts of a component without running it.
    pub fn of(wasm: &[u8]) -> Result<Self, FactsError> {
        let manifest = sandbox::embedded(wasm, SECTION)?.map(Manifest::parse).transpose()?;
        let tools = match (sandbox::embedded_tools(wasm)?, sandbox::contract_version(wasm)?) {
            (Some(_), None) => return Err(FactsError::Descriptors),
            (tools, _) => tools.unwrap_or_default(),
        };
        Ok(Self::new(wasm, tools, manifest, sandbox::imports(wasm)?))
    }

    /// Combines the facts of a component.
    pub fn new(
        wasm: &[u8],
        mut tools: Vec<ToolDefinition>,
        manifest: Option<Manifest>,
        mut imports: Vec<String>,
    ) -> Self {
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        imports.sort();
        Self { component: digest(wasm), tools, manifest, imports }
    }

    /// Returns the digest, `sha256:` and hexadecimal, of the tools' canonical form: tools sorted by
    /// name, members of objects sorted too.
    pub fn descriptors(&self) -> String {
        let tools: Vec<_> = self.tools.iter().map(canonical_tool).collect();
        digest(Value::from(tools).to_string().as_bytes())
    }

    /// Returns the requested rights, one line each. A line changes only if the request does.
    pub fn requests(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.imports.iter().map(|import| format!("import {import}")).collect();
        if let Some(manifest) = &self.manifest {
            lines.extend(requests(manifest));
        }
        lines.sort();
        lines
    }
}

/// Returns `sha256:` and the digest of `bytes`, in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", text::hex(&Sha256::digest(bytes)))
}

/// Returns a tool as JSON with sorted members, so that the order in the source does not matter.
pub(super) fn canonical_tool(tool: &ToolDefinition) -> Value {
    sorted(serde_json::to_value(tool).unwrap_or_default())
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            members.into_iter().collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(elements) => elements.into_iter().map(sorted).collect(),
        other => other,
    }
}

fn requests(manifest: &Manifest) -> Vec<String> {
    let request = &manifest.request;
    let mut lines = Vec::new();
    for (name, http) in &request.http {
        // The manifest was checked when it was parsed, so `rule` does not fail.
        let rule =
            http.rule().ok().flatten().map_or_else(|| ANY.to_owned(), |rule| rule.to_string());
        lines.push(format!("http.{name} {rule}"));
    }
    lines.extend(request.secret.iter().map(|(name, secret)| secret_line(name, secret)));
    lines.extend(request.kv.iter().map(|(name, store)| format!("kv.{name} {}", store.max_bytes)));
    for (name, files) in &request.files {
        let access =
            if files.access == FilesAccess::ReadWrite { "read-write" } else { "read-only" };
        let bytes = files.max_bytes.map(|size| format!(" {size}")).unwrap_or_default();
        let count = files.max_files.map(|count| format!(" {count} files")).unwrap_or_default();
        lines.push(format!("files.{name} {access}{bytes}{count}"));
    }
    lines.extend(
        request
            .scratch
            .iter()
            .map(|scratch| format!("scratch {} {} files", scratch.max_bytes, scratch.max_files)),
    );
    lines.extend(
        request
            .tools
            .iter()
            .flat_map(|tools| tools.call.iter().map(|tool| format!("tools {tool}"))),
    );
    lines.extend(request.clocks.iter().map(|_| "clocks".to_owned()));
    lines.extend(request.random.iter().map(|_| "random".to_owned()));
    let limits = &request.limits;
    let mut limit = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("limits.{name} {value}")));
    };
    limit("fuel", limits.fuel.map(|it| it.to_string()));
    limit("cpu_time", limits.cpu_time.map(|it| it.to_string()));
    limit("deadline", limits.deadline.map(|it| it.to_string()));
    limit("memory", limits.memory.map(|it| it.to_string()));
    limit("result", limits.result.map(|it| it.to_string()));
    limit("host_calls", limits.host_calls.map(|it| it.to_string()));
    limit("http_requests", limits.http_requests.map(|it| it.to_string()));
    limit("http_response", limits.http_response.map(|it| it.to_string()));
    lines
}

fn secret_line(name: &str, secret: &SecretRequest) -> String {
    let inject = secret.inject.as_ref().map(|inject| match (&inject.header, &inject.query) {
        (Some(header), _) if inject.prefix.is_empty() => format!(" in header {header}"),
        (Some(header), _) => format!(" in header {header} behind {:?}", inject.prefix),
        (_, Some(query)) => format!(" in query {query}"),
        _ => String::new(),
    });
    let audience = if secret.audience.is_empty() {
        String::new()
    } else {
        format!(" to {}", secret.audience.join(", "))
    };
    let reveal = if secret.reveal { " and shown to the plugin" } else { "" };
    format!("secret.{name}{}{audience}{reveal}", inject.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn embedded_tools_without_the_contract_are_refused() {
        let section = r#"{"schema":"airlock.tools/1","tools":[{"name":"a","inputSchema":{}}]}"#;
        let tools = format!("(@custom \"airlock:tools\" {section:?})");
        let contract = r#"(instance $i) (export "airlock:plugin/tools@0.1.0" (instance $i))"#;
        let facts = |content: &str| {
            Facts::of(&wat::parse_str(format!("(component {content})")).expect("a component"))
        };
        assert!(matches!(facts(&tools), Err(FactsError::Descriptors)));
        assert!(facts("").expect("a plain component").tools.is_empty());
        assert!(facts(contract).expect("a plugin").tools.is_empty());
        assert_eq!(facts(&format!("{contract} {tools}")).expect("a plugin").tools.len(), 1);
    }

    #[test]
    fn a_request_line_shows_the_header_prefix_query_and_audience_of_a_secret() {
        let manifest = |inject: Value| {
            let request = json!({
                "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
                "secret": {"t": {"inject": inject, "audience": ["api"], "reason": "r"}},
            });
            let manifest = json!({"schema": "airlock.plugin/1", "id": "p", "version": "1.0.0", "contract": "0.1", "request": request});
            Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest")
        };
        let line = |inject: Value| {
            Facts::new(b"", Vec::new(), Some(manifest(inject)), Vec::new()).requests()[1].clone()
        };
        assert_eq!(
            line(json!({"header": "authorization", "prefix": "Bearer "})),
            r#"secret.t in header authorization behind "Bearer " to api"#
        );
        assert_eq!(line(json!({"header": "x-key"})), "secret.t in header x-key to api");
        assert_eq!(line(json!({"query": "key"})), "secret.t in query key to api");
    }
}
