//! The names that a model can call in a request, and the owners of their tools.

use std::collections::BTreeSet;

use airlock_conversation::Object;
use airlock_core::tool::{CallError, ErrorKind, HostCode, MAX_WIRE_NAME, ToolName};
use airlock_strings::nearest;
use serde_json::Value;

/// Members with the calls of a message.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// Owner of the tool that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOwner {
    /// The gateway, which offers the tool in the request.
    Gateway,
    /// The caller: it receives the call.
    Caller,
    /// None: the call is refused with a message to the model.
    Unknown,
}

/// The names of the tools in a request.
#[derive(Debug, Default)]
pub(super) struct CallableNames {
    /// Names of the tools that the gateway offers, without those of the caller's own.
    pub(super) offered: BTreeSet<String>,
    /// Names of the caller's own tools.
    pub(super) own: BTreeSet<String>,
    /// True if the caller has tools without a name, whose calls may have any.
    pub(super) has_unnamed: bool,
    /// True after the last round: no call is run or refused here any more.
    pub(super) is_last: bool,
}

impl CallableNames {
    /// Returns the owner of the tool with this name. In a request without tools of the gateway, and
    /// after the last round, a name that is not offered is the caller's.
    pub(super) fn owner(&self, name: &str) -> CallOwner {
        if self.offered.contains(name) {
            CallOwner::Gateway
        } else if self.is_last || self.may_be_own(name) {
            CallOwner::Caller
        } else {
            CallOwner::Unknown
        }
    }

    /// Returns whether a call of this name is not shown to the caller before the response is complete: it
    /// is run or refused here. One without a name is not shown either.
    pub(super) fn holds_back(&self, name: &str) -> bool {
        name.is_empty() || !self.is_last && self.owner(name) != CallOwner::Caller
    }

    /// Returns whether an unknown member is or has a call that is held back: it is a member of calls, has one, or
    /// names a tool of the gateway. Servers repeat their calls in members of their own.
    pub(super) fn is_call_member(&self, name: &str, value: &Value) -> bool {
        self.holds_calls() && self.is_member_with_call(name, value)
    }

    /// Removes such members. Returns whether there were any.
    pub(super) fn remove_calls(&self, members: &mut Object) -> bool {
        let before = members.len();
        members.retain(|name, value| !self.is_call_member(name, value));
        members.len() < before
    }

    fn holds_calls(&self) -> bool {
        !self.is_last && !self.offered.is_empty()
    }

    fn is_call(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.offered.contains(text),
            Value::Array(list) => list.iter().any(|element| self.is_call(element)),
            Value::Object(members) => {
                members.iter().any(|(name, value)| self.is_member_with_call(name, value))
            }
            _ => false,
        }
    }

    fn is_member_with_call(&self, name: &str, value: &Value) -> bool {
        CALLS.contains(&name) && !value.is_null()
            || self.offered.contains(name)
            || self.is_call(value)
    }

    /// Creates the error of a call of an unknown tool. A hidden tool has the same error as one that
    /// does not exist: only the names that the model was offered are suggested.
    pub(super) fn not_found(&self, name: &str) -> CallError {
        let known = self.own.iter().chain(&self.offered).map(String::as_str);
        let hint = nearest(name, known).map(|near| format!("; did you mean {near:?}?"));
        let message = format!("' is not available or not permitted{}", hint.unwrap_or_default());
        let tool = ToolName::alias(name);
        CallError::about(tool, ErrorKind::NotFound, HostCode::NotFound, ("tool '", message))
    }

    fn may_be_own(&self, name: &str) -> bool {
        self.offered.is_empty() || self.has_unnamed || self.own.contains(name)
    }
}

/// Returns the name that stands in the conversation for that of an unknown tool: providers refuse a
/// request with a name that no tool can have. `None` if the name can stay.
pub(super) fn repaired(name: &str) -> Option<String> {
    if ToolName::is_valid(name) {
        return None;
    }
    let valid = name.chars().take(MAX_WIRE_NAME).map(|c| if may_stay(c) { c } else { '_' });
    Some(if name.is_empty() { "unnamed".to_owned() } else { valid.collect() })
}

/// Returns whether the name of a tool may have a character.
fn may_stay(c: char) -> bool {
    ToolName::is_valid(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> CallableNames {
        let offered = ["desk-echo", "desk-write"].map(str::to_owned).into();
        let own = ["desk", "mine", "mine_all"].map(str::to_owned).into();
        CallableNames { offered, own, ..CallableNames::default() }
    }

    #[test]
    fn a_name_that_is_neither_offered_nor_the_callers_own_is_unknown() {
        use CallOwner::{Caller, Gateway, Unknown};
        let all = ["desk-echo", "mine", "desk-", "min", "other", ""];
        let owners = |names: &CallableNames| all.map(|name| names.owner(name));
        let unknown = [Gateway, Caller, Unknown, Unknown, Unknown, Unknown];
        let callers = [Gateway, Caller, Caller, Caller, Caller, Caller];
        assert_eq!(owners(&names()), unknown);
        assert_eq!(owners(&CallableNames { is_last: true, ..names() }), callers);
        assert_eq!(owners(&CallableNames { has_unnamed: true, ..names() }), callers);
        let pass_through = CallableNames { offered: BTreeSet::new(), ..names() };
        assert_eq!(owners(&pass_through), [Caller; 6]);
    }

    #[test]
    fn only_a_name_of_the_callers_own_is_shown() {
        let all = ["", "desk", "desk-echo", "desk-echoes", "min", "mine"];
        let nothing = [true, false, false, false, false, false];
        for (names, held) in [
            (names(), [true, false, true, true, true, false]),
            (
                CallableNames { has_unnamed: true, ..names() },
                [true, false, true, false, false, false],
            ),
            (CallableNames { is_last: true, ..names() }, nothing),
            (CallableNames { offered: BTreeSet::new(), ..names() }, nothing),
        ] {
            assert_eq!(all.map(|name| names.holds_back(name)), held, "{names:?}");
        }
    }

    #[test]
    fn an_unknown_tool_has_the_error_of_the_door_and_a_similar_name() {
        let names = names();
        let far = names.not_found("zzz");
        assert_eq!(far.to_string(), CallError::not_found("zzz").to_string());
        assert_eq!((far.code(), far.kind()), (HostCode::NotFound, ErrorKind::NotFound));
        insta::assert_snapshot!(
            names.not_found("desk_eccho"),
            @r#"tool 'desk_eccho' is not available or not permitted; did you mean "desk-echo"?"#
        );
    }

    #[test]
    fn a_name_that_providers_refuse_is_repaired() {
        for (name, expected) in [
            ("desk-other_1", None),
            ("functions.desk-echo", Some("functions_desk-echo")),
            ("wörter zählen", Some("w_rter_z_hlen")),
            ("", Some("unnamed")),
        ] {
            assert_eq!(repaired(name).as_deref(), expected, "{name}");
        }
        let long = repaired(&"x".repeat(65)).expect("it is too long");
        assert_eq!(long, "x".repeat(64));
    }
}
