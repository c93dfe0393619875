//! The sentences of an explanation. Each names the reason, and the place to change.

use std::borrow::Cow;

use super::{LeftOut, NAME_TAKEN, Reason};
use crate::{SourceKind, ToolSource};
use airlock_core::{
    door::{ApprovalChoice, HidingRule, INCLUDE_CLIENTS, INCLUDE_TOOLS, ToolApproval, VirtualKey},
    tool::ToolName,
};
use airlock_strings::visible_line;

/// The client and the key that the sentences are about. Names of tools are those at the source, as
/// sentences have them.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) client: &'p ToolSource,
    pub(super) key: Option<&'p VirtualKey>,
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

impl Place<'_> {
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
            HidingRule::IncludeClients | HidingRule::KeyWithoutRow => return self.hides_all(rule),
            HidingRule::ToolsToExecute => format!(
                "The client {client} does not list {tool} in `tools_to_execute`. Add it to `tools_to_execute` {}.{exactly}",
                self.in_client()
            ),
            HidingRule::KeyRow => {
                let key = self.key_name();
                format!(
                    "The virtual key {key:?} has a row for {client} that does not list {tool}. Add it to `tools_to_execute` \
                     of that row, in `mcp_configs` of the key in `governance.virtual_keys`.{exactly}"
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
        let message = match rule {
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
                "The virtual key {key:?} has no row for the client {client}, and the client does not permit all keys. Add a row \
                 with `\"mcp_client_name\": \"{client}\"` to `mcp_configs` of the key in `governance.virtual_keys`, or set \
                 `allow_on_all_virtual_keys` {} to true.",
                self.in_client()
            ),
            HidingRule::KeyRow => format!(
                "The row of the virtual key {key:?} for {client} lists no tool. Add the tools, or `*` for all of them, to \
                 `tools_to_execute` of that row, in `mcp_configs` of the key in `governance.virtual_keys`."
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
        let message = format!(
            "It is in the last list of the client {client} and is left out: {reason}. Correct the list at the source, and read \
             it again."
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
                format!("of the client {} in `mcp.client_configs`", self.client.name)
            }
        }
    }

    /// Returns the setting that treats calls that need an approval.
    fn approval_setting(self) -> String {
        match self.key.filter(|key| key.approval.is_some()) {
            Some(key) => {
                let name = visible_line(&key.name);
                format!("`approval` of the virtual key {name:?} in `governance.virtual_keys`")
            }
            None => "`mcp.tool_manager_config.approval`".to_owned(),
        }
    }

    fn key_name(self) -> String {
        self.key.map(|key| visible_line(&key.name)).unwrap_or_default()
    }
}

/// Explains that another tool has the name of a tool.
pub(super) fn name_taken(name: &str) -> Reason {
    let message = format!(
        "Another tool has the name {name}. Give one of the two clients another `prefix` in `mcp.client_configs`."
    );
    Reason { rule: NAME_TAKEN, message }
}
