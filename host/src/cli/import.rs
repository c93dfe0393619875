//! `airlock import`.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::input;
use airlock_config::ConfigError;
use airlock_config_import::{Imported, SettingOutcome, import};
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CodedFailure, CommandFailure},
};

/// Translate the configuration of Bifrost or of a desktop agent
///
/// Reads Bifrost's `config.json`, or the list of MCP servers of a desktop agent (`mcpServers`, and
/// `servers` of VS Code), and writes a configuration of the gateway. Prints a line for each setting:
/// it was `taken`, was `changed` to another form, has `no meaning` here, was `refused` or is `invalid`, and why.
/// Nothing is started. The exit code is 1 if the result must be corrected before a gateway can use it, or if the
/// file has no server and no provider that the gateway can use: then nothing is written.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock import config.json\n  airlock import ~/.cursor/mcp.json --output cursor.json"
)]
pub(super) struct ImportArgs {
    /// The file to translate; `-` reads it from standard input.
    file: PathBuf,
    /// The file to write. It must not exist.
    #[arg(short, long, value_name = "FILE", default_value = "airlock.json")]
    output: PathBuf,
    /// Print a JSON document: `{ok, program, file, output, settings: [{key, outcome, message}], variables}`.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ImportArgs) -> anyhow::Result<CommandOutcome> {
    let name = args.file.display().to_string();
    if args.output.symlink_metadata().is_ok() {
        return Err(exists_already(&args.output));
    }
    let text = input::file(&args.file)?;
    let directory = args.output.parent().unwrap_or(Path::new(""));
    let imported = import(&text, directory)
        .map_err(|problem| ConfigError::Invalid { file: name.clone(), problems: vec![problem] })?;
    if imported.is_empty() {
        return nothing(args, &name, &imported);
    }
    write(&args.output, &format!("{:#}\n", imported.file))?;
    let is_valid = imported.lines.iter().all(|line| line.outcome != SettingOutcome::Invalid);
    if args.json {
        output::document(&json!({
            "ok": is_valid,
            "program": imported.program,
            "file": name,
            "output": args.output.display().to_string(),
            "settings": imported.lines,
            "variables": imported.variables,
        }))?;
    } else {
        show(&imported, &args.output)?;
    }
    Ok(is_valid.into())
}

/// Writes a new file that only its owner can read: it may have credentials.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(exists_already(path));
        }
        opened => opened.with_context(|| format!("{} cannot be written", path.display()))?,
    };
    file.write_all(text.as_bytes()).with_context(|| format!("{} cannot be written", path.display()))
}

fn exists_already(path: &Path) -> anyhow::Error {
    anyhow!(
        "{} exists already; `--output FILE` names another file, or move that one away",
        path.display()
    )
}

/// Reports a file without any server or provider. Nothing is written.
fn nothing(args: &ImportArgs, name: &str, imported: &Imported) -> anyhow::Result<CommandOutcome> {
    let message = format!(
        "nothing was taken: {name}, read as the configuration of {}, has no server and no provider that the gateway can \
         use; {} was not written",
        imported.program,
        args.output.display()
    );
    if args.json {
        output::document(&json!({
            "ok": false,
            "program": imported.program,
            "file": name,
            "settings": imported.lines,
            "error": CommandFailure::new("nothing_taken", message),
        }))?;
        return Ok(CommandOutcome::Failure);
    }
    show_lines(imported)?;
    Err(CodedFailure::new("nothing_taken", message).into())
}

fn show_lines(imported: &Imported) -> anyhow::Result<()> {
    for line in &imported.lines {
        let outcome = line.outcome.name();
        let key = &line.key;
        let message = &line.message;
        let message = output::one_line(message, usize::MAX);
        let text =
            format!("{outcome:10}  {}  {message}", output::one_line(&key.to_string(), usize::MAX));
        output::line(text.trim_end())?;
    }
    Ok(())
}

fn show(imported: &Imported, path: &Path) -> anyhow::Result<()> {
    show_lines(imported)?;
    let path = path.display();
    output::line(&format!("\nwrote {path} from the configuration of {}", imported.program))?;
    if !imported.variables.is_empty() {
        output::hint(&format!(
            "set these variables in the environment of the gateway: {}",
            imported.variables.join(", ")
        ));
    }
    output::hint(&format!(
        "`airlock check --config {}` checks it",
        output::quoted(&path.to_string())
    ));
    Ok(())
}
