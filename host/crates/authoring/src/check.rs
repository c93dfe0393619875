//! Checks of a plugin before it is published.

mod limits;
mod outcome;
mod wasi;

use std::{path::Path, sync::Arc};

use serde_json::Value;

pub use self::outcome::{Check, CheckOutcome};
use crate::{
    CompiledComponent, Finding, component, config_schema, file::directory_of, finding, guard,
    quality,
};
use airlock_compile::CompileHook;
use airlock_core::tool::ToolDefinition;
use airlock_json::schema::CompiledSchema;
use airlock_plugin::{Manifest, Metadata, MetadataError, read_component};
use airlock_sandbox::{self as sandbox, LoadError};
use airlock_strings::with_causes;

/// Runs every check on a component, or on a plugin's directory: on its plugin.toml, and on the component
/// if it is built. The component is compiled, which `on_compile` may show, and asked for its tools with
/// everything denied. With the plugin.toml of its sources beside it, findings have the line.
pub async fn check(path: &Path, on_compile: &CompileHook) -> Result<Vec<Check>, LoadError> {
    if path.is_dir() {
        checks_of_directory(path, on_compile).await
    } else {
        checks(path, on_compile).await
    }
}

const COMPONENT: &str = "it is a component";
const CONTRACT: &str = "it is built for a version of the contract that this gateway supports";
const IMPORTS: &str = "it imports only what the gateway provides";
const MANIFEST: &str = "its manifest can be read";
const CURRENT: &str = "it is built from plugin.toml as it is now";
const REQUESTED: &str = "it imports only what plugin.toml requests";
const USED: &str = "every request in plugin.toml is one that its imports can use";
const BUILT: &str = "its component is built";
const DESCRIBE: &str = "it describes its tools with everything denied";
const EMBEDDED: &str = "the embedded descriptors match the tools that it describes";
const SCHEMAS: &str = "every schema compiles";

/// Checks a plugin's directory: its plugin.toml, and the component if there is one.
async fn checks_of_directory(
    directory: &Path,
    on_compile: &CompileHook,
) -> Result<Vec<Check>, LoadError> {
    let manifest = match Manifest::of_directory(directory) {
        Ok(Some((_, manifest))) => manifest,
        Ok(None) => {
            let finding = Finding::from("the directory has no plugin.toml");
            let write = "a plugin.toml; `airlock plugin new` writes one";
            return Ok(vec![Check::fail(MANIFEST, finding.write(write))]);
        }
        Err(bad) => return Ok(vec![Check::unless(MANIFEST, CheckOutcome::Fail, bad.lines())]),
    };
    let file = directory.join(format!("{}.wasm", manifest.id));
    if file.is_file() {
        return checks(&file, on_compile).await;
    }
    let finding = format!("{} is not there; `airlock plugin build` writes it", file.display());
    Ok(vec![Check::pass(MANIFEST), Check::warn(BUILT, finding)])
}

/// Runs every check on a component, and adds the positions in the plugin.toml beside it, if that is
/// the plugin's own.
async fn checks(file: &Path, on_compile: &CompileHook) -> Result<Vec<Check>, LoadError> {
    let bytes: Arc<[u8]> = read_component(file).await?.into();
    let metadata = Metadata::read(&bytes);
    let embedded = metadata.as_ref().ok().and_then(|metadata| metadata.manifest.as_ref());
    let source = match Manifest::of_directory(directory_of(file)) {
        Ok(Some((source, manifest)))
            if embedded.is_some_and(|embedded| embedded.id == manifest.id) =>
        {
            Some(source)
        }
        _ => None,
    };
    let mut checks = checks_of(file, bytes, metadata, on_compile).await?;
    for finding in checks.iter_mut().flat_map(|check| &mut check.details) {
        if let Some(source) = &source {
            finding.locate(source);
        }
    }
    Ok(checks)
}

