//! Tips for command lines that name a configuration file without its option, or a list that another command has.

use std::{ffi::OsString, path::Path};

use clap::{
    Command, CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::Cli;
use airlock_terminal::output;

/// Returns the error of a command line with a tip, if there is one for it.
pub(super) fn with_tip(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if let Some(tip) = tip(&error, arguments) {
        // A subcommand with a similar name is another one.
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let ContextValue::String(argument) = error.get(ContextKind::InvalidArg)? else {
                return None;
            };
            let is_file = Path::new(argument).extension().is_some_and(|ending| ending == "json");
            let takes_file =
                command(arguments).get_arguments().any(|known| known.get_long() == Some("config"));
            (is_file && takes_file && !argument.starts_with('-')).then(|| {
                let file = output::quoted(argument);
                format!("the configuration file is the value of an option: --config {file}")
            })
        }
        ErrorKind::InvalidSubcommand => {
            let ContextValue::String(name) = error.get(ContextKind::InvalidSubcommand)? else {
                return None;
            };
            let lists = (name == "list").then(|| lists(command(arguments).get_name()));
            lists.flatten().map(str::to_owned)
        }
        _ => None,
    }
}

/// Returns the commands that list what a group of commands is about, if it has no such command itself.
fn lists(group: &str) -> Option<&'static str> {
    match group {
        "client" => Some(
            "`airlock upstream list` lists the MCP servers of a running gateway, `airlock tools` the tools of all clients",
        ),
        "plugin" => Some(
            "`airlock plugin diff` compares all plugins of the configuration with `airlock.lock`, `airlock tools` lists their \
             tools",
        ),
        _ => None,
    }
}

/// Returns the innermost command that the arguments name.
fn command(arguments: &[OsString]) -> Command {
    let words = arguments.iter().skip(1);
    words.fold(Cli::command(), |command, word| match command.find_subcommand(word) {
        Some(named) => named.clone(),
        None => command,
    })
}
