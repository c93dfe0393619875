//! `airlock plugin inspect`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use airlock_authoring::{CompiledComponent, Component, example};
use airlock_core::{
    tool::{Annotations, ToolDefinition},
    units::{Size, Span},
};
use airlock_plugin::{Manifest, Metadata, RequestSummary, requested_limits};
use airlock_sandbox as sandbox;
use airlock_strings::{visible, visible_line};
use airlock_terminal::{outcome::CommandOutcome, output, record::millis, spinner};

/// Show what a plugin is and what it requests
///
/// Reads only the component, and no configuration. The component is compiled. If it embeds no
/// descriptors of its tools, it is asked for them with everything denied. Invisible characters in
/// its texts are shown as ⟨U+200B⟩.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock plugin inspect weather.wasm")]
pub(super) struct InspectArgs {
    /// The component.
    file: PathBuf,
    /// Print a JSON document: `{file, id, version, contract, digest, bytes, native_bytes,
    /// compile_ms, imports, tools, effects, …}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &InspectArgs) -> anyhow::Result<CommandOutcome> {
    let mut component = Component::read(&args.file).await?;
    let compiled = component.compile(&spinner::compiling).await?;
    component.learn(&compiled).await?;
    if args.json {
        output::document(&document(&component, &compiled)?)?;
    } else {
        output::line(&text(&component, &compiled)?)?;
    }
    Ok(CommandOutcome::Success)
}

fn document(component: &Component, compiled: &CompiledComponent) -> anyhow::Result<Value> {
    let metadata = &component.metadata;
    let manifest = metadata.manifest.as_ref();
    Ok(json!({
        "file": component.path,
        "id": manifest.map(|manifest| &manifest.id),
        "version": manifest.map(|manifest| manifest.version.to_string()),
        "description": manifest.map(|manifest| &manifest.description),
        "license": manifest.and_then(|manifest| manifest.license.as_ref()),
        "metadata": manifest.map(|manifest| &manifest.metadata),
        "contract": sandbox::contract_version(&component.bytes)?,
        "digest": metadata.digest,
        "bytes": component.bytes.len(),
        "native_bytes": compiled.plugin.native_bytes(),
        "compile_ms": compiled.took.map(millis),
        "descriptors_embedded": component.embeds_tools()?,
        "imports": metadata.imports,
        "tools": metadata.tools,
        "effects": manifest.map(|manifest| {
            let tools = manifest.tools.iter();
            tools.map(|tool| (tool.name.clone(), json!(tool.effects))).collect::<Map<_, _>>()
        }),
        "requests": RequestSummary::all(metadata),
        "limits": requested_limits(metadata),
        "config_schema": manifest.and_then(|manifest| manifest.config_schema()),
    }))
}

fn text(component: &Component, compiled: &CompiledComponent) -> anyhow::Result<String> {
    let metadata = &component.metadata;
    let mut lines = head(component, compiled)?;
    lines.extend(facts(metadata));
    lines.push("tools".to_owned());
    let manifest = metadata.manifest.as_ref();
    lines.extend(metadata.tools.iter().flat_map(|definition| tool(definition, manifest)));
    lines.push("requests".to_owned());
    lines.extend(requests(component));
    lines.push("imports".to_owned());
    lines.extend(imports(&metadata.imports));
    Ok(lines.join("\n"))
}

fn head(component: &Component, compiled: &CompiledComponent) -> anyhow::Result<Vec<String>> {
    let metadata = &component.metadata;
    let file = visible_line(&component.path.display().to_string());
    let mut lines = match &metadata.manifest {
        Some(manifest) => {
            let description = visible_line(&manifest.description);
            vec![
                format!("{} {}  {description}", manifest.id, manifest.version)
                    .trim_end()
                    .to_owned(),
            ]
        }
        None => vec![format!(
            "{file} embeds no manifest: it requests nothing, and may use everything that it is granted"
        )],
    };
    let contract = sandbox::contract_version(&component.bytes)?;
    let took = compiled.took.map_or_else(
        || "taken from the cache".to_owned(),
        |took| {
            format!(
                "compiled in {}",
                Span(std::time::Duration::from_millis(
                    u64::try_from(took.as_millis()).unwrap_or(0)
                ))
            )
        },
    );
    let config = match metadata.manifest.as_ref().map(|manifest| manifest.config_schema()) {
        None => "unchecked: no schema is embedded",
        Some(None) => "it takes none",
        Some(Some(_)) => "it takes one, checked against its schema",
    };
    let native = kib(compiled.plugin.native_bytes());
    lines.extend([
        format!("  file      {file}, {}", kib(component.bytes.len())),
        format!("  digest    {}", metadata.digest),
        format!(
            "  contract  {}",
            contract.as_deref().map_or_else(|| "none".to_owned(), visible_line)
        ),
        format!("  native    {native}, {took}"),
        format!("  config    {config}"),
    ]);
    let license = metadata.manifest.as_ref().and_then(|manifest| manifest.license.as_ref());
    lines.extend(license.map(|license| format!("  licence   {}", visible_line(license))));
    if component.is_plain()? {
        lines.push("  tools     the functions that it exports".to_owned());
    } else if !component.embeds_tools()? {
        lines.push("  tools     not embedded; it was asked for them".to_owned());
    }
    Ok(lines)
}