async fn checks_of(
    file: &Path,
    bytes: Arc<[u8]>,
    metadata: Result<Metadata, MetadataError>,
    on_compile: &CompileHook,
) -> Result<Vec<Check>, LoadError> {
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(MetadataError::Manifest(error)) => {
            let manifest = Check::unless(MANIFEST, CheckOutcome::Fail, error.lines());
            return Ok(vec![Check::pass(COMPONENT), manifest]);
        }
        Err(error @ MetadataError::Contract { .. }) => {
            return Ok(vec![Check::pass(COMPONENT), Check::fail(CONTRACT, error.to_string())]);
        }
        Err(error @ MetadataError::Descriptors) => {
            return Ok(vec![Check::pass(COMPONENT), Check::fail(EMBEDDED, error.to_string())]);
        }
        Err(MetadataError::Component(error)) => {
            return Ok(vec![Check::fail(COMPONENT, with_causes(&error))]);
        }
    };
    if sandbox::is_guard(&bytes)? {
        return Ok(checks_of_guard(file, &bytes, &metadata, on_compile).await);
    }
    let compiled = match component::compile(file, &bytes, on_compile).await {
        Ok(compiled) => compiled,
        Err(error) => return Ok(vec![Check::pass(MANIFEST), not_loaded(&error)]),
    };
    let mut checks = vec![Check::pass(COMPONENT), Check::pass(IMPORTS), Check::pass(CONTRACT)];
    checks.push(manifest(&metadata));
    let DescribedTools { checks: described, tools, config } =
        describe(&compiled, &metadata, &bytes).await?;
    if let Some(manifest) = &metadata.manifest {
        checks.extend(current(file, manifest, config.as_ref()));
        let unrequested = finding::unrequested(&bytes, &metadata.imports, manifest)?;
        checks.push(Check::unless(REQUESTED, CheckOutcome::Fail, unrequested));
        let unused = finding::unused(&metadata.imports, manifest);
        checks.push(Check::unless(USED, CheckOutcome::Warn, unused));
        checks.push(limits::check(&manifest.request.limits));
    }
    checks.push(wasi::check(&bytes, &metadata.imports)?);
    checks.extend(described);
    checks.push(schemas(&metadata, &tools));
    checks.extend(quality::checks(&tools, metadata.manifest.as_ref()));
    Ok(checks)
}

async fn checks_of_guard(
    file: &Path,
    bytes: &Arc<[u8]>,
    metadata: &Metadata,
    on_compile: &CompileHook,
) -> Vec<Check> {
    let mut checks = vec![Check::pass(COMPONENT), manifest(metadata)];
    checks.extend(metadata.manifest.as_ref().and_then(|manifest| current(file, manifest, None)));
    checks.extend(guard::checks(file, bytes, metadata, on_compile).await);
    checks
}

/// Attributes a load error to the check that the component did not pass.
fn not_loaded(error: &LoadError) -> Check {
    let check = match error {
        LoadError::UnknownImports { .. } => IMPORTS,
        LoadError::Version { .. } | LoadError::Contract { .. } => CONTRACT,
        _ => COMPONENT,
    };
    Check::fail(check, with_causes(error))
}

fn manifest(metadata: &Metadata) -> Check {
    if metadata.manifest.is_some() {
        return Check::pass(MANIFEST);
    }
    let finding =
        Finding::from("none is embedded, so the operator cannot see what the plugin needs");
    Check::warn(MANIFEST, finding.write("a plugin.toml, and build with `airlock plugin build`"))
}

