//! Reads the tool calls of a model's response and repairs them.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{
    Failure,
    names::{self, CallOwner, CallableNames},
};
use airlock_conversation::{self as conversation, CallInput, Delta, Item, MAX_NAME_BYTES, Reply};
use airlock_core::model_calls::MAX_CALLS_READ;

/// Maximum bytes of the name of a call; a longer one is cut. No tool has one of more than 64 bytes, and the name is a part
/// of each message about the call.
const MAX_CALL_NAME: usize = 1_024;

/// One call that a model asks for.
#[derive(Debug, Clone)]
pub(super) struct ToolCall {
    /// Position among all calls of the response.
    pub(super) position: usize,
    /// The choice that it belongs to.
    pub(super) choice: u64,
    /// Call id, unique in the conversation.
    pub(super) id: String,
    /// Name of the tool; empty if the model sent none.
    pub(super) name: String,
    /// Arguments as text; `None` if this is not a function call.
    pub(super) arguments: Option<String>,
    /// Owner of its tool. A call that is not a function call, or that the caller has received in the
    /// stream, is the caller's and never run here.
    pub(super) owner: CallOwner,
    /// The call as it is in the response.
    pub(super) item: conversation::ToolCall,
}

/// Repairs the identifiers and the names of the calls that begin.
///
/// Results are matched to calls by id only. A call without an id, or with an id that was used before, gets
/// a new one, also in the response that the model and the caller receive. `ids` has the ids of earlier calls,
/// and gets the new ones; `found` is the number of calls of the response so far. Returns whether an id was
/// replaced or a name cut. Fails if there are more than [`MAX_CALLS_READ`] calls.
pub(super) fn repair(
    deltas: &mut [Delta],
    ids: &mut BTreeSet<String>,
    found: &mut usize,
) -> Result<bool, Failure> {
    let limit = MAX_CALLS_READ as usize;
    let mut is_repaired = false;
    *found += deltas.iter().filter(|delta| matches!(delta, Delta::Call { .. })).count();
    if *found > limit {
        return Err(Failure::TooManyCalls { found: *found, limit });
    }
    for delta in deltas {
        if let Delta::Call { id, name, .. } = delta {
            is_repaired |= put_id_right(id, ids);
            if name.len() > MAX_CALL_NAME {
                name.truncate(name.floor_char_boundary(MAX_CALL_NAME));
                name.shrink_to_fit();
                is_repaired = true;
            }
        }
    }
    Ok(is_repaired)
}

/// Replaces an id that cannot be used. Returns whether it was replaced.
fn put_id_right(id: &mut String, ids: &mut BTreeSet<String>) -> bool {
    if !id.is_empty() && id.len() <= MAX_NAME_BYTES && ids.insert(id.clone()) {
        return false;
    }
    *id = format!("call_{}", Uuid::new_v4().simple());
    ids.insert(id.clone());
    true
}

/// Reads the calls of all choices in order. The name of an unknown tool is repaired in the response.
pub(super) fn read(reply: &mut Reply, names: &CallableNames) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    for (choice, content) in &mut reply.choices {
        for item in &mut content.items {
            let Item::ToolCall(call) = item else { continue };
            calls.push(read_one(calls.len(), *choice, call, names));
        }
    }
    calls
}

fn read_one(
    position: usize,
    choice: u64,
    call: &mut conversation::ToolCall,
    names: &CallableNames,
) -> ToolCall {
    let arguments = match &call.input {
        CallInput::Arguments(text) => Some(text.clone()),
        CallInput::Text(_) => None,
    };
    let owner = match arguments {
        Some(_) => names.owner(&call.name),
        None => CallOwner::Caller,
    };
    if owner == CallOwner::Unknown
        && let Some(repaired) = names::repaired(&call.name)
    {
        call.name = repaired;
    }
    let id = call.id.clone();
    let name = call.name.clone();
    ToolCall { position, choice, id, name, arguments, owner, item: call.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(index: u64, id: &str, name: &str, is_custom: bool) -> Delta {
        let extra = conversation::Object::new();
        Delta::Call { choice: 0, index, id: id.to_owned(), name: name.to_owned(), is_custom, extra }
    }

    fn ids_of(deltas: &[Delta]) -> Vec<&str> {
        let ids = deltas.iter().filter_map(|delta| match delta {
            Delta::Call { id, .. } => Some(id.as_str()),
            _ => None,
        });
        ids.collect()
    }

    #[test]
    fn a_missing_repeated_or_long_call_id_is_replaced() {
        let long = "x".repeat(MAX_NAME_BYTES);
        let longer = "x".repeat(MAX_NAME_BYTES + 1);
        let mut ids = BTreeSet::from(["earlier".to_owned()]);
        for (id, is_kept) in [
            ("a", true),
            ("a", false),
            ("", false),
            ("earlier", false),
            (long.as_str(), true),
            (longer.as_str(), false),
        ] {
            let mut deltas = [call(0, id, "x", false)];
            let is_repaired = repair(&mut deltas, &mut ids, &mut 0).expect("few calls");
            assert_eq!((is_repaired, ids_of(&deltas)[0] == id), (!is_kept, is_kept), "{id}");
            assert!(ids.contains(ids_of(&deltas)[0]));
        }
    }

    #[test]
    fn a_name_of_excessive_length_is_cut() {
        for (length, is_cut) in [(MAX_CALL_NAME, false), (MAX_CALL_NAME + 1, true)] {
            let mut deltas = [call(0, "a", &"x".repeat(length), false)];
            let is_repaired = repair(&mut deltas, &mut BTreeSet::new(), &mut 0).expect("few calls");
            assert_eq!(is_repaired, is_cut, "{length}");
            let [Delta::Call { name, .. }] = &deltas else { panic!("it is a call") };
            assert_eq!(name.len(), MAX_CALL_NAME);
        }
    }

    #[test]
    fn calls_beyond_the_limit_fail() {
        let mut deltas: Vec<_> =
            (0..u64::from(MAX_CALLS_READ)).map(|index| call(index, "", "x", false)).collect();
        let mut found = 0;
        repair(&mut deltas, &mut BTreeSet::new(), &mut found).expect("as many as are read");
        let beyond = repair(&mut deltas[..1], &mut BTreeSet::new(), &mut found);
        let limit = MAX_CALLS_READ as usize;
        assert!(matches!(beyond, Err(Failure::TooManyCalls { found, .. }) if found == limit + 1));
    }

    #[test]
    fn only_a_function_call_can_be_of_an_unknown_tool_and_its_name_is_repaired() {
        let mut reply = Reply::default();
        reply.extend([
            call(0, "a", "desk-echo", false),
            call(1, "b", "my.tool", false),
            call(2, "c", "no.tool", false),
            call(3, "d", "no.tool", true),
        ]);
        let names = CallableNames {
            offered: ["desk-echo".to_owned()].into(),
            own: ["my.tool".to_owned()].into(),
            ..CallableNames::default()
        };
        let calls = read(&mut reply, &names);
        let found: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.owner)).collect();
        let expected = [
            ("desk-echo", CallOwner::Gateway),
            ("my.tool", CallOwner::Caller),
            ("no_tool", CallOwner::Unknown),
            ("no.tool", CallOwner::Caller),
        ];
        assert_eq!(found, expected);
        assert_eq!(calls[3].arguments, None, "its input is text");
        let Item::ToolCall(shown) = &reply.choices[&0].items[2] else { panic!("it is a call") };
        assert_eq!((shown, shown.name.as_str()), (&calls[2].item, "no_tool"));
    }
}
