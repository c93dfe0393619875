//! Acts of people at a gateway, for its records: approvals, logins, changes of settings. Decisions of guards about definitions
//! are recorded like them.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{
    operator::Operator,
    tenant::{Tenant, User},
};

/// Takes note of acts. Implemented by the records of the gateway.
pub trait ActRecord: Send + Sync + 'static {
    /// Records an act. Must neither block nor fail.
    fn record(&self, act: Act);

    /// Records an act that is about to happen. Returns false if it cannot be recorded and must not happen for that.
    /// Waits for a bounded time.
    fn record_before(&self, act: Act) -> BoxFuture<'_, bool>;
}

/// The record of acts, for those who know of one; without a record, nothing happens. Cheap to clone.
#[derive(Clone, Default)]
pub struct Acts(Option<Arc<dyn ActRecord>>);

impl Acts {
    /// Returns the acts that are recorded here.
    pub fn new(record: Arc<dyn ActRecord>) -> Self {
        Self(Some(record))
    }

    /// Records an act. `act` is not called if there is no record.
    pub fn record(&self, act: impl FnOnce() -> Act) {
        if let Some(record) = &self.0 {
            record.record(act());
        }
    }

    /// Records an act that is about to happen. Returns false if it must not happen, because it cannot be recorded.
    pub async fn record_before(&self, act: Act) -> bool {
        match &self.0 {
            Some(record) => record.record_before(act).await,
            None => true,
        }
    }
}

impl fmt::Debug for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acts").field(&self.0.is_some()).finish()
    }
}

/// A party that acts. `Display` is its one form in records, in the store and in logs; the identity of a user,
/// which may be an address, is not a part of it. A name is quoted, so that none is taken for another party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// An operator, by name. The command line acts on a store as an operator.
    Operator(String),
    /// The holder of a virtual key, by the name of the key.
    Key(String),
    /// A user with an access token.
    User {
        /// Name of the virtual key whose tools the user sees.
        key: String,
        /// The user.
        user: User,
    },
    /// A caller without a credential.
    Anonymous,
    /// The gateway itself.
    Gateway,
    /// The program in whose process the gateway runs, as the operator.
    Program,
    /// The holder of the setup token, who makes the first operator.
    Setup,
    /// A guard of the operator, by its name in the configuration.
    Guard(String),
    /// An actor in the form that the store has.
    Stored(String),
}

impl Actor {
    /// Returns the holder of a virtual key with this name, or the user who came with an access token.
    pub fn holder(key: &str, user: Option<&User>) -> Self {
        let key = key.to_owned();
        match user {
            Some(user) => Self::User { key, user: user.clone() },
            None => Self::Key(key),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(name) => write!(f, "operator {name:?}"),
            Self::Key(name) => write!(f, "key {name:?}"),
            Self::User { key, .. } => write!(f, "user of key {key:?}"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Gateway => f.write_str("gateway"),
            Self::Program => f.write_str("program"),
            Self::Setup => f.write_str("setup"),
            Self::Guard(name) => write!(f, "guard {name:?}"),
            Self::Stored(text) => f.write_str(text),
        }
    }
}

impl From<&Operator> for Actor {
    fn from(operator: &Operator) -> Self {
        Self::Operator(operator.name.clone())
    }
}

impl From<&Tenant> for Actor {
    fn from(tenant: &Tenant) -> Self {
        match tenant.identity() {
            Some(identity) => Self::holder(identity.key_name, identity.user),
            None if *tenant == Tenant::GATEWAY => Self::Gateway,
            None => Self::Anonymous,
        }
    }
}

/// An act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Kind of the act.
    pub kind: ActKind,
    /// The party that acts.
    pub actor: Actor,
    /// The object of the act: the identifier of a call that waits, the name of a setting, a session.
    pub object: String,
    /// Further members, without secrets. Each name is used once, and none is that of a member of every line.
    pub details: Vec<(&'static str, String)>,
}

impl Act {
    /// Creates an act without details.
    pub fn new(kind: ActKind, actor: impl Into<Actor>, object: impl Into<String>) -> Self {
        Self { kind, actor: actor.into(), object: object.into(), details: Vec::new() }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }
}

airlock_strings::named_enum! {
    /// Kind of an act. The names are those in the records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ActKind {
        /// A call waits for an approval.
        ApprovalAsked = "approval_asked",
        /// A call that waits was approved.
        ApprovalGranted = "approval_granted",
        /// A call that waits was denied.
        ApprovalDenied = "approval_denied",
        /// The decision about a call was used by the call.
        ApprovalUsed = "approval_used",
        /// A call was not decided about in time, or its decision was not used.
        ApprovalExpired = "approval_expired",
        /// An element of the configuration in the store, or an operator, was changed.
        ConfigChanged = "config_changed",
        /// An operator has logged in with a browser.
        OperatorLoggedIn = "operator_login",
        /// A session of an operator was ended, by its operator or by another one.
        OperatorLoggedOut = "operator_logout",
        /// A user has logged in at an MCP server, or has entered headers for it.
        UserLoggedIn = "user_login",
        /// The login of a user at an MCP server was removed.
        UserLoggedOut = "user_logout",
        /// An operator calls a tool, or tries to.
        ToolTried = "tool_tried",
        /// An operator connects to a server that is not configured.
        ServerTried = "server_tried",
        /// An operator accepts changed definitions of an MCP server.
        DefinitionsAccepted = "definitions_accepted",
        /// A guard withholds a definition of a source, or replaces its texts.
        DefinitionGuarded = "definition_guarded",
        /// Contents were erased from the call log.
        LogErased = "log_erased",
        /// The gateway has started.
        GatewayStarted = "gateway_started",
        /// The gateway stops.
        GatewayStopped = "gateway_stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Role;

    fn operator(name: &str) -> Operator {
        Operator { name: name.to_owned(), role: Role::Viewer, sees_payloads: false }
    }

    #[test]
    fn each_actor_has_one_form_and_no_name_is_taken_for_another_party() {
        let user = User { issuer: "https://i".to_owned(), subject: "ann@example.com".to_owned() };
        for (actor, expected) in [
            (Actor::from(&operator("gateway")), "operator \"gateway\""),
            (Actor::from(&operator("a\" key \"b")), "operator \"a\\\" key \\\"b\""),
            (Actor::from(&Tenant::of_key([1; 32], "ci")), "key \"ci\""),
            (Actor::from(&Tenant::of_user([2; 32], "ci", user)), "user of key \"ci\""),
            (Actor::from(&Tenant::ANONYMOUS), "anonymous"),
            (Actor::from(&Tenant::GATEWAY), "gateway"),
            (Actor::Program, "program"),
            (Actor::Setup, "setup"),
            (Actor::Guard("setup".to_owned()), "guard \"setup\""),
            (Actor::Stored("operator \"ann\"".to_owned()), "operator \"ann\""),
        ] {
            assert_eq!(actor.to_string(), expected);
        }
    }
}
