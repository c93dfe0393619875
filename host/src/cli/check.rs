//! `airlock check`.

use serde_json::{Value, json};

use super::{Done, output, session::ConfigFile};
use crate::{
    config::{Config, ConfigError},
    tool::ClientName,
};

/// Check a configuration without starting anything
///
/// Reads the file, looks up the environment variables that it names, and checks that the files that
/// it names exist. Reports every plugin that the gateway would not load with these grants, and
/// secrets without a value; no plugin is run. Plugins that are not pinned in `airlock.lock` are
/// listed; they are no error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock check --config airlock.json")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, file, errors: [{key, message}], unpinned: [client]}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let file = args.config.path.display().to_string();
    let config = Config::load(&args.config.path);
    let unpinned = config.as_ref().map(Config::unpinned).unwrap_or_default();
    let checked = match config {
        Ok(config) => config.check_files(&file).await,
        Err(error) => Err(error),
    };
    if args.json {
        output::document(&report(&file, checked.as_ref().err(), &unpinned))?;
        return Ok(checked.is_ok().into());
    }
    checked?;
    output::line(&format!("{file}: ok"))?;
    if !unpinned.is_empty() {
        output::hint(&advice(&unpinned, &args.config));
    }
    Ok(Done::Yes)
}

/// Returns the command that pins the plugins, and the reason to run it.
fn advice(unpinned: &[ClientName], config: &ConfigFile) -> String {
    let names = unpinned.iter().map(ClientName::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "not pinned: {names}. The gateway loads any component at their paths until \
         `airlock plugin accept --all{}` pins them",
        config.option()
    )
}

fn report(file: &str, error: Option<&ConfigError>, unpinned: &[ClientName]) -> Value {
    let errors = match error {
        None => Vec::new(),
        Some(ConfigError::Unreadable { source, .. }) => {
            vec![json!({"key": "", "message": format!("cannot be read: {source}")})]
        }
        Some(ConfigError::Invalid { problems, .. }) => {
            problems.iter().map(|problem| json!(problem)).collect()
        }
    };
    json!({"ok": error.is_none(), "file": file, "errors": errors, "unpinned": unpinned})
}
