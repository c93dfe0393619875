//! `airlock plugin new`.

mod name;
mod template;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use self::name::Name;
use super::{super::Done, language::Language};
use crate::cli::output;

/// Start a plugin
///
/// Writes a directory with everything that a plugin with one tool needs: its source, `plugin.toml`,
/// a README with the next steps, and the SDK of its language.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock plugin new weather --lang python")]
pub(super) struct Args {
    /// Its name and that of the directory: `[a-z][a-z0-9-]*`, at most 32 characters.
    name: Name,
    /// Its programming language.
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Template,
}

/// A template of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Template {
    /// With an SDK; the smallest and fastest plugins.
    Rust,
    /// On `StarlingMonkey`.
    #[value(name = "javascript", alias = "js")]
    JavaScript,
    /// Compiled to JavaScript, with packages of npm in one module.
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
    /// On `CPython`.
    Python,
}

impl Template {
    #[cfg(test)]
    const ALL: [Self; 4] = [Self::Rust, Self::JavaScript, Self::TypeScript, Self::Python];

    /// Returns the language that a build takes the plugin for.
    fn language(self) -> Language {
        match self {
            Self::Rust => Language::Rust,
            Self::JavaScript | Self::TypeScript => Language::JavaScript,
            Self::Python => Language::Python,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeScript => f.write_str("TypeScript"),
            template => fmt::Display::fmt(&template.language(), f),
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Done> {
    let Args { name, lang } = args;
    ensure!(
        !(*lang == Template::Rust && name.is_word_of_rust()),
        "`{name}` is a keyword of Rust and cannot name a package; choose another name"
    );
    let directory = PathBuf::from(name.as_str());
    make(&directory)?;
    if let Err(error) = template::files(*lang, name)
        .try_for_each(|(file, text)| write(&directory.join(file), &text))
    {
        // Everything in the directory was written by this command.
        let _ = fs::remove_dir_all(&directory);
        return Err(error);
    }
    output::line(&format!("{name}/ is a plugin in {lang} with one tool, `get_weather`. Next:\n"))?;
    for line in next(name) {
        output::line(&format!("  {line}"))?;
    }
    if name.client() != name.as_str() {
        output::line(&format!(
            "\nIn the configuration and in the names of its tools, {name} is {}: these names have no `-`.",
            name.client()
        ))?;
    }
    output::line(WHILE_WRITING)?;
    Ok(Done::Yes)
}

const WHILE_WRITING: &str = "
While you write, this builds, checks and calls the tool after each change:

  airlock plugin dev --call get_weather '{\"city\":\"Oslo\"}'";

/// Returns the commands to type next.
fn next(name: &Name) -> [String; 5] {
    [
        format!("cd {name}"),
        "airlock plugin build".to_owned(),
        "airlock plugin check".to_owned(),
        format!("airlock plugin install {name}.wasm"),
        format!("airlock call {}-get_weather '{{\"city\":\"Oslo\"}}'", name.client()),
    ]
}

fn make(directory: &Path) -> anyhow::Result<()> {
    match fs::create_dir(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!(
                "{} exists already and is not overwritten; choose another name",
                directory.display()
            )
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be made", directory.display())),
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let written =
        file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(file, text));
    written.with_context(|| format!("{} cannot be written", file.display()))
}
