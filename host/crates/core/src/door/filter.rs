//! The include headers of a request. They only narrow the set of tools.
//!
//! Grammar: items separated by `,`; blanks around an item and empty items are ignored. An absent
//! header filters nothing. A present header admits only the items that it names, so a header
//! without items admits nothing. (Bifrost treats a client header of blanks as "no filter". Here a
//! client header admits all clients only if it names `*`.) `bifrostInternal` means the tools of the
//! embedding program, as in Bifrost.

use std::collections::BTreeSet;

use super::{CallerHeaders, ScriptLanguage};
use crate::tool::{ClientName, Tool, with_internal_client};

/// Header that names clients; `*` stands for all.
pub const INCLUDE_CLIENTS: &str = "x-bf-mcp-include-clients";
/// Header that names tools as `client-tool`, whatever their prefix, or as models see them, or all tools of a client as `client-*`. A bare `*`
/// matches no tool.
pub const INCLUDE_TOOLS: &str = "x-bf-mcp-include-tools";

/// Selection of clients and tools by the headers of a request. Names are compared exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    clients: Option<BTreeSet<String>>,
    tools: Option<BTreeSet<String>>,
    language: Option<ScriptLanguage>,
    headers: CallerHeaders,
}

impl Filter {
    /// Creates the filter that admits everything.
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses the values of the two headers; `None` for a header that the request does not have.
    pub fn parse(include_clients: Option<&str>, include_tools: Option<&str>) -> Self {
        Self {
            clients: include_clients.map(items),
            tools: include_tools.map(items),
            language: None,
            headers: CallerHeaders::default(),
        }
    }

    /// Selects the language of scripts; `None` leaves it to the configuration.
    #[must_use]
    pub fn with_language(mut self, language: Option<ScriptLanguage>) -> Self {
        self.language = language;
        self
    }

    /// Language of scripts that the request selects.
    pub fn language(&self) -> Option<ScriptLanguage> {
        self.language
    }

    /// Adds the headers of the request that sources of tools may pass on.
    #[must_use]
    pub fn with_headers(mut self, headers: CallerHeaders) -> Self {
        self.headers = headers;
        self
    }

    /// Headers of the request that sources of tools may pass on.
    pub(super) fn headers(&self) -> &CallerHeaders {
        &self.headers
    }

    /// Leaves only the tools of `client`, if the filter admits it.
    pub fn narrow_to(&mut self, client: &ClientName) {
        let is_admitted = self.admits_client(client);
        self.clients = Some(BTreeSet::from_iter(is_admitted.then(|| client.as_str().to_owned())));
    }

    /// Returns whether the request has neither of the two headers.
    pub fn is_none(&self) -> bool {
        self.clients.is_none() && self.tools.is_none()
    }

    /// Returns whether the header for clients admits `client`.
    pub fn admits_client(&self, client: &ClientName) -> bool {
        self.clients
            .as_ref()
            .is_none_or(|names| names.contains("*") || names.contains(client.as_str()))
    }

    /// Returns whether the headers admit the whole of a client, and not only some of its tools.
    pub(super) fn admits_all_of(&self, client: &ClientName) -> bool {
        self.admits_client(client)
            && self.tools.as_ref().is_none_or(|names| names.contains(&format!("{client}-*")))
    }

    /// Returns whether the header for tools admits one tool of `client`.
    pub(super) fn admits_tool(&self, client: &ClientName, tool: &Tool) -> bool {
        self.tools.as_ref().is_none_or(|names| {
            names.contains(tool.name.as_str())
                || names.contains(&format!("{client}-*"))
                || names.contains(&format!("{client}-{}", tool.original))
        })
    }
}

fn items(header: &str) -> BTreeSet<String> {
    let items = header.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| with_internal_client(item).into_owned()).collect()
}
