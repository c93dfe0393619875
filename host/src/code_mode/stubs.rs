//! The virtual files: what `listToolFiles` lists and `readToolFile` reads.

use std::{fmt::Write as _, iter};

use super::{
    BindingLevel, missing,
    names::{self, Found, Function, Namespace},
    signature::signature,
    text,
};

/// Bytes of a listing.
const MAX_LISTING: usize = 64 << 10;
/// Bytes of a file that are shown at once.
const MAX_SHOWN: usize = 128 << 10;
/// Bytes of a tool's own name.
const MAX_NAME: usize = 128;

/// A range of lines as the model asks for it, from 1, both ends included.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Range {
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
}

/// The tree of all files.
pub(super) fn list(namespaces: &[Namespace], level: BindingLevel) -> String {
    let mut lines = vec![
        "# Workflow: listToolFiles -> readToolFile -> (optional) getToolDocs -> executeToolCode".to_owned(),
        "# Read a file before you call what is in it: it has the exact names and parameters".to_owned(),
    ];
    if level == BindingLevel::Tool {
        lines.push(
            "# One file a tool; its name is the tool's name in code. To read a server's tools at once: servers/<server>.pyi"
                .to_owned(),
        );
    }
    lines.extend([String::new(), "servers/".to_owned()]);
    for namespace in namespaces {
        match level {
            BindingLevel::Server => lines.push(format!("  {}.pyi", namespace.client)),
            BindingLevel::Tool => {
                lines.push(format!("  {}/", namespace.client));
                lines.extend(namespace.functions.iter().map(|function| format!("    {}.pyi", function.identifier)));
            }
        }
    }
    text::bounded(lines, MAX_LISTING)
}

/// What is said where a script would have nothing to call.
pub(super) fn nothing_to_list(has_other_tools: bool) -> String {
    let said = if has_other_tools {
        "Servers are connected but none are configured for code mode. Call their tools directly."
    } else {
        "No servers are currently connected. There is nothing that a script could call."
    };
    said.to_owned()
}

/// A file, or some lines of it.
pub(super) fn read(namespaces: &[Namespace], level: BindingLevel, file_name: &str, range: Range) -> String {
    let path = file_name.trim();
    let path = path.strip_suffix(".pyi").unwrap_or(path);
    let path = path.strip_prefix("servers/").unwrap_or(path);
    let mut parts = path.split('/');
    let (Some(server), tool, None) = (parts.next(), parts.next(), parts.next()) else {
        return missing::no_file(namespaces, level, file_name);
    };
    if path.contains("..") {
        return missing::no_file(namespaces, level, file_name);
    }
    let namespace = match names::find(namespaces, server) {
        Found::One(namespace) => namespace,
        Found::Many(several) => return missing::ambiguous(server, &several),
        Found::Nothing => return missing::no_file(namespaces, level, file_name),
    };
    let Some(tool) = tool else {
        return shown(namespace, &namespace.functions.iter().collect::<Vec<_>>(), range);
    };
    match namespace.find(tool) {
        Some(function) => shown(namespace, &[function], range),
        None => missing::no_tool(namespace, tool, "Available tools in this server are:"),
    }
}

/// A file with its first line, which counts all lines and itself.
fn shown(namespace: &Namespace, functions: &[&Function], range: Range) -> String {
    let lines = file(namespace, functions);
    let total = lines.len() + 1;
    let start = range.start.unwrap_or(1).clamp(1, total);
    let end = range.end.unwrap_or(total).clamp(1, total).max(start);
    let last = last_shown(&lines, start, end);
    let note =
        if start == 1 && last < end { "too long to be shown at once" } else { "this is the complete file, no need to paginate" };
    let first = format!("# Total lines: {total} ({note})");
    let all: Vec<_> = iter::once(&first).chain(&lines).map(String::as_str).collect();
    let mut shown = all[start - 1..last].join("\n");
    if last < end {
        let _ = write!(shown, "\n# Not shown: lines {next} to {end}; read on with startLine={next}", next = last + 1);
    }
    shown
}

/// The last line up to `end` that may be shown together with `start`, counted from 1.
fn last_shown(lines: &[String], start: usize, end: usize) -> usize {
    let mut room = MAX_SHOWN;
    // The first line is not among `lines`, and always fits.
    for number in start.max(2)..=end {
        let Some(left) = room.checked_sub(lines[number - 2].len() + 1) else { return number - 1 };
        room = left;
    }
    end
}

/// The lines of a file, without the first.
fn file(namespace: &Namespace, functions: &[&Function]) -> Vec<String> {
    let server = &namespace.identifier;
    let (title, tool) = match functions {
        [only] if namespace.functions.len() > 1 => (format!("# {server}.{} tool", only.identifier), only.identifier.as_str()),
        _ => (format!("# {server} server tools"), "tool_name"),
    };
    let mut lines = vec![
        title,
        format!("# Usage: {server}.{tool}(name=value) - keyword arguments, or one dict"),
        "# The names after def are exact; call nothing that you have not read here".to_owned(),
        "# A call gives what is declared; for Any: the answer as data if it is JSON, otherwise a str".to_owned(),
        format!("# Descriptions are shortened; in full: getToolDocs(server=\"{}\", tool=\"{tool}\")", namespace.client),
        String::new(),
    ];
    lines.extend(functions.iter().map(|function| stub(function)));
    lines
}

/// One tool on one line.
fn stub(function: &Function) -> String {
    let signature = signature(function);
    let description = text::summary(&function.tool.description);
    // Where the identifier is not the one that the tool's name leads to, the name says which tool it is.
    let renamed = names::canonical(&function.tool.original) != function.identifier;
    let name = if renamed { format!("[{}] ", text::line(&function.tool.original, MAX_NAME)) } else { String::new() };
    match format!("{name}{description}").trim_end() {
        "" => signature,
        comment => format!("{signature}:  # {comment}"),
    }
}
