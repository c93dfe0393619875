//! Virtual files: listed by `listToolFiles`, read by `readToolFile`.

use std::{fmt::Write as _, sync::Arc};

use super::{
    layout::{BindingLevel, Layout},
    missing,
    names::{self, Namespace, ScriptFunction},
    signature::signature,
    stub::ShownTool,
    text,
};
use airlock_core::tool::Tool;

/// Maximum bytes of a listing: about 16,000 tokens, or 2,000 tools with names of 25 letters.
const MAX_LISTING: usize = 64 << 10;
/// Maximum bytes of the part of a file that one call shows: about 32,000 tokens. The rest is read with
/// `startLine`.
const MAX_SHOWN: usize = 128 << 10;

/// A virtual file: some functions of one namespace.
pub(super) struct StubFile<'a> {
    namespace: &'a Namespace,
    functions: Vec<&'a ScriptFunction>,
}

/// A range of lines that the model requests, from 1, both ends included.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineRange {
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
}

/// Renders the tree of all files.
pub(super) fn list(namespaces: &[Namespace], layout: &Layout) -> String {
    let mut lines = vec![
        "# Workflow: listToolFiles -> readToolFile -> (optional) getToolDocs -> executeToolCode"
            .to_owned(),
        "# Read a file before you call what is in it: it has the exact names and parameters"
            .to_owned(),
    ];
    if namespaces.iter().any(|namespace| layout.level(&namespace.client) == BindingLevel::Tool) {
        lines.push(
            "# One file a tool; its name is the tool's name in code. To read a server's tools at once: servers/<server>.pyi"
                .to_owned(),
        );
    }
    lines.extend([String::new(), "servers/".to_owned()]);
    for namespace in namespaces {
        match layout.level(&namespace.client) {
            BindingLevel::Server => lines.push(format!("  {}.pyi", namespace.client)),
            BindingLevel::Tool => {
                lines.push(format!("  {}/", namespace.client));
                lines.extend(
                    namespace
                        .functions
                        .iter()
                        .map(|function| format!("    {}.pyi", function.identifier)),
                );
            }
        }
    }
    text::bounded(lines, MAX_LISTING)
}

/// Returns the text of a listing if a script has no tools to call.
pub(super) fn nothing_to_list(has_other_tools: bool) -> String {
    let said = if has_other_tools {
        "Servers are connected but none are configured for code mode. Call their tools directly."
    } else {
        "No servers are currently connected. There is nothing that a script could call."
    };
    said.to_owned()
}

/// Finds a file. The error is a text for the model that lists the existing files.
pub(super) fn find<'a>(
    namespaces: &'a [Namespace],
    layout: &Layout,
    file_name: &str,
) -> Result<StubFile<'a>, String> {
    let path = file_name.trim();
    let path = path.strip_suffix(".pyi").unwrap_or(path);
    let path = path.strip_prefix("servers/").unwrap_or(path);
    let mut parts = path.split('/');
    let (Some(server), tool, None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(missing::no_file(namespaces, layout, file_name));
    };
    if path.contains("..") {
        return Err(missing::no_file(namespaces, layout, file_name));
    }
    let namespace =
        missing::server_or(namespaces, server, || missing::no_file(namespaces, layout, file_name))?;
    let functions = match tool {
        None => namespace.functions.iter().collect(),
        Some(tool) => {
            let function = namespace.find(tool).ok_or_else(|| {
                missing::no_tool(namespace, tool, "Available tools in this server are:")
            })?;
            vec![function]
        }
    };
    Ok(StubFile { namespace, functions })
}

