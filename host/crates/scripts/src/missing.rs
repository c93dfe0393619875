//! Error texts for unknown names, with the names that exist.

use super::{
    layout::{BindingLevel, Layout},
    names::{self, Namespace, NamespaceMatch},
    text::{self, MAX_NAMES},
};

/// Finds the server that a model names. The error is a text for the model that lists the existing
/// ones.
pub(super) fn server<'a>(
    namespaces: &'a [Namespace],
    asked: &str,
) -> Result<&'a Namespace, String> {
    server_or(namespaces, asked, || no_server(namespaces, asked))
}

/// Finds a server as [`server`] does. The error is `nothing` if no server has the name.
pub(super) fn server_or<'a>(
    namespaces: &'a [Namespace],
    asked: &str,
    nothing: impl FnOnce() -> String,
) -> Result<&'a Namespace, String> {
    match names::find(namespaces, asked) {
        NamespaceMatch::One(namespace) => Ok(namespace),
        NamespaceMatch::Many(several) => Err(ambiguous(asked, &several)),
        NamespaceMatch::Nothing => Err(nothing()),
    }
}

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
        text::echo(asked),
        text::bounded(paths, MAX_NAMES)
    )
}

/// Text for a name that matches several servers if case is ignored.
fn ambiguous(asked: &str, several: &[&Namespace]) -> String {
    let names = several.iter().map(|namespace| format!("  {}", namespace.client));
    format!(
        "More than one server matches '{}'; spell it exactly:\n{}",
        text::echo(asked),
        text::bounded(names, MAX_NAMES)
    )
}

/// Text for a tool that does not exist in an existing server.
pub(super) fn no_tool(namespace: &Namespace, asked: &str, heading: &str) -> String {
    let names = namespace.functions.iter().map(|function| format!("  {}", function.identifier));
    format!(
        "Tool '{}' not found in server '{}'. {heading}\n{}",
        text::echo(asked),
        namespace.client,
        text::bounded(names, MAX_NAMES)
    )
}

/// Text for a server that does not exist.
fn no_server(namespaces: &[Namespace], asked: &str) -> String {
    let names = namespaces.iter().map(|namespace| format!("  {}", namespace.client));
    format!(
        "Server '{}' not found. Available servers are:\n{}",
        text::echo(asked),
        text::bounded(names, MAX_NAMES)
    )
}
