//! What is said of a name that leads nowhere: what there is in its place.

use super::{BindingLevel, names::Namespace, text};

/// Bytes of a list of names.
const MAX_NAMES: usize = 4 << 10;
/// Bytes of what the model asked for, as it is repeated to it.
const MAX_ECHO: usize = 128;

/// No such file.
pub(super) fn no_file(namespaces: &[Namespace], level: BindingLevel, asked: &str) -> String {
    let paths = namespaces.iter().flat_map(|namespace| {
        let (files, folder) = match level {
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

/// Several servers have this name but for case.
pub(super) fn ambiguous(asked: &str, several: &[&Namespace]) -> String {
    let names = several.iter().map(|it| format!("  {}", it.client));
    format!(
        "More than one server matches '{}'; spell it exactly:\n{}",
        text::line(asked, MAX_ECHO),
        text::bounded(names, MAX_NAMES)
    )
}

/// The server is there and the tool is not.
pub(super) fn no_tool(namespace: &Namespace, asked: &str, heading: &str) -> String {
    let names = namespace.functions.iter().map(|function| format!("  {}", function.identifier));
    format!(
        "Tool '{}' not found in server '{}'. {heading}\n{}",
        text::line(asked, MAX_ECHO),
        namespace.client,
        text::bounded(names, MAX_NAMES)
    )
}

/// No such server.
pub(super) fn no_server(namespaces: &[Namespace], asked: &str) -> String {
    let names = namespaces.iter().map(|namespace| format!("  {}", namespace.client));
    format!(
        "Server '{}' not found. Available servers are:\n{}",
        text::line(asked, MAX_ECHO),
        text::bounded(names, MAX_NAMES)
    )
}
