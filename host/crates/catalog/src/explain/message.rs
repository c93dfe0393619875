//! The sentences of an explanation. Each names the reason, and the place to change.

use std::borrow::Cow;

use super::{LeftOut, LeftOutCause, NAME_TAKEN, Reason};
use crate::{SourceKind, ToolSource};
use airlock_core::{
    door::{
        ApprovalChoice, EXCLUDE_TOOLS, Filter, HidingRule, INCLUDE_CLIENTS, INCLUDE_TOOLS,
        ToolApproval, VirtualKey, roles_of_view,
    },
    tool::ToolName,
};
use airlock_strings::visible_line;

/// The client and the request that the sentences are about. Names of tools are those at the source, as
/// sentences have them.
#[derive(Clone, Copy)]
pub(super) struct ReasonContext<'p> {
    pub(super) client: &'p ToolSource,
    pub(super) key: Option<&'p VirtualKey>,
    pub(super) filter: &'p Filter,
}

/// The names of a tool.
pub(super) struct ToolNames<'t> {
    /// Name at the source, as sentences have it.
    pub(super) original: String,
    /// Name on the wire.
    pub(super) name: Cow<'t, str>,
    /// True if another tool of the client has the same name but for case.
    pub(super) has_twin: bool,
}

impl ReasonContext<'_> {
    /// Explains a rule that hides one tool.
    pub(super) fn hides(self, rule: HidingRule, names: &ToolNames<'_>) -> Reason {
        let ToolNames { original: tool, name, has_twin } = names;
        let client = &self.client.name;
        let exactly = if *has_twin {
            " The name must be written exactly so, because another tool of the client has the same name but for case."
        } else {
            ""
        };
        let message = match rule {
            HidingRule::SwitchedOff
            | HidingRule::Owner
            | HidingRule::IncludeClients
            | HidingRule::Environment
            | HidingRule::KeyWithoutRow => return self.hides_all(rule),
            HidingRule::ToolsToExclude => format!(
                "The client {client} lists {tool} in `tools_to_exclude`, which counts more than `tools_to_execute`. Remove it \
                 from `tools_to_exclude` {}.",
                self.in_client()
            ),
            HidingRule::EnvironmentExclude => {
                let environment = self.environment();
                format!(
                    "The environment {environment:?} of the virtual key {:?} excludes {tool} of {client}. Remove it from \
                     `tools_to_exclude` of the environment (`governance.environments` of the file or \
                     `/api/governance/environments`).",
                    self.key_name()
                )
            }
            HidingRule::KeyExclude => format!(
                "A row of {} for {client}{} lists {tool} in `tools_to_exclude`, which counts more than `tools_to_execute` \
                 of every row. Remove it from `tools_to_exclude` of that row.",
                self.sender(),
                self.or_of_roles()
            ),
            HidingRule::Group => format!(
                "The virtual MCP {:?} does not list {tool} of {client}. Add it to `tools` of the virtual MCP \
                 (`mcp.virtual_mcps` of the file or `/api/mcp/virtual-mcps`), or use another path.{exactly}",
                self.group()
            ),
            HidingRule::ExcludeTools => format!(
                "The header `{EXCLUDE_TOOLS}` of the request names the tool. Remove `{name}` or `{client}-*` from the header, or \
                 send no such header."
            ),
            HidingRule::ToolsToExecute => format!(
                "The client {client} does not list {tool} in `tools_to_execute`. Add it to `tools_to_execute` {}.{exactly}",
                self.in_client()
            ),
            HidingRule::KeyRow => {
                let sender = self.sender();
                let rows = self.rows();
                format!(
                    "No row of {sender} for {client}{} lists {tool}. Add it to `tools_to_execute` of such a row, in \
                     {rows}.{exactly}",
                    self.or_of_roles()
                )
            }
            HidingRule::IncludeTools => format!(
                "The header `{INCLUDE_TOOLS}` of the request does not name the tool. Add `{name}` or `{client}-*` to the header, \
                 or send no such header."
            ),
        };
        Reason { rule: rule.code(), message }
    }

    /// Explains a rule that hides all tools of the client.
    pub(super) fn hides_all(self, rule: HidingRule) -> Reason {
        let client = &self.client.name;
        let key = self.key_name();
        let sender = self.sender();
        let rows = self.rows();
        let message = match rule {
            HidingRule::SwitchedOff => {
                "All tools of the gateway are switched off. Set `mcp.disabled` to false, in the file or with \
                 `PUT /api/config`."
                    .to_owned()
            }
            // Explanations leave such a client out, see `ToolRules::conceal`.
            HidingRule::Owner => return conceals(1, self.key),
            HidingRule::ToolsToExclude => format!(
                "`tools_to_exclude` of the client {client} is `*`, so no tool of it may be called. Remove the entry from \
                 `tools_to_exclude` {}.",
                self.in_client()
            ),
            HidingRule::Environment => {
                let environment = self.environment();
                format!(
                    "The virtual key {key:?} is bound to the environment {environment:?}, which does not have the client \
                     {client}. Add it to `clients` of the environment (`governance.environments` of the file or \
                     `/api/governance/environments`)."
                )
            }
            HidingRule::EnvironmentExclude => {
                let environment = self.environment();
                format!(
                    "The environment {environment:?} of the virtual key {key:?} excludes all tools of {client}. Remove \
                     `{client}-*` from `tools_to_exclude` of the environment (`governance.environments` of the file or \
                     `/api/governance/environments`)."
                )
            }
            HidingRule::KeyExclude => format!(
                "A row of {sender} for {client}{} has `*` in `tools_to_exclude`, which takes away all tools of the client. \
                 Remove it from `tools_to_exclude` of that row.",
                self.or_of_roles()
            ),
            HidingRule::Group => format!(
                "The virtual MCP {:?} has no tools of the client {client}. Add them to `tools` of the virtual MCP \
                 (`mcp.virtual_mcps` of the file or `/api/mcp/virtual-mcps`), or use another path.",
                self.group()
            ),
            HidingRule::ExcludeTools => format!(
                "The header `{EXCLUDE_TOOLS}` of the request excludes all tools of {client}. Remove `{client}-*` or `*` from the \
                 header, or send no such header."
            ),
            HidingRule::IncludeClients => format!(
                "The header `{INCLUDE_CLIENTS}` of the request does not name the client {client}. Add `{client}` to the \
                 header, or send no such header."
            ),
            HidingRule::ToolsToExecute => format!(
                "`tools_to_execute` of the client {client} is empty, so no tool of it may be called. Add the tools, or `*` for \
                 all of them, to `tools_to_execute` {}.",
                self.in_client()
            ),
            HidingRule::KeyWithoutRow => format!(
                "There is no row of {sender} for the client {client}, and the client does not permit all keys. Add a row \
                 with `\"mcp_client_name\": \"{client}\"` to {rows}, or set `allow_on_all_virtual_keys` {} to true.",
                self.in_client()
            ),
            HidingRule::KeyRow => format!(
                "No row of {sender} for {client}{} lists a tool. Add the tools, or `*` for all of them, to \
                 `tools_to_execute` of such a row, in {rows}.",
                self.or_of_roles()
            ),
            HidingRule::IncludeTools => format!(
                "The header `{INCLUDE_TOOLS}` of the request names no tool of {client}. Add `{client}-*` to the header, or \
                 send no such header."
            ),
        };
        Reason { rule: rule.code(), message }
    }

    /// Explains that models do not see a tool because it needs an approval.
    pub(super) fn omits(self, tool: &str) -> Reason {
        let setting = self.approval_setting();
        let message = format!(
            "A call of {tool} needs an approval, and {setting} is `omit`, so models do not see the tool. Add it to \
             `tools_to_auto_execute` {}, or set {setting} to `return` or `wait`.",
            self.in_client()
        );
        Reason { rule: "approval_omit", message }
    }

    /// Explains that a tool of the last list is left out.
    pub(super) fn leaves_out(self, left_out: &LeftOut) -> Reason {
        let reason = visible_line(&left_out.reason);
        let client = &self.client.name;
        let remedy = match left_out.cause {
            LeftOutCause::Guard => {
                "Change the settings or the scope of the guard (`guards` of the file), or the definition at the source."
            }
            _ => "Correct the list at the source, and read it again.",
        };
        let message = format!(
            "It is in the last list of the client {client} and is left out: {reason}. {remedy}"
        );
        Reason { rule: left_out.cause.code(), message }
    }

    /// Explains that a tool of the last list is withheld.
    pub(super) fn withholds(self, tool: &str) -> Reason {
        let client = &self.client.name;
        let message = format!(
            "The operator has not accepted the definition of {tool} in the last list of the client {client}, so it is held in \
             quarantine. Read it with `airlock upstream diff {client}`, and accept it with `{}`.",
            self.acceptance(tool)
        );
        Reason { rule: "quarantine", message }
    }

    /// Explains whether calls of a tool need an approval.
    pub(super) fn approves(
        self,
        approval: ToolApproval,
        tool: &str,
        choice: ApprovalChoice,
    ) -> String {
        let client = &self.client.name;
        if !approval.is_needed() {
            return format!("`tools_to_auto_execute` of the client {client} lists {tool}.");
        }
        if approval.needs_two {
            return format!(
                "`tools_to_approve_twice` of the client {client} lists {tool}: two operators approve each call."
            );
        }
        let unlisted = (!approval.is_listed).then(|| {
            format!(
                "The client {client} does not list {tool} in `tools_to_auto_execute`. Add it to `tools_to_auto_execute` {} if it \
                 needs no approval.",
                self.in_client()
            )
        });
        let unaccepted = (!approval.is_accepted).then(|| {
            format!(
                "The operator has not accepted the definition of {tool} yet. Accept it with `{}`.",
                self.acceptance(tool)
            )
        });
        let happens = match choice {
            ApprovalChoice::Return => "a model's calls of it are returned to the caller",
            ApprovalChoice::Omit => "models do not see it",
            ApprovalChoice::Wait => "a model's calls of it wait for a person",
        };
        let setting = self.approval_setting();
        let happens = format!("Because {setting} is `{}`, {happens}.", choice.name());
        unlisted.into_iter().chain(unaccepted).chain([happens]).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command that accepts the definition of a tool. A name that a shell could take for
    /// something else is not in it: the command then asks for all changes of the client.
    fn acceptance(self, tool: &str) -> String {
        let client = &self.client.name;
        let tool = if ToolName::is_valid(tool) { format!(" {tool}") } else { String::new() };
        format!("airlock upstream accept {client}{tool}")
    }

    /// Returns the place of the client's own settings.
    fn in_client(self) -> String {
        match self.client.kind {
            SourceKind::Internal => "in the policy of the embedding program's tools".to_owned(),
            SourceKind::Plugin | SourceKind::Server(_) => {
                let client = &self.client.name;
                format!(
                    "of the client {client} (`mcp.client_configs` of the file or `/api/mcp/client/{client}`)"
                )
            }
        }
    }

    /// Returns the setting that treats calls that need an approval.
    fn approval_setting(self) -> String {
        match self.key.filter(|key| key.approval.is_some()) {
            Some(key) => {
                let name = visible_line(&key.name);
                format!("`approval` of the virtual key {name:?}")
            }
            None => "`mcp.tool_manager_config.approval`".to_owned(),
        }
    }

    /// Returns the holder of the rows: a virtual key, or the roles of an access token.
    fn sender(self) -> String {
        sender(self.key).unwrap_or_else(|| "the request".to_owned())
    }

    fn is_of_roles(self) -> bool {
        self.key.is_some_and(|key| roles_of_view(&key.name).next().is_some())
    }

    /// Returns the end of a sentence about rows of a virtual key, which has those of its roles too.
    fn or_of_roles(self) -> &'static str {
        if self.is_of_roles() { "" } else { ", or of one of its roles," }
    }

    /// Returns the place of the rows.
    fn rows(self) -> &'static str {
        if self.is_of_roles() {
            "`mcp_configs` of one of the roles (`governance.roles` of the file or `/api/governance/roles`)"
        } else {
            "`mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`)"
        }
    }

    fn key_name(self) -> String {
        self.key.map(|key| visible_line(&key.name)).unwrap_or_default()
    }

    /// Returns the name of the environment of the key.
    fn environment(self) -> String {
        let environment = self.key.and_then(|key| key.grants.environment.as_ref());
        environment.map(|environment| visible_line(&environment.name)).unwrap_or_default()
    }

    /// Returns the name of the group of tools that the request asks for.
    fn group(self) -> String {
        self.filter.group().map(|group| visible_line(&group.name)).unwrap_or_default()
    }
}