/// Compares the embedded manifest with the plugin.toml beside the component, which may leave the
/// schema of the configuration to the code: `config` is the one that the component describes. Returns
/// `None` if there is no plugin.toml for this plugin.
fn current(file: &Path, embedded: &Manifest, config: Option<&Value>) -> Option<Check> {
    let read = Manifest::of_directory(directory_of(file)).and_then(|read| {
        let Some((mut source, manifest)) = read else { return Ok(None) };
        let Some(config) = config.filter(|_| source.is_schema_in_code()) else {
            return Ok(Some(manifest));
        };
        source.set_schema(config);
        Manifest::of_source(&source).map(Some)
    });
    match read {
        Ok(Some(source)) if source.id != embedded.id => None,
        Ok(Some(source)) if source == *embedded => Some(Check::pass(CURRENT)),
        Ok(Some(_)) => {
            let finding = Finding::from("plugin.toml has changed since the component was built");
            Some(Check::warn(CURRENT, finding.write("the component again: `airlock plugin build`")))
        }
        Ok(None) => None,
        Err(bad) => Some(Check::unless(CURRENT, CheckOutcome::Fail, bad.lines())),
    }
}

/// Outcome of asking a component for its tools, and what the checks that follow need.
struct DescribedTools {
    checks: Vec<Check>,
    /// The tools that it describes; the embedded ones if it fails to describe any.
    tools: Vec<ToolDefinition>,
    /// Schema of the configuration that its code declares.
    config: Option<Value>,
}

/// Asks the component for its tools and compares them with the embedded ones.
async fn describe(
    compiled: &CompiledComponent,
    metadata: &Metadata,
    wasm: &[u8],
) -> Result<DescribedTools, LoadError> {
    let has_embedded = sandbox::embedded_tools(wasm)?.is_some();
    let mut tools = match compiled.plugin.describe().await {
        Ok(tools) => tools,
        Err(error) => {
            let checks = vec![Check::fail(DESCRIBE, with_causes(&error))];
            return Ok(DescribedTools { checks, tools: metadata.tools.clone(), config: None });
        }
    };
    let config = config_schema::take(&mut tools);
    let described = Metadata::new(wasm, tools, None, Vec::new());
    let is_plain = sandbox::contract_version(wasm)?.is_none();
    let compared = if is_plain && !has_embedded {
        // The tools follow from its types; the component is not run to list them.
        Check::pass(EMBEDDED)
    } else if !has_embedded {
        Check::warn(EMBEDDED, "none are embedded: the plugin is run whenever its tools are listed")
    } else if described.descriptors() == metadata.descriptors() {
        Check::pass(EMBEDDED)
    } else {
        Check::unless(EMBEDDED, CheckOutcome::Fail, differences(&described.tools, &metadata.tools))
    };
    let checks = vec![Check::pass(DESCRIBE), compared];
    Ok(DescribedTools { checks, tools: described.tools, config })
}

fn differences(described: &[ToolDefinition], embedded: &[ToolDefinition]) -> Vec<String> {
    let mut found: Vec<_> = described
        .iter()
        .filter_map(|tool| match named(embedded, &tool.name) {
            None => Some(format!("{}: it describes this tool, and none is embedded", tool.name)),
            Some(other) => (other != tool).then(|| {
                format!(
                    "{}: the embedded descriptor differs from the one that it describes",
                    tool.name
                )
            }),
        })
        .collect();
    let gone = embedded.iter().filter(|tool| named(described, &tool.name).is_none());
    found.extend(
        gone.map(|tool| format!("{}: this tool is embedded, and it describes none", tool.name)),
    );
    found
}

fn named<'t>(tools: &'t [ToolDefinition], name: &str) -> Option<&'t ToolDefinition> {
    tools.iter().find(|tool| tool.name == name)
}

