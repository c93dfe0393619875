//! The documents: their samples run, their links lead somewhere, and what they name exists. Command
//! lines are parsed by a test of `cli`.

mod evolution;
mod plugin_format;
mod readme;

use std::{
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::root;
use serde_json::{Value, json};

use super::samples::problems;

/// A document, with the parts that tests look at.
struct Document {
    path: PathBuf,
    /// Fenced blocks: the language, then the text.
    blocks: Vec<(String, String)>,
    /// Everything outside fenced blocks.
    prose: String,
}

impl Document {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let mut blocks = Vec::new();
        let mut prose = String::new();
        for (number, part) in text.split("```").enumerate() {
            if number % 2 == 1 {
                let (language, block) = part.split_once('\n').expect("a line after the fence");
                blocks.push((language.to_owned(), block.to_owned()));
            } else {
                prose.push_str(part);
            }
        }
        Self { path, blocks, prose }
    }

    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }

    fn blocks_in<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a str> {
        let blocks = self.blocks.iter().filter(move |(found, _)| found == language);
        blocks.map(|(_, block)| block.as_str())
    }

    /// Code spans of the prose.
    fn spans(&self) -> impl Iterator<Item = &str> {
        self.prose.split('`').skip(1).step_by(2)
    }

    /// Targets of the links in the prose.
    fn links(&self) -> impl Iterator<Item = &str> {
        self.prose.split("](").skip(1).filter_map(|rest| rest.split(')').next())
    }

    /// Anchors of the headings, as GitHub makes them. No document has a heading twice.
    fn anchors(&self) -> Vec<String> {
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        let slug = |heading: &str| {
            let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
        };
        headings.map(slug).collect()
    }
}

/// Returns the pages beside the README, those in `docs`, and those of the contract and the plugins.
fn documents() -> Vec<Document> {
    let mut directories = ["", "docs", "docs/decisions", "wit", "tests/benches"]
        .map(|path| root().join(path))
        .to_vec();
    for parent in ["plugins", "plugins/examples"] {
        directories.extend(entries(&root().join(parent)).filter(|path| path.is_dir()));
    }
    let files = directories.iter().flat_map(|directory| entries(directory));
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(Document::read).collect()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("an entry").path())
}

#[test]
fn every_relative_link_leads_to_a_file_and_an_anchor_that_exist() {
    let mut seen = 0;
    for document in documents() {
        for link in document.links().filter(|link| !link.contains("://")) {
            seen += 1;
            let (path, anchor) =
                link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
            let target = match path {
                "" => document.path.clone(),
                path => document.path.with_file_name(path),
            };
            assert!(target.exists(), "{}: {link}", document.name());
            if let Some(anchor) = anchor {
                let anchors = Document::read(target).anchors();
                assert!(
                    anchors.iter().any(|found| found == anchor),
                    "{}: {link} is not among {anchors:?}",
                    document.name()
                );
            }
        }
    }
    assert!(seen >= 25, "{seen} links");
}

#[test]
fn every_path_of_the_project_that_a_document_names_exists() {
    const TOP: [&str; 6] = ["docs/", "guest-sdk/", "host/", "plugins/", "tests/", "wit/"];
    // Pages of a plugin name files beside them: an example is copied to a project of its own.
    let documents = documents().into_iter();
    let of_the_project = documents.filter(|document| !document.name().starts_with("plugins/"));
    for document in of_the_project {
        for span in document.spans().filter(|span| TOP.iter().any(|top| span.starts_with(top))) {
            let is_path = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            assert!(!is_path || root().join(span).exists(), "{}: {span}", document.name());
        }
    }
}

#[test]
fn every_make_target_that_a_document_names_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("UTF-8");
    let mut seen = 0;
    for document in documents() {
        let lines = document.blocks.iter().flat_map(|(_, block)| block.lines());
        for target in document.spans().chain(lines).filter_map(|text| text.strip_prefix("make ")) {
            seen += 1;
            let target = target.split(' ').next().unwrap_or_default();
            assert!(
                makefile.contains(&format!("\n{target}:")),
                "{}: make {target}",
                document.name()
            );
        }
    }
    assert!(seen >= 5, "{seen} targets");
}

#[test]
fn the_programs_on_the_page_about_embedding_are_the_examples() {
    let page = Document::read(root().join("docs/embedding.md"));
    let programs: Vec<_> = page.blocks_in("rust").collect();
    let examples = ["embed", "requests", "events", "axum"].map(|name| {
        let path = root().join(format!("host/examples/{name}.rs"));
        fs::read_to_string(path).expect("UTF-8")
    });
    assert_eq!(programs, examples);
}

/// Returns a block of JSON as a whole configuration: it is one, or one client of it. A client's slots
/// are bound to tools of another one, `language`.
fn configuration(block: &str) -> Value {
    let value: Value =
        serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"));
    if value.get("connection_type").is_some() {
        let other = json!({"name": "language", "connection_type": "stdio", "stdio_config": {"command": "true"}});
        json!({"mcp": {"client_configs": [value, other]}})
    } else {
        value
    }
}

#[tokio::test]
async fn every_configuration_in_a_document_is_valid_except_for_files_that_only_its_reader_has() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("gateway.json");
    let mut seen = 0;
    for document in documents() {
        for block in document.blocks_in("json") {
            seen += 1;
            fs::write(&file, configuration(block).to_string()).expect("a file");
            assert_eq!(problems(&file).await, Vec::<Value>::new(), "{}: {block}", document.name());
        }
    }
    assert!(seen >= 3, "{seen} configurations");
}

#[test]
fn every_key_of_code_mode_is_in_the_schema_and_in_the_configuration_document() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("UTF-8");
    let schema = read("host/config.schema.json");
    let document = read("docs/configuration.md");
    let keys: std::collections::BTreeSet<_> =
        schema.split('"').filter(|word| word.starts_with("code_mode_")).collect();
    assert!(keys.len() >= 12, "{keys:?}");
    let missing: Vec<_> =
        keys.iter().filter(|key| !document.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "{missing:?} are not in docs/configuration.md");
}
