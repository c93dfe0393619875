//! `airlock plugin new`.

use std::path::Path;

use anyhow::bail;

use airlock_authoring::{Language, PluginName, Template};
use airlock_terminal::{outcome::CommandOutcome, output};

/// Start a plugin or a guard
///
/// Writes a directory with everything that a plugin with one tool needs: its source, `plugin.toml`,
/// a README with the next steps, and the SDK of its language. With `--guard`, it writes a guard: a
/// component that decides about calls, definitions of tools, and requests to models. A guard is in Rust
/// unless `--lang` names JavaScript or Python.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin new weather --lang python\n  airlock plugin new --guard own-domain\n  airlock plugin new --guard own-domain --lang python"
)]
pub(super) struct NewArgs {
    /// Its name and that of the directory: `[a-z][a-z0-9-]*`, at most 32 characters.
    name: PluginName,
    /// Its programming language.
    #[arg(long, value_enum, value_name = "LANGUAGE", required_unless_present = "guard")]
    lang: Option<Lang>,
    /// Start a guard instead of a plugin.
    #[arg(long)]
    guard: bool,
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

pub(super) fn run(args: &NewArgs) -> anyhow::Result<CommandOutcome> {
    let NewArgs { name, lang, guard } = args;
    // A plugin has a language, because the option requires it.
    let lang = lang.unwrap_or(Lang::Rust);
    if *guard {
        return write_guard(name, lang);
    }
    let template = Template::from(lang);
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
    Ok(CommandOutcome::Success)
}

/// Writes a guard.
fn write_guard(name: &PluginName, lang: Lang) -> anyhow::Result<CommandOutcome> {
    let (language, test) = match lang {
        Lang::Rust => (Language::Rust, "cargo test"),
        Lang::JavaScript => (Language::JavaScript, "npm test"),
        Lang::Python => (Language::Python, "python3 -m unittest"),
        Lang::TypeScript => bail!(
            "there is no template of a guard in TypeScript; use `--lang javascript`, whose SDK has types"
        ),
    };
    Template::Guard(language).write(name, Path::new(name.as_str()))?;
    output::line(&format!(
        "{name}/ is a guard in {language}, which denies mail to other domains. Next:\n"
    ))?;
    let enter = format!("cd {name}");
    for line in [enter.as_str(), test, "airlock plugin build", "airlock plugin check"] {
        output::line(&format!("  {line}"))?;
    }
    output::line(&format!(
        "\nThen add it to `guards` in the configuration, as {name}/README.md shows."
    ))?;
    Ok(CommandOutcome::Success)
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
