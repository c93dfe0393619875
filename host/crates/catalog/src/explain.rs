//! Explains a request's view: whether it has each tool of each client, and which rules hide the others.
//!
//! The view itself tells what a request sees. The reasons come from the rules that it was made by,
//! and from the lists of what is not in the catalog:
//!
//! ```text
//! the client's last list ┬→ catalog ┬→ the request's view
//!                        │          └→ hidden by a rule of the door
//!                        └→ left out, or withheld in quarantine
//! ```
//!
//! Nothing is copied before it is asked for: an explanation refers to its snapshot.

mod message;

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use self::message::{ReasonContext, ToolNames};
use super::{LeftOut, LeftOutCause, MAX_TOOLS_PER_CLIENT, Snapshot, SourceState, ToolSource};
use airlock_core::{
    door::{ApprovalChoice, Filter, HidingRule, Origin, ToolApproval, ToolRules, View, VirtualKey},
    tool::{ClientName, Tool, ToolDefinition, ToolName},
};
use airlock_strings::{cut, visible_line};

/// Member of a provider's status with the names of the tools in its list that the operator has not
/// accepted as they are there.
const QUARANTINE: &str = "quarantine";
/// State of a client that has never listed its tools, or whose tools were withdrawn.
const NOT_LISTED: &str = "not_listed";

/// Explanation of one request's view.
pub struct Explanation<'s> {
    snapshot: &'s Snapshot,
    filter: &'s Filter,
    key: Option<&'s VirtualKey>,
    view: View,
    approval: ApprovalChoice,
}

airlock_strings::named_enum! {
    /// Origins that see a tool.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Visibility as code {
        /// Models, and clients of the MCP endpoint.
        Models = "models",
        /// Scripts, in code mode.
        Scripts = "scripts",
        /// None of them.
        Hidden = "no",
    }
}

/// A reason why a request does not see a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Stable code of the rule.
    pub rule: &'static str,
    /// Full sentences for people: the reason, and what to change where.
    pub message: String,
}

impl Reason {
    /// Returns the code with the sentences.
    fn text(&self) -> String {
        format!("{}: {}", self.rule, self.message)
    }
}

impl Snapshot {
    /// Explains what [`Snapshot::view`] returns. Takes the time of one view; each tool is explained
    /// when it is asked for.
    pub fn explain<'s>(
        &'s self,
        filter: &'s Filter,
        key: Option<&'s VirtualKey>,
    ) -> Explanation<'s> {
        let view = self.views.view(filter, key, || self.make_view(filter, key));
        let approval = ApprovalChoice::default();
        Explanation { snapshot: self, filter, key, view, approval }.with_approval(approval)
    }
}

impl Explanation<'_> {
    /// Sets the treatment of calls that need an approval by the configuration of the gateway. That of
    /// the key takes precedence. With [`ApprovalChoice::Omit`], models do not see their tools.
    #[must_use]
    pub fn with_approval(self, configured: ApprovalChoice) -> Self {
        let approval = self.key.and_then(|key| key.approval).unwrap_or(configured);
        let view = match approval {
            ApprovalChoice::Omit => self.view.without_asking(),
            ApprovalChoice::Return | ApprovalChoice::Wait => self.view,
        };
        Self { view, approval, ..self }
    }

    /// Treatment of a model's calls that need an approval.
    pub fn approval(&self) -> ApprovalChoice {
        self.approval
    }

    /// Iterates over the clients, sorted by name, without those that belong to the keys of others.
    pub fn clients(&self) -> impl Iterator<Item = ExplainedClient<'_>> {
        let clients = self.snapshot.clients().map(|client| ExplainedClient::new(self, client));
        clients.filter(|client| !client.rules.conceal())
    }

    /// Returns the reason that clients are left out; `None` if none is. It does not name them.
    pub fn concealed(&self) -> Option<Reason> {
        let clients = self.snapshot.clients();
        let concealed = clients.filter(|client| self.rules(client).conceal()).count();
        (concealed > 0).then(|| message::conceals(concealed, self.key))
    }

    /// Returns the whole explanation as lines for a terminal: each client that is not connected, each
    /// tool with its reasons, and the number of clients that are left out.
    pub fn lines(&self) -> Vec<String> {
        let clients = self.clients().flat_map(|client| client.lines());
        clients.chain(self.concealed().map(|reason| reason.text())).collect()
    }

    fn rules<'e>(&'e self, client: &'e ToolSource) -> ToolRules<'e> {
        self.snapshot.rules(client, self.filter, self.key)
    }

    /// Returns whether an origin sees a tool: the view has exactly this tool under its name.
    fn sees(&self, origin: &Origin, tool: &Arc<Tool>) -> bool {
        let found = self.view.find(origin, tool.name.as_str());
        found.is_some_and(|entry| Arc::ptr_eq(&entry.tool, tool))
    }
}

