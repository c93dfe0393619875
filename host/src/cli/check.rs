//! `airlock check`.

use serde_json::{Value, json};

use super::{Done, output, session::ConfigFile};
use crate::config::{Config, ConfigError};

/// Check a configuration without starting anything
///
/// Reads the file, looks up the environment variables that it names, and sees whether the files
/// that it names exist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock check --config airlock.json")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, file, errors: [{key, message}]}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Done> {
    let file = args.config.path.display().to_string();
    let checked = Config::load(&args.config.path).and_then(|config| config.check_files(&file));
    if args.json {
        output::document(&report(&file, checked.as_ref().err()))?;
        return Ok(checked.is_ok().into());
    }
    checked?;
    output::line(&format!("{file}: ok"))?;
    Ok(Done::Yes)
}

fn report(file: &str, error: Option<&ConfigError>) -> Value {
    let errors = match error {
        None => Vec::new(),
        Some(ConfigError::Unreadable { source, .. }) => {
            vec![json!({"key": "", "message": format!("cannot be read: {source}")})]
        }
        Some(ConfigError::Invalid { problems, .. }) => {
            problems.iter().map(|problem| json!(problem)).collect()
        }
    };
    json!({"ok": error.is_none(), "file": file, "errors": errors})
}
