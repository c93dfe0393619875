//! `airlock plugin check`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use serde_json::json;

use super::{
    super::{Done, output},
    component::{self, Compiled},
    quality,
};
use crate::{
    plugin::{Manifest, Metadata, MetadataError, read_component},
    sandbox::{self, LoadError},
    schema::CompiledSchema,
    text::{visible, with_causes},
    tool::ToolDefinition,
};

/// Check a plugin before you publish it
///
/// Prints a line for each check. The component is compiled and asked for its tools with everything
/// denied; its answer must match the descriptors that its build embedded. Of a directory with
/// sources, `plugin.toml` is checked, and nothing is built. The exit code is 1 if a check fails; a
/// warning is not a failure.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin check weather.wasm\n  airlock plugin check weather"
)]
pub(super) struct Args {
    /// The component, or a directory with sources.
    file: PathBuf,
    /// Print a JSON document: `{ok, file, checks: [{check, outcome, details}]}`.
    #[arg(long)]
    pub(super) json: bool,
}

/// Outcome of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Pass,
    Warn,
    Fail,
}

/// One check and its findings, with invisible characters made visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "it is the name of the member in the JSON document")]
pub(super) struct Check {
    pub(super) check: &'static str,
    pub(super) outcome: Outcome,
    pub(super) details: Vec<String>,
}

impl Check {
    pub(super) fn pass(check: &'static str) -> Self {
        Self { check, outcome: Outcome::Pass, details: Vec::new() }
    }

    pub(super) fn warn(check: &'static str, detail: impl AsRef<str>) -> Self {
        Self { check, outcome: Outcome::Warn, details: vec![visible(detail.as_ref())] }
    }

    pub(super) fn fail(check: &'static str, detail: impl AsRef<str>) -> Self {
        Self { check, outcome: Outcome::Fail, details: vec![visible(detail.as_ref())] }
    }

    /// Passes if `found` is empty; else the outcome is `otherwise`.
    pub(super) fn unless(
        check: &'static str,
        otherwise: Outcome,
        found: impl IntoIterator<Item = String>,
    ) -> Self {
        let details: Vec<_> = found.into_iter().map(|detail| visible(&detail)).collect();
        Self { check, outcome: if details.is_empty() { Outcome::Pass } else { otherwise }, details }
    }
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let checks =
        if args.file.is_dir() { source_checks(&args.file) } else { checks(&args.file).await? };
    let ok = checks.iter().all(|check| check.outcome != Outcome::Fail);
    if args.json {
        output::document(&json!({"ok": ok, "file": args.file, "checks": checks}))?;
        return Ok(ok.into());
    }
    for Check { check, outcome, details } in &checks {
        let mark = match outcome {
            Outcome::Pass => "pass",
            Outcome::Warn => "warn",
            Outcome::Fail => "FAIL",
        };
        output::line(&format!("{mark}  {check}"))?;
        for detail in details {
            output::line(&format!("      {}", detail.replace('\n', "\n      ")))?;
        }
    }
    let count = |outcome| checks.iter().filter(|check| check.outcome == outcome).count();
    output::line(&format!(
        "\n{} passed, {} warned, {} failed",
        count(Outcome::Pass),
        count(Outcome::Warn),
        count(Outcome::Fail)
    ))?;
    Ok(ok.into())
}

const COMPONENT: &str = "it is a component";
const CONTRACT: &str = "it is built for a version of the contract that this gateway supports";
const IMPORTS: &str = "it imports only what the gateway provides";
const MANIFEST: &str = "its manifest can be read";
const DESCRIBE: &str = "it describes its tools with everything denied";
const EMBEDDED: &str = "the embedded descriptors match the tools that it describes";
const SCHEMAS: &str = "every schema compiles";

/// Checks a directory with sources.
fn source_checks(directory: &Path) -> Vec<Check> {
    vec![match Manifest::of_directory(directory) {
        Ok(Some(_)) => Check::pass(MANIFEST),
        Ok(None) => Check::fail(
            MANIFEST,
            "the directory has no plugin.toml; `airlock plugin new` writes one",
        ),
        Err(bad) => Check::unless(MANIFEST, Outcome::Fail, bad.lines()),
    }]
}

