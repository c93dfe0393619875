//! `airlock plugin search`.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use url::Url;

use super::{
    index::{INDEX_FILE, IndexedPlugin, PluginIndex},
    place::NetworkOptions,
};
use airlock_core::regular_file;
use airlock_registry::{Digest, Downloads};
use airlock_strings::{MAX_LINE_BYTES, cut, visible_line};
use airlock_terminal::{outcome::CommandOutcome, output, spinner::Spinner};

/// Maximum size of an index, in bytes: thousands of plugins. It is read into memory from a server that the user only tries.
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// Find a plugin in an index
///
/// Reads the index that `airlock plugin index` writes, from a directory or a URL, and prints the plugins that contain
/// every word, each with the command that installs it, or with the place of a guard. An index is no decision: `install` reads the component itself,
/// and shows what it requests.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin search weather --index https://plugins.example.com/\n  airlock plugin search --index plugins"
)]
pub(super) struct SearchArgs {
    /// Words, in any case, in ids, names of files, descriptions and tools. Without one, every plugin is listed.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// The directory of the index, or its URL.
    #[arg(long, value_name = "PLACE")]
    index: String,
    /// Print a JSON document: `{plugins: [{file, id, version, description, guard, digest, bytes, tools, requests, place}]}`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    network: NetworkOptions,
}

pub(super) async fn run(args: &SearchArgs) -> anyhow::Result<CommandOutcome> {
    let place = IndexPlace::parse(&args.index)?;
    let index = place.read(&args.network).await?;
    let found = index.find(&args.words);
    if args.json {
        let plugins: Vec<_> = found.iter().map(|plugin| document(plugin, &place)).collect();
        output::document(&json!({"plugins": plugins}))?;
        return Ok(CommandOutcome::Success);
    }
    if found.is_empty() {
        output::hint("no plugin of the index contains every word");
    }
    found.iter().try_for_each(|plugin| output::line(&text(plugin, &place)))?;
    Ok(CommandOutcome::Success)
}

fn document(plugin: &IndexedPlugin, place: &IndexPlace) -> Value {
    let mut document = json!(plugin);
    document["place"] = json!(place.component(plugin));
    document
}

/// Formats a plugin for people, as one line for each fact.
fn text(plugin: &IndexedPlugin, place: &IndexPlace) -> String {
    let id = plugin.id.as_ref().unwrap_or(&plugin.file);
    let version = plugin.version.as_deref().unwrap_or_default();
    let head = format!("{id} {version}").trim_end().to_owned() + "  " + &plugin.description;
    let tools: Vec<_> = plugin.tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut lines = vec![shown(head.trim_end())];
    if !tools.is_empty() {
        lines.push(format!("  tools     {}", shown(&tools.join(", "))));
    }
    let requests = plugin.requests.iter().map(|request| shown(request));
    lines.extend(requests.map(|request| format!("  requests  {request}")));
    lines.push(use_line(plugin, place));
    lines.join("\n")
}

/// Returns a text of the index as people read it, on one line.
fn shown(text: &str) -> String {
    cut(visible_line(text), MAX_LINE_BYTES)
}

/// Returns the command that installs a plugin, or the key that names a guard, which is not installed.
fn use_line(plugin: &IndexedPlugin, place: &IndexPlace) -> String {
    if !plugin.guard {
        let component = output::quoted(&visible_line(&place.component(plugin)));
        return format!("  airlock plugin install {component}");
    }
    let component = visible_line(&place.beside(&plugin.file));
    let file = match place {
        IndexPlace::Directory(_) => "this file",
        IndexPlace::Url(_) => "a copy of it",
    };
    format!("  guard     {component}; the key `component` of an element of `guards` names {file}")
}

/// Place of an index.
#[derive(Debug)]
enum IndexPlace {
    Directory(PathBuf),
    /// URL of a directory: its path ends in `/`.
    Url(Url),
}