/// Explains that some clients are left out, without naming them.
pub(super) fn conceals(clients: usize, key: Option<&VirtualKey>) -> Reason {
    let sender = sender(key).unwrap_or_else(|| "a request without a virtual key".to_owned());
    let (clients, belong) = match clients {
        1 => ("1 client is".to_owned(), "It belongs"),
        more => (format!("{more} clients are"), "They belong"),
    };
    let message = format!(
        "{clients} not listed for {sender}. {belong} to other keys: see `virtual_keys` and `teams` of the clients (`mcp.client_configs` of the file or `/api/mcp/clients`)."
    );
    Reason { rule: HidingRule::Owner.code(), message }
}

/// Names the holder of rows; `None` for a request without a key.
fn sender(key: Option<&VirtualKey>) -> Option<String> {
    let name = &key?.name;
    let roles: Vec<_> = roles_of_view(name).map(|role| format!("{role:?}")).collect();
    Some(match roles.as_slice() {
        [] => format!("the virtual key {:?}", visible_line(name)),
        [role] => format!("the role {role}"),
        roles => format!("the roles {}", roles.join(", ")),
    })
}

/// Explains that another tool has the name of a tool.
pub(super) fn name_taken(name: &str) -> Reason {
    let message = format!(
        "Another tool has the name {name}. Give one of the two clients another `prefix` (`mcp.client_configs` of the file or `/api/mcp/client`)."
    );
    Reason { rule: NAME_TAKEN, message }
}
