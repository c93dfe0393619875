//! `airlock plugin new`.

use std::path::Path;

use airlock_authoring::{PluginName, Template};
use airlock_terminal::{outcome::Done, output};

/// Start a plugin
///
/// Writes a directory with everything that a plugin with one tool needs: its source, `plugin.toml`,
/// a README with the next steps, and the SDK of its language.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock plugin new weather --lang python")]
pub(super) struct NewArgs {
    /// Its name and that of the directory: `[a-z][a-z0-9-]*`, at most 32 characters.
    name: PluginName,
    /// Its programming language.
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Lang,
}

/// Programming language of a new plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Lang {
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

impl From<Lang> for Template {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::Rust => Self::Rust,
            Lang::JavaScript => Self::JavaScript,
            Lang::TypeScript => Self::TypeScript,
            Lang::Python => Self::Python,
        }
    }
}

pub(super) fn run(args: &NewArgs) -> anyhow::Result<Done> {
    let NewArgs { name, lang } = args;
    let template = Template::from(*lang);
    template.write(name, Path::new(name.as_str()))?;
    output::line(&format!(
        "{name}/ is a plugin in {template} with one tool, `get_weather`. Next:\n"
    ))?;
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
fn next(name: &PluginName) -> [String; 5] {
    [
        format!("cd {name}"),
        "airlock plugin build".to_owned(),
        "airlock plugin check".to_owned(),
        format!("airlock plugin install {name}.wasm"),
        format!("airlock call {}-get_weather '{{\"city\":\"Oslo\"}}'", name.client()),
    ]
}