/// Returns the table `[metadata]` of the manifest, a line for each key.
fn facts(metadata: &Metadata) -> Vec<String> {
    let facts = metadata.manifest.iter().flat_map(|manifest| &manifest.metadata);
    let lines: Vec<_> = facts
        .map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("  {}: {}", visible_line(key), visible_line(&value))
        })
        .collect();
    let head = (!lines.is_empty()).then(|| "metadata, as its author states it".to_owned());
    head.into_iter().chain(lines).collect()
}

/// Returns a line for each import. Those of WASI are one line, because they follow from the language
/// and grant nothing; `--json` lists them.
fn imports(imports: &[String]) -> Vec<String> {
    let (wasi, others): (Vec<_>, Vec<_>) =
        imports.iter().partition(|import| import.starts_with("wasi:"));
    let others = others.into_iter().map(|import| format!("  {}", visible_line(import)));
    let wasi = (!wasi.is_empty()).then(|| format!("  wasi: {} interfaces", wasi.len()));
    others.chain(wasi).collect()
}

fn requests(component: &Component) -> Vec<String> {
    let mut lines: Vec<_> =
        RequestSummary::all(&component.metadata).iter().flat_map(RequestSummary::lines).collect();
    let limits = requested_limits(&component.metadata);
    if !limits.is_empty() {
        lines.push(format!("  limits: {}", limits.join(", ")));
    }
    if lines.is_empty() {
        lines.push("  nothing".to_owned());
    }
    lines
}

fn tool(tool: &ToolDefinition, manifest: Option<&Manifest>) -> Vec<String> {
    let hints = hints(&tool.annotations);
    let result = if tool.output_schema.is_some() { " → structured" } else { "" };
    let mut lines = vec![format!(
        "  {}{}{result}{hints}",
        visible_line(&tool.name),
        visible_line(&example::signature(tool))
    )];
    lines.extend(visible(&tool.description).lines().map(|line| format!("      {line}")));
    lines.extend(
        manifest.map(|manifest| format!("      effects: {}", effects(manifest, &tool.name))),
    );
    lines
}

/// Returns the effects that a manifest declares for a tool, as people read them.
fn effects(manifest: &Manifest, tool: &str) -> String {
    let declared = manifest.tools.iter().filter(|listed| listed.name == tool);
    let names: Vec<_> =
        declared.flat_map(|listed| &listed.effects).map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn hints(annotations: &Annotations) -> String {
    let Annotations { read_only, destructive, idempotent, open_world, extra: _ } = *annotations;
    let hints = [
        (read_only, "read-only", "writes"),
        (destructive, "destructive", ""),
        (idempotent, "idempotent", ""),
        (open_world, "open world", "closed world"),
    ];
    let words = hints
        .into_iter()
        .filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }));
    let said: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    if said.is_empty() { String::new() } else { format!("  [{}]", said.join(", ")) }
}

/// Rounds a size up to KiB, which is precise enough for people.
fn kib(bytes: usize) -> Size {
    Size::kib(bytes.div_ceil(1024) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_plugin::Manifest;

    #[test]
    fn the_imports_of_wasi_are_one_line() {
        assert_eq!(
            imports_of(&["airlock:host/log@0.1.0", "wasi:io/poll@0.2.6", "wasi:io/error@0.2.6"]),
            ["  airlock:host/log@0.1.0", "  wasi: 2 interfaces"]
        );
        assert_eq!(imports_of(&["airlock:host/log@0.1.0"]), ["  airlock:host/log@0.1.0"]);
    }

    fn imports_of(names: &[&str]) -> Vec<String> {
        imports(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn each_key_of_the_metadata_is_one_line_with_invisible_characters_made_visible() {
        let manifest = json!({
            "schema": "airlock.plugin/1", "id": "p", "version": "1.0.0", "contract": "0.1",
            "metadata": {"author": "Ann\u{202e}\n  digest", "links\n": {"home": "https://a.example"}, "year": 2026},
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let metadata = Metadata::new(b"", Vec::new(), Some(manifest), Vec::new());
        insta::assert_snapshot!(facts(&metadata).join("\n"), @r#"
        metadata, as its author states it
          author: Ann⟨U+202E⟩⟨U+000A⟩  digest
          links⟨U+000A⟩: {"home":"https://a.example"}
          year: 2026
        "#);
        let metadata = Metadata::new(b"", Vec::new(), None, Vec::new());
        assert!(facts(&metadata).is_empty());
    }
}