/// One client in an [`Explanation`].
pub struct ExplainedClient<'e> {
    explanation: &'e Explanation<'e>,
    client: &'e ToolSource,
    rules: ToolRules<'e>,
    /// Names of the tools in quarantine that are not in the catalog, with hidden characters made
    /// visible.
    withheld: Vec<String>,
}

impl<'e> ExplainedClient<'e> {
    fn new(explanation: &'e Explanation<'e>, client: &'e ToolSource) -> Self {
        let rules = explanation.rules(client);
        Self { explanation, client, rules, withheld: withheld(client) }
    }

    /// Its name.
    pub fn name(&self) -> &ClientName {
        &self.client.name
    }

    /// Returns its state, as in the administrative API, or `not_listed`: it has not listed its tools
    /// since it was added, or they were withdrawn.
    pub fn state(&self) -> &'static str {
        if self.client.is_listed { self.client.state.name() } else { NOT_LISTED }
    }

    /// Returns what its state means for its tools, as full sentences with a reason of at most 512
    /// bytes; `None` if it is connected and its tools are listed.
    pub fn state_reason(&self) -> Option<String> {
        let ToolSource { name, state, is_listed, .. } = self.client;
        let state_of_link = match state {
            SourceState::Connecting => "it is connecting".to_owned(),
            SourceState::Connected => "it is connected".to_owned(),
            SourceState::Disconnected { reason } => {
                format!("it is disconnected ({})", brief(reason))
            }
            SourceState::Failed { reason } => format!("it failed ({})", brief(reason)),
        };
        match (is_listed, state) {
            (true, SourceState::Connected) => None,
            (true, _) => Some(format!(
                "The client {name} is not connected: {state_of_link}. The tools of its last list stay, and their calls may fail."
            )),
            (false, _) => Some(format!(
                "The client {name} has no list of tools: {state_of_link}. No request sees its tools before it has listed them."
            )),
        }
    }

    /// Returns the rules that hide all its tools, whatever they are named, and the reason that tools of
    /// its list are missing beyond the limit.
    pub fn reasons(&self) -> Vec<Reason> {
        let place = self.place();
        let rules = self.rules.hiding_all().map(|rule| place.hides_all(rule));
        let beyond = self.client.left_out.iter().filter(|left_out| left_out.tool.is_none());
        rules.chain(beyond.map(|left_out| place.leaves_out(left_out))).collect()
    }

    /// Iterates over its tools, sorted by name, and then over those that are left out and those that are
    /// withheld.
    pub fn tools(&self) -> impl Iterator<Item = ExplainedTool<'_>> {
        let listed = self.client.tools.iter().map(ExplainSubject::Listed);
        let left_out = self.client.left_out.iter().filter_map(|left_out| {
            left_out.tool.as_deref().map(|original| ExplainSubject::LeftOut { original, left_out })
        });
        let withheld = self.withheld.iter().map(|name| ExplainSubject::Withheld(name));
        let subjects = listed.chain(left_out).chain(withheld);
        subjects.map(|subject| ExplainedTool { client: self, subject })
    }

    fn place(&self) -> ReasonContext<'_> {
        let Explanation { key, filter, .. } = *self.explanation;
        ReasonContext { client: self.client, key, filter }
    }

    fn lines(&self) -> Vec<String> {
        let reasons = self.reasons();
        let texts = self.state_reason().into_iter().chain(reasons.iter().map(Reason::text));
        let mut lines: Vec<_> = texts.map(|text| format!("{}: {text}", self.name())).collect();
        lines.extend(self.tools().flat_map(|tool| tool.lines(&reasons)));
        lines
    }
}

