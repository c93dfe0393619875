//! Error texts for unknown names, with the names that exist.

use super::{
    layout::{BindingLevel, Layout},
    names::Namespace,
    text,
};

/// Maximum length of a list of names, in bytes.
const MAX_NAMES: usize = 4 << 10;
/// Maximum length of the requested name in an error text, in bytes.
const MAX_ECHO: usize = 128;

/// Text for a file that does not exist.
pub(super) fn no_file(namespaces: &[Namespace], layout: &Layout, asked: &str) -> String {
    let paths = namespaces.iter().flat_map(|namespace| {
        let (files, folder) = match layout.level(&namespace.client) {
            BindingLevel::Server => {
                (&namespace.functions[..0], Some(format!("  servers/{}.pyi", namespace.client)))
            }
            BindingLevel::Tool => (&namespace.functions[..], None),
        };
        let files = files
            .iter()
            .map(|function| format!("  servers/{}/{}.pyi", namespace.client, function.identifier));
        folder.into_iter().chain(files)
    });
    format!(
        "No server found matching '{}'. Available virtual files are:\n{}",
        text::line(asked, MAX_ECHO),
        text::bounded(paths, MAX_NAMES)
    )
}

/// Text for a name that matches several servers if case is ignored.
pub(super) fn ambiguous(asked: &str, several: &[&Namespace]) -> String {
    let names = several.iter().map(|namespace| format!("  {}", namespace.client));
    format!(
        "More than one server matches '{}'; spell it exactly:\n{}",
        text::line(asked, MAX_ECHO),
        text::bounded(names, MAX_NAMES)
    )
}

/// Text for a tool that does not exist in an existing server.
pub(super) fn no_tool(namespace: &Namespace, asked: &str, heading: &str) -> String {
    let names = namespace.functions.iter().map(|function| format!("  {}", function.identifier));
    format!(
        "Tool '{}' not found in server '{}'. {heading}\n{}",
        text::line(asked, MAX_ECHO),
        namespace.client,
        text::bounded(names, MAX_NAMES)
    )
}

/// Text for a server that does not exist.
pub(super) fn no_server(namespaces: &[Namespace], asked: &str) -> String {
    let names = namespaces.iter().map(|namespace| format!("  {}", namespace.client));
    format!(
        "Server '{}' not found. Available servers are:\n{}",
        text::line(asked, MAX_ECHO),
        text::bounded(names, MAX_NAMES)
    )
}
