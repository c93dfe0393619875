//! Turns the output of a compiler into a finished component. Its manifest and its tools are
//! embedded, so that it need not be run to read them.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use super::{error::BuildError, project::Project};
use crate::{Finding, Language, component, config_schema, file::replace, finding, guard};
use airlock_compile::{CompileHook, embed};
use airlock_core::tool::{ClientName, Tool, ToolDefinition, ToolName};
use airlock_plugin::{MANIFEST_SECTION, Metadata};
use airlock_sandbox::{self as sandbox, LoadError};

/// A component that was written to its file.
#[derive(Debug)]
pub struct BuiltComponent {
    /// The file.
    pub file: PathBuf,
    /// Size of the component, in bytes.
    pub bytes: usize,
    /// Its manifest, tools and imports.
    pub metadata: Metadata,
    /// Imports that are not requested, and requests that no import uses.
    pub findings: Vec<Finding>,
}

/// Asks the component for its tools, embeds them and the manifest, and writes it to `file`
/// atomically.
pub(super) async fn finish(
    project: &mut Project,
    compiled: Vec<u8>,
    file: PathBuf,
    on_compile: &CompileHook,
) -> Result<BuiltComponent, BuildError> {
    let compiled: Arc<[u8]> = compiled.into();
    if sandbox::is_guard(&compiled)? {
        return finish_guard(project, &compiled, file, on_compile).await;
    }
    let asked = async {
        component::compile_built(&file, &compiled, on_compile).await?.plugin.describe().await
    };
    let mut tools = asked.await.map_err(BuildError::Describe)?;
    check(project, &tools)?;
    settle_config(project, &mut tools)?;
    let manifest = project.source.json();
    let mut component =
        embed(&compiled, MANIFEST_SECTION, manifest.as_bytes()).map_err(LoadError::from)?;
    // The tools of a component without the contract follow from its functions, and an embedded list
    // would be refused.
    if sandbox::contract_version(&compiled)?.is_some() {
        component = sandbox::embed_tools(&component, &tools)?;
    }
    let Metadata { manifest, imports, .. } =
        Metadata::read(&component).map_err(BuildError::Embedded)?;
    let metadata = Metadata::new(&component, tools, manifest, imports);
    let findings = findings(project, &component, &metadata.imports)?;
    write(file, &component, metadata, findings)
}

/// Embeds the manifest in a guard, which the gateway has to be able to load, and writes it to `file` atomically.
async fn finish_guard(
    project: &Project,
    compiled: &Arc<[u8]>,
    file: PathBuf,
    on_compile: &CompileHook,
) -> Result<BuiltComponent, BuildError> {
    let meaningless = guard::meaningless(&project.manifest);
    if let Some(table) = meaningless.first() {
        return Err(BuildError::Tools(format!(
            "plugin.toml has the table `{table}`, and a guard can be granted nothing and has no tools; remove it"
        )));
    }
    component::load_guard(&file, compiled, on_compile).await.map_err(BuildError::Guard)?;
    let manifest = project.source.json();
    let component =
        embed(compiled, MANIFEST_SECTION, manifest.as_bytes()).map_err(LoadError::from)?;
    let metadata = Metadata::read(&component).map_err(BuildError::Embedded)?;
    write(file, &component, metadata, Vec::new())
}

fn write(
    file: PathBuf,
    component: &[u8],
    metadata: Metadata,
    findings: Vec<Finding>,
) -> Result<BuiltComponent, BuildError> {
    let unwritten = BuildError::io(format!("{} cannot be written", file.display()));
    replace(&file, component).map_err(unwritten)?;
    Ok(BuiltComponent { file, bytes: component.len(), metadata, findings })
}

/// Moves the schema of the configuration from the tools that the plugin describes to its manifest.
fn settle_config(project: &mut Project, tools: &mut [ToolDefinition]) -> Result<(), BuildError> {
    match (config_schema::take(tools), project.source.is_schema_in_code()) {
        (Some(schema), true) => {
            project.source.set_schema(&schema);
            Ok(())
        }
        (None, true) => refuse(format!(
            "plugin.toml leaves the schema of the configuration to the code (`from_code = true`), which declares none; {}",
            match project.language {
                Language::Rust =>
                    "write `plugin!(TOOL, …; config = Settings)`, with `#[data]` above `struct Settings`",
                Language::JavaScript => "write `plugin(TOOL, …, { config: s.object({ … }) })`",
                Language::Python =>
                    "write `plugin(TOOL, …, config=Settings)`, with a dataclass `Settings`",
            }
        )),
        (Some(_), false) if project.manifest.config_schema().is_none() => refuse(
            "the plugin's code declares a configuration; write `[config]` with `from_code = true` to plugin.toml",
        ),
        (_, false) => Ok(()),
    }
}

/// Compares the imports of a component with the requests of its plugin.toml.
fn findings(
    project: &Project,
    component: &[u8],
    imports: &[String],
) -> Result<Vec<Finding>, LoadError> {
    let mut findings = finding::unrequested(component, imports, &project.manifest)?;
    findings.extend(finding::unused(imports, &project.manifest));
    for finding in &mut findings {
        finding.locate(&project.source);
    }
    Ok(findings)
}

/// Refuses tools that the gateway would leave out. Refuses a manifest that names a missing tool,
/// because an operator could not grant it knowingly.
fn check(project: &Project, tools: &[ToolDefinition]) -> Result<(), BuildError> {
    if tools.is_empty() {
        return refuse("the plugin has no tools");
    }
    let client = ClientName::parse("plugin").expect("a constant that fits");
    let mut names = BTreeSet::new();
    for tool in tools {
        let name = &tool.name;
        if !ToolName::is_valid(name) {
            return refuse(format!(
                "found a tool called {name:?}; a name has 1 to 64 of the characters a-z, A-Z, 0-9, `_` and `-`"
            ));
        }
        if !names.insert(name.as_str()) {
            return refuse(format!("two tools are called {name:?}"));
        }
        if tool.description.trim().is_empty() {
            return refuse(format!("tool {name:?} needs a description: a model chooses by it"));
        }
        Tool::adopt(&client, tool.clone())?;
    }
    if let Some(unknown) =
        project.manifest.tools.iter().find(|note| !names.contains(note.name.as_str()))
    {
        let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        return refuse(format!(
            "plugin.toml names a tool {:?} that the plugin does not have; it has {}",
            unknown.name,
            names.join(", ")
        ));
    }
    Ok(())
}

fn refuse(reason: impl Into<String>) -> Result<(), BuildError> {
    Err(BuildError::Tools(reason.into()))
}
