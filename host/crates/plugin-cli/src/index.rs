//! `airlock plugin index`, and the index that it writes.
//!
//! An index is a file beside components, in a directory that may be served as a static site. It helps to find a
//! plugin and decides nothing: an installation reads the component itself.

use std::{
    fs::{self, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use airlock_authoring::Component;
use airlock_core::tool::ToolDefinition;
use airlock_plugin::RequestSummary;
use airlock_sandbox::{self as sandbox, LoadError};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Name of an index in its directory.
pub(super) const INDEX_FILE: &str = "index.json";
const SCHEMA: &str = "airlock.index/1";

/// List the plugins of a directory for `search`
///
/// Writes `index.json` into the directory: of each component in it (`*.wasm`) the id, version, description, digest,
/// tools and requests, and whether it is a guard. Serve the directory as static files, and `airlock plugin search`
/// finds its plugins by URL. Nothing is compiled or run, so only tools that the build of a component embedded are
/// listed. A symbolic link named `index.json` is replaced, and its target stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock plugin index plugins")]
pub(super) struct IndexArgs {
    /// The directory.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

pub(super) async fn run(args: &IndexArgs) -> anyhow::Result<CommandOutcome> {
    let directory = &args.directory;
    let mut plugins = Vec::new();
    for file in components(directory)? {
        let component = Component::read(&directory.join(&file)).await?;
        let plugin = IndexedPlugin::new(file, &component);
        plugins
            .push(plugin.with_context(|| format!("{} cannot be read", component.path.display()))?);
    }
    let index = PluginIndex { schema: SCHEMA.to_owned(), plugins };
    let path = directory.join(INDEX_FILE);
    let json = serde_json::to_string_pretty(&index).context("the index is not JSON")?;
    replace(&path, &(json + "\n"))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    output::line(&format!("wrote {} (plugins: {})", path.display(), index.plugins.len()))?;
    Ok(CommandOutcome::Success)
}

/// Replaces a file: a reader sees the old one or the new one. A symbolic link is replaced and not followed: others may
/// write to the directory, and the link may name any file of the operator.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    // A server of static files reads it; a temporary file is for its owner alone.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Returns the names of the components in a directory, sorted.
fn components(directory: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("{} cannot be read", directory.display()))?;
    let mut names: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_component_name(name))
        .collect();
    names.sort();
    Ok(names)
}

/// Plugins of a directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PluginIndex {
    schema: String,
    plugins: Vec<IndexedPlugin>,
}

/// A plugin in an index. Its texts are those of its author, or of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedPlugin {
    /// Name of the component's file, beside the index.
    pub(super) file: String,
    /// `None` without a manifest.
    pub(super) id: Option<String>,
    pub(super) version: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    /// True for a guard, which is configured in `guards` and not installed.
    #[serde(default)]
    pub(super) guard: bool,
    pub(super) digest: String,
    pub(super) bytes: usize,
    #[serde(default)]
    pub(super) tools: Vec<IndexedTool>,
    /// Requests with their rights, in the wording of the lock file.
    #[serde(default)]
    pub(super) requests: Vec<String>,
}

/// A tool of a plugin in an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedTool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
}

impl PluginIndex {
    /// Parses an index. Fails if it lists a component that is not beside it.
    pub(super) fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let index: Self = serde_json::from_slice(json).context("it is not an index of plugins")?;
        ensure!(
            index.schema == SCHEMA,
            "its `schema` is {}, and this version of airlock reads {SCHEMA}",
            visible_line(&index.schema)
        );
        if let Some(plugin) = index.plugins.iter().find(|plugin| !is_component_name(&plugin.file)) {
            bail!("it lists {}, which is not a component beside it", visible_line(&plugin.file));
        }
        Ok(index)
    }

    /// Returns the plugins that contain every word, in any case.
    pub(super) fn find(&self, words: &[String]) -> Vec<&IndexedPlugin> {
        let words: Vec<_> = words.iter().map(|word| word.to_lowercase()).collect();
        self.plugins.iter().filter(|plugin| plugin.contains(&words)).collect()
    }
}