impl StubFile<'_> {
    /// Returns the tools of the file. [`Self::show`] needs a stub of each.
    pub(super) fn tools(&self) -> Vec<Arc<Tool>> {
        self.functions.iter().map(|function| function.tool.clone()).collect()
    }

    /// Renders the lines of a range, as many as may be shown at once. The first line of the file
    /// states the total number of lines, itself included. `shown` has the stub of each tool.
    pub(super) fn show(&self, shown: &[ShownTool], range: LineRange) -> String {
        let head = self.head();
        let total =
            1 + head.len() + shown.iter().map(|shown| shown.class_count() + 1).sum::<usize>();
        let start = range.start.unwrap_or(1).clamp(1, total);
        let end = range.end.unwrap_or(total).clamp(1, total).max(start);
        let stubs = self
            .functions
            .iter()
            .zip(shown)
            .map(|(function, shown)| FilePart::Stub(function, shown));
        let parts = std::iter::once(FilePart::Head(head)).chain(stubs);
        let mut lines = Vec::new();
        let mut room = MAX_SHOWN;
        // The first line always fits. It is written last because it states whether the other lines
        // fit.
        let mut last = start.max(2) - 1;
        let mut number = 1;
        'parts: for part in parts {
            // Only the stubs of the range are rendered.
            let count = part.count();
            if number + count < start || number >= end {
                number += count;
                continue;
            }
            for line in part.lines() {
                number += 1;
                if !(start..=end).contains(&number) {
                    continue;
                }
                let Some(left) = room.checked_sub(line.len() + 1) else { break 'parts };
                lines.push(line);
                (room, last) = (left, number);
            }
        }
        if start == 1 {
            let note = if last < end {
                "too long to be shown at once"
            } else {
                "this is the complete file, no need to paginate"
            };
            lines.insert(0, format!("# Total lines: {total} ({note})"));
        }
        let mut shown = lines.join("\n");
        if last < end {
            let _ = write!(
                shown,
                "\n# Not shown: lines {next} to {end}; read on with startLine={next}",
                next = last + 1
            );
        }
        shown
    }

    /// Returns the lines between the first line and the stubs.
    fn head(&self) -> Vec<String> {
        let server = &self.namespace.identifier;
        let (title, tool) = match self.functions[..] {
            [only] if self.namespace.functions.len() > 1 => {
                (format!("# {server}.{} tool", only.identifier), only.identifier.as_str())
            }
            _ => (title(self.namespace), "tool_name"),
        };
        let client = &self.namespace.client;
        let mut head = vec![
            title,
            format!("# Usage: {server}.{tool}(name=value) - keyword arguments, or one dict"),
            "# The names after def are exact; call nothing that you have not read here".to_owned(),
            "# A call returns what is declared (a TypedDict is a dict: r[\"key\"]); for Any: the result as data if it is JSON, otherwise a str".to_owned(),
            format!("# Descriptions are shortened; in full: getToolDocs(server=\"{client}\", tool=\"{tool}\")"),
        ];
        head.extend(self.functions.first().and_then(|function| marker(function)));
        head.push(String::new());
        head
    }
}

/// Part of a file: the lines before the stubs, or those of one stub.
enum FilePart<'a> {
    Head(Vec<String>),
    Stub(&'a ScriptFunction, &'a ShownTool),
}

impl FilePart<'_> {
    /// Returns the number of lines.
    fn count(&self) -> usize {
        match self {
            Self::Head(lines) => lines.len(),
            Self::Stub(_, shown) => shown.class_count() + 1,
        }
    }

    fn lines(self) -> Vec<String> {
        match self {
            Self::Head(lines) => lines,
            Self::Stub(function, shown) => lines(function, shown),
        }
    }
}

/// Returns the title of the tools of one server.
pub(super) fn title(namespace: &Namespace) -> String {
    format!("# {} server tools", namespace.identifier)
}

/// Returns the line that marks the texts of a server that is not trusted.
pub(super) fn marker(function: &ScriptFunction) -> Option<String> {
    let marker = function.tool.marker()?;
    Some(format!("# {marker}Names and descriptions are the server's own"))
}

/// Renders one tool: a line for each class, and one for its signature.
pub(super) fn lines(function: &ScriptFunction, shown: &ShownTool) -> Vec<String> {
    let mut lines: Vec<_> = shown.classes(function).collect();
    lines.push(stub(function, shown));
    lines
}

/// Renders the signature of a tool with its description on one line.
fn stub(function: &ScriptFunction, shown: &ShownTool) -> String {
    let signature = signature(function, shown);
    let mut comment = Vec::new();
    // If the identifier is not the preferred one of the tool's name, the original name identifies
    // the tool.
    if names::canonical(&function.tool.original) != function.identifier {
        comment.push(format!("[{}]", text::echo(&function.tool.original)));
    }
    comment.push(text::summary(&function.tool.description));
    if let Some(observed) = &shown.observed {
        comment.push(format!("(result observed in {})", observed.seen));
    }
    comment.retain(|part| !part.is_empty());
    if comment.is_empty() {
        return format!("{signature}: ...");
    }
    format!("{signature}: ...  # {}", comment.join(" "))
}