async fn checks(file: &Path) -> anyhow::Result<Vec<Check>> {
    let bytes: Arc<[u8]> = read_component(file).await?.into();
    let metadata = match Metadata::of(&bytes) {
        Ok(metadata) => metadata,
        Err(MetadataError::Manifest(error)) => {
            let manifest = Check::unless(MANIFEST, Outcome::Fail, error.lines());
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
    let compiled = match component::compile(file, &bytes).await {
        Ok(compiled) => compiled,
        Err(error) => return Ok(vec![Check::pass(MANIFEST), not_loaded(&error)]),
    };
    let mut checks = vec![Check::pass(COMPONENT), Check::pass(IMPORTS), Check::pass(CONTRACT)];
    checks.push(manifest(&metadata));
    let (described, tools) = describe(&compiled, &metadata, &bytes).await?;
    checks.extend(described);
    checks.push(schemas(&metadata, &tools));
    checks.extend(quality::checks(&tools, metadata.manifest.as_ref()));
    Ok(checks)
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
    Check::warn(
        MANIFEST,
        "none is embedded, so the operator cannot see what the plugin needs; write a plugin.toml",
    )
}

/// Asks the component for its tools and compares them with the embedded ones. Returns the tools for
/// the checks that follow.
async fn describe(
    compiled: &Compiled,
    metadata: &Metadata,
    wasm: &[u8],
) -> anyhow::Result<(Vec<Check>, Vec<ToolDefinition>)> {
    let has_embedded = sandbox::embedded_tools(wasm)?.is_some();
    let described = match compiled.plugin.describe().await {
        Ok(tools) => Metadata::new(wasm, tools, None, Vec::new()),
        Err(error) => {
            return Ok((vec![Check::fail(DESCRIBE, with_causes(&error))], metadata.tools.clone()));
        }
    };
    let is_plain = sandbox::contract_version(wasm)?.is_none();
    let compared = if is_plain && !has_embedded {
        // The tools follow from its types; the component is not run to list them.
        Check::pass(EMBEDDED)
    } else if !has_embedded {
        Check::warn(EMBEDDED, "none are embedded: the plugin is run whenever its tools are listed")
    } else if described.descriptors() == metadata.descriptors() {
        Check::pass(EMBEDDED)
    } else {
        Check::unless(EMBEDDED, Outcome::Fail, differences(&described.tools, &metadata.tools))
    };
    Ok((vec![Check::pass(DESCRIBE), compared], described.tools))
}

fn differences(described: &[ToolDefinition], embedded: &[ToolDefinition]) -> Vec<String> {
    let find =
        |tools: &[ToolDefinition], name: &str| tools.iter().find(|tool| tool.name == name).cloned();
    let mut found: Vec<_> = described
        .iter()
        .filter_map(|tool| match find(embedded, &tool.name) {
            None => Some(format!("{}: it describes this tool, and none is embedded", tool.name)),
            Some(other) => (other != *tool).then(|| {
                format!(
                    "{}: the embedded descriptor differs from the one that it describes",
                    tool.name
                )
            }),
        })
        .collect();
    let gone = embedded.iter().filter(|tool| find(described, &tool.name).is_none());
    found.extend(
        gone.map(|tool| format!("{}: this tool is embedded, and it describes none", tool.name)),
    );
    found
}

/// Compiles every schema. A tool with an unbounded schema is kept, which is a warning; a plugin
/// whose configuration cannot be checked is refused.
fn schemas(metadata: &Metadata, tools: &[ToolDefinition]) -> Check {
    let (mut found, mut outcome) = (Vec::new(), Outcome::Warn);
    for tool in tools {
        let input = CompiledSchema::compile_text("inputSchema", &tool.input_schema);
        let output = tool.output_schema.as_ref();
        let output = output.map(|schema| CompiledSchema::compile_text("outputSchema", schema));
        for bad in [Some(input), output].into_iter().flatten().filter_map(Result::err) {
            if !bad.is_unbounded() {
                outcome = Outcome::Fail;
            }
            found.push(format!("{}: {bad}", tool.name));
        }
    }
    let config = metadata.manifest.as_ref().and_then(|manifest| manifest.config_schema());
    let config = config.map(|schema| CompiledSchema::compile("config.schema", schema));
    if let Some(Err(bad)) = config {
        outcome = Outcome::Fail;
        found.push(format!("the manifest: {bad}"));
    }
    Check::unless(SCHEMAS, outcome, found)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn checked(input: &Value) -> Check {
        let tool = json!({"name": "t", "description": "A tool.", "inputSchema": input});
        let tools: Vec<ToolDefinition> = serde_json::from_value(json!([tool])).expect("tools");
        let metadata = Metadata::new(b"component", tools.clone(), None, Vec::new());
        schemas(&metadata, &tools)
    }

    #[test]
    fn a_directory_with_sources_is_checked_with_the_lines_of_its_manifest() {
        let home = tempfile::tempdir().expect("a directory");
        let checked = || source_checks(home.path()).pop().expect("a check");
        assert!(checked().details[0].contains("has no plugin.toml"));
        let text = "schema = 'airlock.plugin/1'\nid = 'a'\nversion = '1'\ncontract = '0.1'\nlicence = ''\n";
        std::fs::write(home.path().join("plugin.toml"), text).expect("a file");
        let Check { outcome, details, .. } = checked();
        assert_eq!((outcome, details.len()), (Outcome::Fail, 2), "{details:?}");
        assert!(details[0].starts_with("plugin.toml:3:11: version: found \"1\""), "{details:?}");
        assert!(details[1].starts_with("plugin.toml:5:1: licence: unknown key"), "{details:?}");
        std::fs::write(
            home.path().join("plugin.toml"),
            text.replace("'1'", "'1.0.0'").replace("licence", "license"),
        )
        .expect("a file");
        assert_eq!(checked().outcome, Outcome::Pass);
    }

    #[test]
    fn an_invalid_schema_fails_and_an_unbounded_one_is_a_warning() {
        assert_eq!(checked(&json!({"type": "object"})).outcome, Outcome::Pass);
        let unbounded = checked(&json!({"$ref": "#"}));
        assert_eq!(unbounded.outcome, Outcome::Warn, "{:?}", unbounded.details);
        assert!(unbounded.details[0].starts_with("t: nothing can be checked against"));
        assert_eq!(checked(&json!({"type": "text"})).outcome, Outcome::Fail);
    }
}
