//! Command lines in the documents and in the texts of `--help`: each must parse.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

use super::Cli;
use airlock_config::{Config, Source};
use airlock_core::secret::Secret;
use airlock_plugin::{Manifest, Rights};

/// Directories with documents, relative to the project. The documents in `tests` are about programs of the tests, which
/// have options of their own.
const DIRECTORIES: [&str; 5] = ["", "docs", "docs/decisions", "guest-sdk", "wit"];
/// Directories, relative to the project, whose own directories may have documents.
const PARENTS: [&str; 4] = ["guest-sdk", "host/bindings", "plugins", "plugins/examples"];

/// Returns every document with its name.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's directory");
    let below = PARENTS.iter().flat_map(|parent| entries(&root.join(parent)));
    let below = below.filter(|path| path.is_dir());
    let directories = DIRECTORIES.iter().map(|directory| root.join(directory)).chain(below);
    let files = directories.flat_map(|directory| entries(&directory));
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("UTF-8")))
        .collect()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("an entry").path())
}

/// Splits a document into the lines of its fenced blocks and the code spans of its prose.
fn code(text: &str) -> (Vec<&str>, Vec<&str>) {
    let mut lines = Vec::new();
    let mut spans = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 1 {
            lines.extend(part.lines().skip(1));
        } else {
            spans.extend(part.split('`').skip(1).step_by(2));
        }
    }
    (lines, spans)
}

/// Returns the words of the `airlock` command in a line of a shell; `None` if there is none. A
/// comment, a pipe or a redirection ends the command.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let start =
        if line.starts_with("airlock ") { 0 } else { line.find("| airlock ")? + "| ".len() };
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    for c in line[start..].chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ', None) => words.extend(word.take()),
            ('#' | '|' | '<' | '>', None) if word.is_none() => break,
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

fn parse(words: &[String]) -> Result<(), clap::Error> {
    Cli::try_parse_from(words).map(|_| ())
}

/// Returns the command and everything below it.
fn with_subcommands(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}

#[test]
fn a_command_ends_at_a_comment_a_pipe_or_a_redirection() {
    assert_eq!(words_of("  airlock call x '{\"a\": 1}' # why"), "airlock·call·x·{\"a\": 1}");
    assert_eq!(words_of("echo 1 | airlock run - > out"), "airlock·run·-");
    assert_eq!(command("cargo build # airlock check"), None);
}

fn words_of(line: &str) -> String {
    command(line).expect("a command").join("·")
}

#[test]
fn the_documents_of_every_plugin_and_sdk_are_read() {
    let documents = documents();
    for name in [
        "/README.md",
        "/guest-sdk/README.md",
        "/guest-sdk/python/README.md",
        "/host/bindings/node/README.md",
        "/plugins/unruly/README.md",
        "/plugins/examples/rust/README.md",
    ] {
        assert!(documents.iter().any(|(document, _)| document.ends_with(name)), "{name}");
    }
}

#[test]
fn every_command_line_in_a_block_of_a_document_parses() {
    let mut seen = 0;
    for (document, text) in documents() {
        for line in code(&text).0 {
            let Some(words) = command(line) else { continue };
            seen += 1;
            if let Err(error) = parse(&words) {
                panic!("{document}: {line}\n{error}");
            }
        }
    }
    assert!(seen >= 15, "{seen} command lines");
}

#[test]
fn every_command_that_the_prose_of_a_document_names_exists_with_its_options() {
    let mut seen = 0;
    for (document, text) in documents() {
        for span in code(&text).1 {
            let Some(words) = command(span) else { continue };
            seen += 1;
            let Err(error) = parse(&words) else { continue };
            // The prose may leave out what a command requires.
            let is_incomplete = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            assert!(is_incomplete, "{document}: {span}\n{error}");
        }
    }
    assert!(seen >= 10, "{seen} commands");
}

#[test]
fn every_option_that_the_prose_of_a_document_names_exists() {
    let cli = Cli::command();
    let commands = with_subcommands(&cli);
    let options: BTreeSet<_> = commands
        .iter()
        .flat_map(|command| command.get_arguments())
        .filter_map(|argument| argument.get_long())
        .collect();
    for (document, text) in documents() {
        for span in code(&text).1 {
            let Some(option) = span.strip_prefix("--") else { continue };
            let name = option.split([' ', '=']).next().unwrap_or_default();
            assert!(options.contains(name), "{document}: {span}");
        }
    }
}

#[test]
fn every_example_in_the_help_of_a_command_parses() {
    let cli = Cli::command();
    let mut seen = 0;
    for command_of_help in with_subcommands(&cli) {
        let help = command_of_help.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines() {
            let Some(words) = command(line) else { continue };
            seen += 1;
            if let Err(error) = parse(&words) {
                panic!("{}: {line}\n{error}", command_of_help.get_name());
            }
        }
    }
    assert!(seen >= 15, "{seen} examples");
}

#[test]
fn the_grants_of_the_documented_sample_satisfy_its_requests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's directory");
    let page = fs::read_to_string(root.join("docs/plugins.md")).expect("the page");
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("plugin.toml"), block(&page, "toml")).expect("a file");
    let (_, manifest) =
        Manifest::of_directory(home.path()).expect("a good manifest").expect("it is there");
    let file = format!("{{\"mcp\": {{\"client_configs\": [{}]}}}}", block(&page, "json"));
    let config = Config::parse(&file, "airlock.json", &|_| None).expect("a good configuration");
    let Source::Plugin(settings) = &config.clients[0].source else { panic!("a plugin") };
    let rights =
        Rights::intersect(Some(&manifest), &settings.grant, &|_| Ok(Secret::new("hush-hush-hush")));
    let rights = rights.expect("everything is granted");
    assert!(rights.notes.is_empty(), "{:?}", rights.notes);
}

fn block<'p>(page: &'p str, language: &str) -> &'p str {
    let start = page.find(&format!("```{language}\n")).expect("a block") + language.len() + 4;
    page[start..].split("```").next().expect("the rest of the page")
}