impl IndexPlace {
    /// Parses a place. A text without a scheme is a path.
    fn parse(typed: &str) -> anyhow::Result<Self> {
        if !(typed.starts_with("https://") || typed.starts_with("http://")) {
            return Ok(Self::Directory(PathBuf::from(typed)));
        }
        let mut url =
            Url::parse(typed).with_context(|| format!("{} is no URL", visible_line(typed)))?;
        url.set_query(None);
        url.set_fragment(None);
        let directory = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path(&directory);
        Ok(Self::Url(url))
    }

    async fn read(&self, network: &NetworkOptions) -> anyhow::Result<PluginIndex> {
        let json = match self {
            Self::Directory(directory) => read_file(&directory.join(INDEX_FILE))?,
            Self::Url(_) => Box::pin(self.download(network)).await?,
        };
        let shown = visible_line(&self.beside(INDEX_FILE));
        PluginIndex::parse(&json).with_context(|| format!("{shown} cannot be used"))
    }

    async fn download(&self, network: &NetworkOptions) -> anyhow::Result<Vec<u8>> {
        let url = Url::parse(&self.beside(INDEX_FILE))?;
        let shown = visible_line(url.as_str());
        let _spinner = Spinner::begin(format!("downloading {shown}"));
        let downloads = Downloads::new(&url, network.plain())?;
        let json = downloads.get(&url, MAX_INDEX_BYTES).await;
        let json = json.with_context(|| format!("{shown} cannot be downloaded"))?;
        json.ok_or_else(|| anyhow!("{shown} does not exist"))
    }

    /// Returns the place of a plugin of the index, as `install` takes it. At a URL, it has the listed digest, if that is
    /// one: what is installed is what was listed.
    fn component(&self, plugin: &IndexedPlugin) -> String {
        let place = self.beside(&plugin.file);
        let digest = plugin.digest.parse::<Digest>().ok();
        match digest.filter(|_| matches!(self, Self::Url(_))) {
            Some(digest) => format!("{place}#{digest}"),
            None => place,
        }
    }

    /// Returns the place of a file beside the index.
    fn beside(&self, file: &str) -> String {
        match self {
            Self::Directory(directory) => directory.join(file).display().to_string(),
            Self::Url(url) => {
                let mut url = url.clone();
                if let Ok(mut segments) = url.path_segments_mut() {
                    segments.pop_if_empty().push(file);
                }
                url.into()
            }
        }
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut json = Vec::new();
    let read = regular_file::open(path)
        .and_then(|file| file.take(MAX_INDEX_BYTES + 1).read_to_end(&mut json));
    let shown = path.display();
    match read {
        Ok(length) if length as u64 > MAX_INDEX_BYTES => {
            bail!("{shown} is larger than {MAX_INDEX_BYTES} bytes")
        }
        Ok(_) => Ok(json),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no {shown}: `airlock plugin index DIRECTORY` writes one")
        }
        Err(error) => Err(error).with_context(|| format!("{shown} cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_beside_its_index_whatever_its_name() {
        for (place, file, expected) in [
            ("plugins", "w.wasm", "plugins/w.wasm"),
            ("https://p.example", "w.wasm", "https://p.example/w.wasm"),
            ("https://p.example/a/?key=1#x", "w 1.wasm", "https://p.example/a/w%201.wasm"),
            ("http://localhost:1/a", "data:w.wasm", "http://localhost:1/a/data:w.wasm"),
        ] {
            assert_eq!(IndexPlace::parse(place).expect("a place").beside(file), expected);
        }
        assert!(IndexPlace::parse("https://").is_err());
    }

    #[test]
    fn an_index_of_the_maximum_size_is_read_and_a_larger_one_fails() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(INDEX_FILE);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(MAX_INDEX_BYTES).expect("it grows");
        assert_eq!(read_file(&path).expect("it is read").len() as u64, MAX_INDEX_BYTES);
        file.set_len(MAX_INDEX_BYTES + 1).expect("it grows");
        let error = read_file(&path).expect_err("it is too large").to_string();
        assert!(error.ends_with("is larger than 16777216 bytes"), "{error}");
    }
}