/// Compiles every schema. A tool with an unbounded schema is kept, which is a warning; a plugin
/// whose configuration cannot be checked is refused.
fn schemas(metadata: &Metadata, tools: &[ToolDefinition]) -> Check {
    let mut found = Vec::new();
    let mut outcome = CheckOutcome::Warn;
    for tool in tools {
        let input = CompiledSchema::compile_text("inputSchema", &tool.input_schema);
        let output = tool.output_schema.as_ref();
        let output = output.map(|schema| CompiledSchema::compile_text("outputSchema", schema));
        for bad in [Some(input), output].into_iter().flatten().filter_map(Result::err) {
            if !bad.is_unbounded() {
                outcome = CheckOutcome::Fail;
            }
            found.push(format!("{}: {bad}", tool.name));
        }
    }
    let config = metadata.manifest.as_ref().and_then(|manifest| manifest.config_schema());
    let config = config.map(|schema| CompiledSchema::compile("config.schema", schema));
    if let Some(Err(bad)) = config {
        outcome = CheckOutcome::Fail;
        found.push(format!("the manifest: {bad}"));
    }
    Check::unless(SCHEMAS, outcome, found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest_with;

    fn checked(input: &Value) -> Check {
        let tool = json!({"name": "t", "description": "A tool.", "inputSchema": input});
        let tools: Vec<ToolDefinition> = serde_json::from_value(json!([tool])).expect("tools");
        let metadata = Metadata::new(b"component", tools.clone(), None, Vec::new());
        schemas(&metadata, &tools)
    }

    #[tokio::test]
    async fn a_directory_with_sources_is_checked_with_the_lines_of_its_manifest() {
        let home = tempfile::tempdir().expect("a directory");
        let checked = async || {
            checks_of_directory(home.path(), &|_| Box::new(()))
                .await
                .expect("checks")
                .pop()
                .expect("one")
        };
        assert!(checked().await.details[0].to_string().contains("has no plugin.toml"));
        let text = "schema = 'airlock.plugin/1'\nid = 'a'\nversion = '1'\ncontract = '0.1'\nlicence = ''\n";
        std::fs::write(home.path().join("plugin.toml"), text).expect("a file");
        let Check { outcome, details, .. } = checked().await;
        assert_eq!(outcome, CheckOutcome::Fail);
        let details: Vec<_> = details.iter().map(ToString::to_string).collect();
        assert_eq!(details.len(), 2, "{details:?}");
        assert!(details[0].starts_with("plugin.toml:3:11: version: found \"1\""), "{details:?}");
        assert!(details[1].starts_with("plugin.toml:5:1: licence: unknown key"), "{details:?}");
        std::fs::write(
            home.path().join("plugin.toml"),
            text.replace("'1'", "'1.0.0'").replace("licence", "license"),
        )
        .expect("a file");
        let unbuilt = checked().await;
        assert_eq!((unbuilt.name, unbuilt.outcome), (BUILT, CheckOutcome::Warn));
    }

    #[test]
    fn a_schema_in_the_code_is_compared_with_the_one_that_the_component_describes() {
        let home = tempfile::tempdir().expect("a directory");
        let text = "schema = 'airlock.plugin/1'\nid = 'a'\nversion = '1.0.0'\ncontract = '0.1'\n[config]\nfrom_code = true\n";
        std::fs::write(home.path().join("plugin.toml"), text).expect("a file");
        let schema = json!({"type": "object", "properties": {"rows": {"type": "integer"}}});
        let embedded = manifest_with(&json!({"id": "a", "config": {"schema": schema}}));
        let outcome = |config: Option<&Value>| {
            current(&home.path().join("a.wasm"), &embedded, config).expect("a check").outcome
        };
        assert_eq!(outcome(Some(&schema)), CheckOutcome::Pass);
        assert_eq!(outcome(Some(&json!({"type": "object"}))), CheckOutcome::Warn);
        assert_eq!(outcome(None), CheckOutcome::Warn, "the code declares none");
    }

    #[test]
    fn an_invalid_schema_fails_and_an_unbounded_one_is_a_warning() {
        assert_eq!(checked(&json!({"type": "object"})).outcome, CheckOutcome::Pass);
        let unbounded = checked(&json!({"$ref": "#"}));
        assert_eq!(unbounded.outcome, CheckOutcome::Warn, "{:?}", unbounded.details);
        assert!(unbounded.details[0].to_string().starts_with("t: nothing can be checked against"));
        assert_eq!(checked(&json!({"type": "text"})).outcome, CheckOutcome::Fail);
    }
}