/// One tool in an [`Explanation`].
pub struct ExplainedTool<'e> {
    client: &'e ExplainedClient<'e>,
    subject: ExplainSubject<'e>,
}

#[derive(Clone, Copy)]
enum ExplainSubject<'e> {
    /// A tool in the catalog.
    Listed(&'e Arc<Tool>),
    /// A tool that is left out of the catalog.
    LeftOut { original: &'e str, left_out: &'e LeftOut },
    /// A tool that is withheld in quarantine, by its visible name.
    Withheld(&'e str),
}

impl ExplainedTool<'_> {
    /// Returns its name on the wire, or the name that it would have.
    pub fn name(&self) -> Cow<'_, str> {
        match self.subject {
            ExplainSubject::Listed(tool) => tool.name.as_str().into(),
            ExplainSubject::LeftOut { original, .. } | ExplainSubject::Withheld(original) => {
                self.would_be_named(original).as_str().to_owned().into()
            }
        }
    }

    /// Returns whether its name on the wire or its full name has a part. `part` is in lower case.
    pub fn matches(&self, part: &str) -> bool {
        if part.is_empty() || self.name().to_lowercase().contains(part) {
            return true;
        }
        match self.subject {
            ExplainSubject::Listed(tool) => tool.full_name.as_str().to_lowercase().contains(part),
            ExplainSubject::LeftOut { .. } | ExplainSubject::Withheld(_) => false,
        }
    }

    /// Returns the origins that see it.
    pub fn visibility(&self) -> Visibility {
        let ExplainSubject::Listed(tool) = self.subject else { return Visibility::Hidden };
        let explanation = self.client.explanation;
        if explanation.sees(&Origin::Model, tool) {
            Visibility::Models
        } else if explanation.sees(&Origin::Script, tool) {
            Visibility::Scripts
        } else {
            Visibility::Hidden
        }
    }

    /// Returns whether its calls need an approval; `None` for a tool that is not in the catalog.
    pub fn approval(&self) -> Option<ToolApproval> {
        let ExplainSubject::Listed(tool) = self.subject else { return None };
        let ToolSource { policy, unaccepted, .. } = self.client.client;
        Some(ToolApproval::new(policy, unaccepted, tool))
    }

    /// Returns why its calls need an approval or none, as full sentences; `None` for a tool that is not
    /// in the catalog.
    pub fn approval_reason(&self) -> Option<String> {
        let choice = self.client.explanation.approval;
        let original = self.original();
        self.approval().map(|approval| self.client.place().approves(approval, &original, choice))
    }

    /// Returns why it has its prefix on the wire although its client has none; `None` if that is not so.
    pub fn prefixed_because(&self) -> Option<&str> {
        let ExplainSubject::Listed(tool) = self.subject else { return None };
        tool.prefixed_because.as_deref()
    }

    /// Returns all rules that hide it, the deciding one first. Empty exactly if it is visible.
    pub fn reasons(&self) -> Vec<Reason> {
        let rules = self.rules().into_iter();
        let mut reasons: Vec<_> = rules.map(|rule| self.hidden_by(rule)).collect();
        let place = self.client.place();
        match self.subject {
            ExplainSubject::LeftOut { left_out, .. } => reasons.push(place.leaves_out(left_out)),
            ExplainSubject::Withheld(_) => reasons.push(place.withholds(&self.original())),
            ExplainSubject::Listed(_) if self.is_omitted() => {
                reasons.push(place.omits(&self.original()));
            }
            ExplainSubject::Listed(_) => {}
        }
        if reasons.is_empty() && self.visibility() == Visibility::Hidden {
            reasons.push(message::name_taken(&self.name()));
        }
        reasons
    }

    /// Returns the rules of the door that hide it. Of a tool that is not in the catalog, only the name is
    /// known.
    fn rules(&self) -> Vec<HidingRule> {
        let rules = self.client.rules;
        match self.subject {
            ExplainSubject::Listed(tool) => rules.hiding(tool).collect(),
            ExplainSubject::LeftOut { original, .. } | ExplainSubject::Withheld(original) => {
                match self.without_definition(original) {
                    Some(tool) => rules.hiding(&tool).collect(),
                    None => rules.hiding_all().collect(),
                }
            }
        }
    }

    fn hidden_by(&self, rule: HidingRule) -> Reason {
        let has_twin = matches!(self.subject, ExplainSubject::Listed(tool) if tool.has_twin);
        let names = ToolNames { original: self.original(), name: self.name(), has_twin };
        self.client.place().hides(rule, &names)
    }

    /// Returns whether models do not see it because it needs an approval.
    fn is_omitted(&self) -> bool {
        self.client.explanation.approval == ApprovalChoice::Omit
            && self.approval().is_some_and(ToolApproval::is_needed)
    }

    /// Returns its name at the source for a sentence.
    fn original(&self) -> String {
        match self.subject {
            ExplainSubject::Listed(tool) => in_sentence(&tool.original),
            ExplainSubject::LeftOut { original, .. } | ExplainSubject::Withheld(original) => {
                in_sentence(original)
            }
        }
    }

    /// Returns the tool without a definition, for the rules that need its name; `None` if its name is
    /// not valid.
    fn without_definition(&self, original: &str) -> Option<Tool> {
        let definition = ToolDefinition::new(original, "", json!({}));
        let mut tool = Tool::adopt(self.client.name(), definition).ok()?;
        tool.name = self.would_be_named(original);
        Some(tool)
    }

    fn would_be_named(&self, original: &str) -> ToolName {
        let ToolSource { name, policy, .. } = self.client.client;
        ToolName::new(policy.prefix.for_client(name), original)
    }

    /// Returns its lines, without the sentences that the lines of its client have.
    fn lines(&self, of_client: &[Reason]) -> Vec<String> {
        let name = self.name();
        let head = match self.visibility() {
            Visibility::Models => format!("{name}: models see it"),
            Visibility::Scripts => format!("{name}: only scripts see it"),
            Visibility::Hidden => format!("{name}: hidden"),
        };
        let reasons = self.reasons();
        let approval = self.approval_reason().filter(|_| reasons.is_empty());
        let reasons = reasons.iter().map(|reason| {
            let is_of_client = of_client.iter().any(|known| known.rule == reason.rule);
            if is_of_client { reason.rule.to_owned() } else { reason.text() }
        });
        let details = reasons.chain(approval).map(|text| format!("  {text}"));
        std::iter::once(head).chain(details).collect()
    }
}

