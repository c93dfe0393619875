//! The headers of a request that select tools, and its path. They only narrow the set of tools.
//!
//! Grammar: items separated by `,`; blanks around an item and empty items are ignored. An absent
//! header filters nothing. A present header admits only the items that it names, so a header
//! without items admits nothing. (Bifrost treats a client header of blanks as "no filter". Here a
//! client header admits all clients only if it names `*`.) The header of excluded tools takes away what
//! it names, so one without items takes away nothing. `bifrostInternal` means the tools of the
//! embedding program, as in Bifrost.

use std::{collections::BTreeSet, sync::Arc};

use super::{CallerHeaders, CallerToken, ScriptLanguage, ToolGroup};
use crate::tool::{ClientName, Tool, with_internal_client};

/// Header that names clients; `*` stands for all.
pub const INCLUDE_CLIENTS: &str = "x-bf-mcp-include-clients";
/// Header that names tools as `client-tool`, whatever their prefix, or as models see them, or all tools of a client as `client-*`. A bare `*`
/// matches no tool.
pub const INCLUDE_TOOLS: &str = "x-bf-mcp-include-tools";
/// Header that names tools as [`INCLUDE_TOOLS`] does, which the request does not see. Here a bare `*`
/// stands for all.
pub const EXCLUDE_TOOLS: &str = "x-bf-mcp-exclude-tools";

/// Selection of clients and tools by the headers of a request, and by its path. Names are compared
/// exactly; those of excluded tools in any case, so that a request never sees more than was meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    clients: Option<BTreeSet<String>>,
    tools: Option<BTreeSet<String>>,
    /// Names in lower case.
    excluded: BTreeSet<String>,
    group: Option<Selected>,
    is_of_operator: bool,
    language: Option<ScriptLanguage>,
    headers: CallerHeaders,
    token: CallerToken,
}

/// Group whose tools a request selects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Selected {
    /// This one.
    Group(Arc<ToolGroup>),
    /// One that does not exist, or not any more.
    Nothing,
}

impl Filter {
    /// Creates the filter that admits everything.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates the filter of the operator's own requests, which see the clients of all owners. For
    /// programs that have read the configuration, and not for requests from outside.
    pub fn of_operator() -> Self {
        Self { is_of_operator: true, ..Self::default() }
    }

    /// Parses the values of the two headers; `None` for a header that the request does not have.
    pub fn parse(include_clients: Option<&str>, include_tools: Option<&str>) -> Self {
        Self {
            clients: include_clients.map(items),
            tools: include_tools.map(items),
            ..Self::default()
        }
    }

    /// Makes the filter one of the operator's own requests, as [`Self::of_operator`] does.
    #[must_use]
    pub fn for_operator(mut self) -> Self {
        self.is_of_operator = true;
        self
    }

    /// Adds the value of the header of excluded tools; `None` if the request does not have it.
    #[must_use]
    pub fn excluding(mut self, exclude_tools: Option<&str>) -> Self {
        let excluded = exclude_tools.map(items).unwrap_or_default();
        self.excluded = excluded.iter().map(|name| name.to_lowercase()).collect();
        self
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

    /// Adds access to the token with which the caller has come.
    #[must_use]
    pub fn with_token(self, token: CallerToken) -> Self {
        Self { token, ..self }
    }

    /// Access to the token with which the caller has come.
    pub(super) fn token(&self) -> &CallerToken {
        &self.token
    }

    /// Leaves only the tools of `client`, if the filter admits it.
    pub fn narrow_to(&mut self, client: &ClientName) {
        let is_admitted = self.admits_client(client);
        self.clients = Some(BTreeSet::from_iter(is_admitted.then(|| client.as_str().to_owned())));
    }

    /// Leaves only the tools of a group, as far as the filter admits them; none without a group.
    pub fn narrow_to_group(&mut self, group: Option<&Arc<ToolGroup>>) {
        self.group = Some(group.map_or(Selected::Nothing, |group| Selected::Group(group.clone())));
    }

    /// Returns whether the request selects neither clients nor tools.
    pub fn is_none(&self) -> bool {
        !self.names_tools() && self.excluded.is_empty() && self.group.is_none()
    }

    /// Returns whether the request has a header that names the clients or tools that it is to see.
    pub fn names_tools(&self) -> bool {
        self.clients.is_some() || self.tools.is_some()
    }

    /// Returns whether the request is the operator's own.
    pub fn is_of_operator(&self) -> bool {
        self.is_of_operator
    }

    /// Returns whether the header for clients admits `client`.
    pub fn admits_client(&self, client: &ClientName) -> bool {
        self.clients
            .as_ref()
            .is_none_or(|names| names.contains("*") || names.contains(client.as_str()))
    }

    /// Returns whether the request selects the whole of a client, and not only some of its tools. A
    /// group has tools alone. The header of excluded tools is about nothing else.
    pub(super) fn admits_all_of(&self, client: &ClientName) -> bool {
        self.admits_client(client)
            && self.group.is_none()
            && self.tools.as_ref().is_none_or(|names| names.contains(&format!("{client}-*")))
    }

    /// Returns whether the header for tools admits one tool of `client`.
    pub(super) fn admits_tool(&self, client: &ClientName, tool: &Tool) -> bool {
        self.tools.as_ref().is_none_or(|names| names_tool(names, client, tool))
    }

    /// Returns whether the header of excluded tools takes away one tool of `client`.
    pub(super) fn excludes_tool(&self, client: &ClientName, tool: &Tool) -> bool {
        !self.excluded.is_empty()
            && (self.excludes_all_of(client)
                || self.excludes_name(tool.name.as_str())
                || self.excludes_name(tool.full_name.as_str())
                || self.excludes_name(&format!("{client}-{}", tool.original)))
    }

    fn excludes_name(&self, name: &str) -> bool {
        self.excluded.contains(&name.to_lowercase())
    }

    /// Returns whether the header of excluded tools takes away all tools of `client`.
    pub(super) fn excludes_all_of(&self, client: &ClientName) -> bool {
        !self.excluded.is_empty()
            && (self.excluded.contains("*") || self.excludes_name(&format!("{client}-*")))
    }

    /// Returns whether the path of the request has a tool of `client`.
    pub(super) fn has_in_group(&self, client: &ClientName, tool: &Tool) -> bool {
        match &self.group {
            None => true,
            Some(Selected::Group(group)) => group.has(client, tool),
            Some(Selected::Nothing) => false,
        }
    }

    /// Returns whether the path of the request has any tools of `client`.
    pub(super) fn has_client_in_group(&self, client: &ClientName) -> bool {
        match &self.group {
            None => true,
            Some(Selected::Group(group)) => group.has_client(client),
            Some(Selected::Nothing) => false,
        }
    }

    /// The group whose tools the request selects.
    pub fn group(&self) -> Option<&ToolGroup> {
        match &self.group {
            Some(Selected::Group(group)) => Some(group),
            Some(Selected::Nothing) | None => None,
        }
    }
}

fn names_tool(names: &BTreeSet<String>, client: &ClientName, tool: &Tool) -> bool {
    names.contains(tool.name.as_str())
        || names.contains(&format!("{client}-*"))
        || names.contains(&format!("{client}-{}", tool.original))
}

fn items(header: &str) -> BTreeSet<String> {
    let items = header.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| with_internal_client(item).into_owned()).collect()
}
