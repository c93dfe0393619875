//! Path and method → the act that a request is, and the right that it needs.

use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use crate::{
    kind::ListedKind,
    logs::LogRequest,
    refusal::{Result, invalid, not_found, refusal},
};
use airlock_core::{door::MAX_KEY_NAME_BYTES, operator::Right};
use airlock_operator_api::ManagementRefusal;
use airlock_store::{call_log::LogKind, entries::EntryKind};

/// Longest name or identifier in a path, in bytes, which is that of the name of a virtual key: refusals and records repeat
/// it.
pub(crate) const MAX_NAME_BYTES: usize = MAX_KEY_NAME_BYTES;

/// Act that a request is, with the name or identifier in its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Makes the first operator.
    SetUp,
    /// Shows the operator of the request.
    ShowSession,
    /// Ends the session of the request.
    EndSession,
    ListSessions,
    RevokeSession(String),
    ListOperators,
    AddOperator,
    RemoveOperator(String),
    AddClient,
    UpdateClient(String),
    RemoveClient(String),
    ListPlugins,
    InstallPlugin,
    ShowPlugin(String),
    UpdatePlugin(String),
    RemovePlugin(String),
    AcceptPlugin(String),
    ListKeys,
    CreateKey,
    ShowKey(String),
    UpdateKey(String),
    DeleteKey(String),
    RotateKey(String),
    RotateKeys,
    ListElements(&'static ListedKind),
    CreateElement(&'static ListedKind),
    ShowElement(&'static ListedKind, String),
    UpdateElement(&'static ListedKind, String),
    DeleteElement(&'static ListedKind, String),
    /// Adds a virtual key to those for which a virtual MCP exists.
    AttachKey(&'static ListedKind, String, String),
    DetachKey(&'static ListedKind, String, String),
    ListBudgets,
    ListRateLimits,
    /// Raises a budget of an element, by their identifiers.
    SetOverride(LimitOwner, String, String),
    ClearOverride(LimitOwner, String, String),
    /// Shows the configuration of the gateway.
    ShowConfig,
    UpdateConfig,
    ListChanges,
    Revert(i64),
    /// Shows which settings come from the file and which from the store.
    ListSettings,
    /// Shows what another configuration file would change.
    Preview,
    /// Reads or erases a part of the call log.
    Logs(LogKind, LogRequest),
}

airlock_strings::named_enum! {
    /// Kind of an element that has budgets. The titles are those in messages.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum LimitOwner as title {
        VirtualKey = "Virtual key",
        Team = "Team",
        Customer = "Customer",
        Model = "Model config",
    }
}

impl LimitOwner {
    /// Finds the kind whose list has this name in a path.
    fn at(list: &str) -> Option<Self> {
        Some(match list {
            "virtual-keys" => Self::VirtualKey,
            "teams" => Self::Team,
            "customers" => Self::Customer,
            "model-configs" => Self::Model,
            _ => return None,
        })
    }

    /// Returns the one of a kind of entries; `None` if its elements have no budgets.
    pub(crate) fn from_kind(kind: EntryKind) -> Option<Self> {
        Self::ALL.into_iter().find(|owner| owner.kind() == kind)
    }

    pub(crate) fn kind(self) -> EntryKind {
        match self {
            Self::VirtualKey => EntryKind::VirtualKey,
            Self::Team => EntryKind::Team,
            Self::Customer => EntryKind::Customer,
            Self::Model => EntryKind::ModelConfig,
        }
    }
}

impl Act {
    /// Finds the act of a request. Fails if the path does not exist or does not take the method.
    pub(crate) fn find(method: &Method, path: &str) -> Result<Self> {
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let acts = acts(&segments).ok_or_else(|| not_found("no such path"))?;
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let found = acts.iter().find(|(own, _)| own == method);
        let (_, act) = found.ok_or_else(|| wrong_method(&acts))?;
        check_names(&segments)?;
        Ok(act.clone())
    }

    /// Returns the right that the act needs; `None` if it needs no operator.
    pub(crate) fn right(&self) -> Option<Right> {
        Some(match self {
            Self::SetUp => return None,
            Self::ShowSession
            | Self::EndSession
            | Self::ListPlugins
            | Self::ShowPlugin(_)
            | Self::ListKeys
            | Self::ShowKey(_)
            | Self::ListElements(_)
            | Self::ShowElement(..)
            | Self::ListBudgets
            | Self::ListRateLimits
            | Self::ShowConfig
            | Self::ListChanges
            | Self::ListSettings => Right::Read,
            Self::Logs(_, request) => request.right(),
            Self::CreateKey
            | Self::UpdateKey(_)
            | Self::DeleteKey(_)
            | Self::UpdateClient(_)
            | Self::RemoveClient(_)
            | Self::CreateElement(_)
            | Self::UpdateElement(..)
            | Self::DeleteElement(..)
            | Self::AttachKey(..)
            | Self::DetachKey(..)
            | Self::SetOverride(..)
            | Self::ClearOverride(..)
            | Self::UpdateConfig
            | Self::UpdatePlugin(_)
            | Self::Revert(_) => Right::Change,
            // Who knows the new value of a key is its tenant, and sees and decides what is the tenant's.
            // Who compares files learns whether a secret that he guesses is that of the gateway's file.
            Self::Preview
            | Self::RotateKey(_)
            | Self::RotateKeys
            | Self::AddClient
            | Self::ListSessions
            | Self::RevokeSession(_)
            | Self::InstallPlugin
            | Self::AcceptPlugin(_)
            | Self::RemovePlugin(_)
            | Self::ListOperators
            | Self::AddOperator
            | Self::RemoveOperator(_) => Right::Administer,
        })
    }
}

/// Fails if a name in the path is empty or too long.
fn check_names(segments: &[&str]) -> Result<()> {
    let mut lengths = segments.iter().map(|segment| percent_decode_str(segment).count());
    if lengths.all(|length| (1..=MAX_NAME_BYTES).contains(&length)) {
        return Ok(());
    }
    Err(invalid(format!("a name in the path has 1 to {MAX_NAME_BYTES} bytes")))
}

fn wrong_method(acts: &[(Method, Act)]) -> ManagementRefusal {
    let methods: Vec<_> = acts.iter().map(|(method, _)| method.as_str()).collect();
    let message = format!("this path takes {}", methods.join(", "));
    refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// Returns the acts of a path by their methods; `None` if the path does not exist.
fn acts(segments: &[&str]) -> Option<Vec<(Method, Act)>> {
    Some(match segments {
        ["api", "session"] => {
            vec![(Method::GET, Act::ShowSession), (Method::DELETE, Act::EndSession)]
        }
        ["api", "session", "logout"] => vec![(Method::POST, Act::EndSession)],
        ["api", "sessions"] => vec![(Method::GET, Act::ListSessions)],
        ["api", "sessions", id] => vec![(Method::DELETE, Act::RevokeSession(decoded(id)?))],
        ["api", "session", "setup"] => vec![(Method::POST, Act::SetUp)],
        ["api", "operators"] => {
            vec![(Method::GET, Act::ListOperators), (Method::POST, Act::AddOperator)]
        }
        ["api", "operators", name] => vec![(Method::DELETE, Act::RemoveOperator(decoded(name)?))],
        ["api", "mcp", "client"] => vec![(Method::POST, Act::AddClient)],
        ["api", "mcp", "client", name] => vec![
            (Method::PUT, Act::UpdateClient(decoded(name)?)),
            (Method::DELETE, Act::RemoveClient(decoded(name)?)),
        ],
        ["api", "plugins"] => {
            vec![(Method::GET, Act::ListPlugins), (Method::POST, Act::InstallPlugin)]
        }
        ["api", "plugins", name] => vec![
            (Method::GET, Act::ShowPlugin(decoded(name)?)),
            (Method::PUT, Act::UpdatePlugin(decoded(name)?)),
            (Method::DELETE, Act::RemovePlugin(decoded(name)?)),
        ],
        ["api", "plugins", name, "accept"] => {
            vec![(Method::POST, Act::AcceptPlugin(decoded(name)?))]
        }
        ["api", "governance", "virtual-keys"] => {
            vec![(Method::GET, Act::ListKeys), (Method::POST, Act::CreateKey)]
        }
        ["api", "governance", "virtual-keys", "rotate"] => vec![(Method::POST, Act::RotateKeys)],
        ["api", "governance", "virtual-keys", id] => vec![
            (Method::GET, Act::ShowKey(decoded(id)?)),
            (Method::PUT, Act::UpdateKey(decoded(id)?)),
            (Method::DELETE, Act::DeleteKey(decoded(id)?)),
        ],
        ["api", "governance", "virtual-keys", id, "rotate"] => {
            vec![(Method::POST, Act::RotateKey(decoded(id)?))]
        }
        ["api", "governance", "budgets"] => vec![(Method::GET, Act::ListBudgets)],
        ["api", "governance", "rate-limits"] => vec![(Method::GET, Act::ListRateLimits)],
        ["api", "governance", list, id, "budgets", budget, "override"] => {
            let owner = LimitOwner::at(list)?;
            let [id, budget] = [decoded(id)?, decoded(budget)?];
            vec![
                (Method::PUT, Act::SetOverride(owner, id.clone(), budget.clone())),
                (Method::DELETE, Act::ClearOverride(owner, id, budget)),
            ]
        }
        ["api", "mcp-logs", rest @ ..] => log_acts(LogKind::Tools, rest)?,
        ["api", "logs", rest @ ..] => log_acts(LogKind::Models, rest)?,
        ["api", area, list] if ListedKind::at([*area, *list]).is_some() => {
            let listed = ListedKind::at([*area, *list])?;
            vec![
                (Method::GET, Act::ListElements(listed)),
                (Method::POST, Act::CreateElement(listed)),
            ]
        }
        ["api", area, list, id] if ListedKind::at([*area, *list]).is_some() => {
            let listed = ListedKind::at([*area, *list])?;
            let id = decoded(id)?;
            vec![
                (Method::GET, Act::ShowElement(listed, id.clone())),
                (Method::PUT, Act::UpdateElement(listed, id.clone())),
                (Method::DELETE, Act::DeleteElement(listed, id)),
            ]
        }
        ["api", "mcp", "virtual-mcps", id, "virtual-keys", key] => {
            let listed = ListedKind::at(["mcp", "virtual-mcps"])?;
            let id = decoded(id)?;
            let key = decoded(key)?;
            vec![
                (Method::POST, Act::AttachKey(listed, id.clone(), key.clone())),
                (Method::DELETE, Act::DetachKey(listed, id, key)),
            ]
        }
        ["api", "config"] => {
            vec![(Method::GET, Act::ShowConfig), (Method::PUT, Act::UpdateConfig)]
        }
        ["api", "changes"] => vec![(Method::GET, Act::ListChanges)],
        ["api", "changes", id, "revert"] => vec![(Method::POST, Act::Revert(id.parse().ok()?))],
        ["api", "config", "diff"] => vec![(Method::POST, Act::Preview)],
        ["api", "settings"] => vec![(Method::GET, Act::ListSettings)],
        _ => return None,
    })
}

/// Returns the acts of a path below that of a log.
fn log_acts(kind: LogKind, rest: &[&str]) -> Option<Vec<(Method, Act)>> {
    Some(match rest {
        [] => vec![
            (Method::GET, Act::Logs(kind, LogRequest::List)),
            (Method::DELETE, Act::Logs(kind, LogRequest::Erase)),
        ],
        rest => {
            let request = match (LogRequest::named(kind, rest), rest) {
                (Some(request), _) => request,
                (None, [id]) => LogRequest::Show(decoded(id)?),
                (None, _) => return None,
            };
            vec![(Method::GET, Act::Logs(kind, request))]
        }
    })
}

fn decoded(segment: &str) -> Option<String> {
    percent_decode_str(segment).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LISTED;

    #[test]
    fn a_path_and_a_method_select_an_act() {
        for (method, path, act) in [
            (Method::POST, "/api/session/setup", Act::SetUp),
            (Method::PUT, "/api/mcp/client/a%20b", Act::UpdateClient("a b".to_owned())),
            (
                Method::POST,
                "/api/governance/virtual-keys/x%2Fy/rotate",
                Act::RotateKey("x/y".to_owned()),
            ),
            (Method::POST, "/api/governance/virtual-keys/rotate", Act::RotateKeys),
            (Method::HEAD, "/api/changes", Act::ListChanges),
            (Method::POST, "/api/changes/7/revert", Act::Revert(7)),
            (Method::GET, "/api/governance/budgets", Act::ListBudgets),
            (
                Method::DELETE,
                "/api/governance/teams/a%2Fb/budgets/7/override",
                Act::ClearOverride(LimitOwner::Team, "a/b".to_owned(), "7".to_owned()),
            ),
            (Method::GET, "/api/mcp-logs/stats", Act::Logs(LogKind::Tools, LogRequest::Stats)),
            (
                Method::GET,
                "/api/logs/0198",
                Act::Logs(LogKind::Models, LogRequest::Show("0198".to_owned())),
            ),
        ] {
            assert_eq!(Act::find(&method, path), Ok(act), "{path}");
        }
    }

    fn refused(method: &Method, path: &str) -> u16 {
        Act::find(method, path).expect_err("refused").status.as_u16()
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        for path in [
            "/api",
            "/api/changes/x/revert",
            "/api/operators/%ff",
            "/api/mcp/client/a/b",
            "/api/session/setup/",
            "/api/governance/roles/a/budgets/7/override",
            "/api/logs/histogram/top-tools",
            "/api/logs/histogram/cost/by-tool",
            "/api/mcp-logs/histogram/cost/by-provider",
            "/api/mcp-logs/rankings/by-dimension",
            "/api/mcp-logs/histogram/tokens",
        ] {
            assert_eq!(refused(&Method::POST, path), 404, "{path}");
        }
        assert_eq!(refused(&Method::GET, "/api/session/setup"), 405);
        assert_eq!(refused(&Method::DELETE, "/api/operators/"), 400);
        assert_eq!(refused(&Method::DELETE, &format!("/api/operators/{}", "a".repeat(257))), 400);
    }

    #[test]
    fn each_kind_of_elements_has_its_paths() {
        for listed in &LISTED {
            let [area, list] = listed.path;
            let path = format!("/api/{area}/{list}");
            assert_eq!(Act::find(&Method::POST, &path), Ok(Act::CreateElement(listed)));
            let path = format!("{path}/a%2Fb");
            let name = "a/b".to_owned();
            assert_eq!(Act::find(&Method::DELETE, &path), Ok(Act::DeleteElement(listed, name)));
            assert_eq!(refused(&Method::GET, &format!("{path}/more")), 404);
        }
    }

    #[test]
    fn only_the_set_up_needs_no_operator() {
        let reading = [Act::ShowSession, Act::ListKeys, Act::ListChanges, Act::ListSettings];
        for act in reading {
            assert_eq!(act.right(), Some(Right::Read), "{act:?}");
        }
        for kind in [LogKind::Tools, LogKind::Models] {
            assert_eq!(Act::Logs(kind, LogRequest::List).right(), Some(Right::Read));
            assert_eq!(Act::Logs(kind, LogRequest::Erase).right(), Some(Right::Administer));
        }
        assert_eq!(Act::SetUp.right(), None);
        assert_eq!(Act::CreateKey.right(), Some(Right::Change));
        assert_eq!(Act::Preview.right(), Some(Right::Administer));
        assert_eq!(Act::AddClient.right(), Some(Right::Administer));
        assert_eq!(Act::InstallPlugin.right(), Some(Right::Administer));
        assert_eq!(Act::AcceptPlugin("p".to_owned()).right(), Some(Right::Administer));
        assert_eq!(Act::RotateKeys.right(), Some(Right::Administer));
        assert_eq!(Act::ListOperators.right(), Some(Right::Administer));
    }
}