impl LeftOutCause {
    /// Returns the stable code of the rule.
    const fn code(self) -> &'static str {
        match self {
            Self::NameTaken => NAME_TAKEN,
            Self::NameNotValid => "name_not_valid",
            Self::Definition => "left_out",
            Self::TooMany => "too_many_tools",
            Self::Guard => "guard",
        }
    }
}

/// Code of the rule that another tool has the name of a tool.
const NAME_TAKEN: &str = "name_taken";

/// Returns the names of a client's tools in quarantine of which the catalog has no definition. Of the
/// other ones it has the accepted or the first definition, which requests may see.
fn withheld(client: &ToolSource) -> Vec<String> {
    let status = client.provider().map(|provider| provider.status());
    let Some(Value::Array(held)) = status.and_then(|mut status| status.remove(QUARANTINE)) else {
        return Vec::new();
    };
    if held.is_empty() {
        return Vec::new();
    }
    let listed = client.tools.iter().map(|tool| &tool.original);
    let left_out = client.left_out.iter().filter_map(|left_out| left_out.tool.as_ref());
    let known: BTreeSet<_> = listed.chain(left_out).map(|name| visible_line(name)).collect();
    let names = held.into_iter().filter_map(|name| match name {
        Value::String(name) if !known.contains(&name) => Some(name),
        _ => None,
    });
    names.take(MAX_TOOLS_PER_CLIENT).collect()
}

/// Returns a name from outside for a sentence. One with other characters than names on the wire have is
/// quoted, because it could be a sentence itself, and its hidden characters are made visible.
fn in_sentence(name: &str) -> String {
    if ToolName::is_valid(name) { name.to_owned() } else { format!("{:?}", visible_line(name)) }
}

/// Returns the beginning of a reason from outside, visible and on one line.
fn brief(reason: &str) -> String {
    cut(
        visible_line(&cut(reason.to_owned(), airlock_strings::MAX_REASON_BYTES)),
        airlock_strings::MAX_REASON_BYTES,
    )
}

#[cfg(test)]
mod tests;