impl IndexedPlugin {
    fn new(file: String, component: &Component) -> Result<Self, LoadError> {
        let metadata = &component.metadata;
        let manifest = metadata.manifest.as_ref();
        Ok(Self {
            file,
            id: metadata.id().map(str::to_owned),
            version: manifest.map(|manifest| manifest.version.to_string()),
            description: manifest.map(|manifest| manifest.description.clone()).unwrap_or_default(),
            guard: sandbox::is_guard(&component.bytes)?,
            digest: metadata.digest.clone(),
            bytes: component.bytes.len(),
            tools: metadata.tools.iter().map(IndexedTool::new).collect(),
            requests: RequestSummary::all(metadata).iter().map(request_line).collect(),
        })
    }

    /// Returns whether the id, the description or the tools contain each of these words in small letters.
    fn contains(&self, words: &[String]) -> bool {
        let tools = self.tools.iter().flat_map(|tool| [&tool.name, &tool.description]);
        let texts = self.id.iter().chain([&self.file, &self.description]).chain(tools);
        let texts: Vec<_> = texts.map(|text| text.to_lowercase()).collect();
        words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }
}

impl IndexedTool {
    fn new(tool: &ToolDefinition) -> Self {
        Self { name: tool.name.clone(), description: tool.description.clone() }
    }
}

fn request_line(request: &RequestSummary) -> String {
    format!("{} {}", request.key, request.rights.join(", ")).trim_end().to_owned()
}

/// Returns whether a name is that of a component in the directory of its index, and leads nowhere else.
fn is_component_name(name: &str) -> bool {
    let is_component = Path::new(name).extension().is_some_and(|extension| extension == "wasm");
    is_component && !name.starts_with('.') && !name.contains(['/', '\\'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index(files: &[&str]) -> anyhow::Result<PluginIndex> {
        let plugins: Vec<_> = files
            .iter()
            .map(|file| {
                json!({"file": file, "id": "weather", "version": "1.0.0", "digest": "sha256:0", "bytes": 1,
                    "description": "Forecasts of any PLACE.",
                    "tools": [{"name": "get_rain", "description": "Returns millimetres."}], "later": true})
            })
            .collect();
        PluginIndex::parse(json!({"schema": SCHEMA, "plugins": plugins}).to_string().as_bytes())
    }

    #[test]
    fn a_link_in_the_place_of_the_index_is_replaced_and_its_target_stays_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("target");
        let path = directory.path().join(INDEX_FILE);
        fs::write(&target, "own").expect("written");
        std::os::unix::fs::symlink(&target, &path).expect("linked");
        for text in ["one", "two"] {
            replace(&path, text).expect("written");
            let written = fs::symlink_metadata(&path).expect("it is there");
            assert!(written.is_file(), "it is no link");
            assert_eq!(written.permissions().mode() & 0o777, 0o644);
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(fs::read_to_string(&target).expect("read"), "own");
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 2);
    }

    #[test]
    fn every_word_must_be_in_the_id_the_file_the_description_or_a_tool_in_any_case() {
        let index = index(&["w-1.wasm"]).expect("an index");
        for (words, is_found) in [
            ("", true),
            ("WEATHER place", true),
            ("rain millimetres w-1", true),
            ("weather snow", false),
            ("sha256", false),
        ] {
            let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
            assert_eq!(index.find(&words).len(), usize::from(is_found), "{words:?}");
        }
    }

    #[test]
    fn an_index_lists_components_beside_it_and_nothing_else() {
        assert!(index(&["a.wasm", "data:b.wasm", "c d.wasm"]).is_ok());
        for file in ["../a.wasm", "/a.wasm", "https://b.example/a.wasm", "..\\a.wasm", ".wasm", "a"]
        {
            let refused = index(&[file]).expect_err("it is refused").to_string();
            assert!(refused.contains(file), "{refused}");
        }
        for other in ["{}", "[]", r#"{"schema": "airlock.index/2", "plugins": []}"#] {
            assert!(PluginIndex::parse(other.as_bytes()).is_err(), "{other}");
        }
    }
}
