//! Repairs the calls in chunks of a streamed response.
//!
//! OpenAI gives each call an `index`, and its `id` and name in its first delta. Other servers leave
//! out the index (Gemini), give all calls the index 0, leave out ids, repeat them in every delta,
//! or send arguments as an object (Ollama). After the repair, the calls of a choice are counted
//! from 0, every call has an id that is unique in the conversation, and arguments are text.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Document,
    document::{choices, choices_mut, index_of},
};
use airlock_conversation::{MAX_NAME_BYTES, Object};

/// The calls of one streamed response.
#[derive(Debug, Default)]
pub struct Calls {
    choices: BTreeMap<u64, ChoiceCalls>,
    /// Number of calls in all choices.
    count: usize,
}

#[derive(Debug, Default)]
struct ChoiceCalls {
    calls: Vec<RepairedCall>,
    /// Newest call by the index that the server sent.
    by_index: HashMap<u64, usize>,
    /// Call by the id that the server sent.
    by_id: HashMap<String, usize>,
}

#[derive(Debug)]
struct RepairedCall {
    /// Id that the server sent; empty if none.
    sent_id: String,
    /// Id in the conversation.
    id: String,
    /// First piece of its name; empty if there was none.
    name: String,
    has_arguments: bool,
}

/// A response that has more calls than permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyCalls {
    /// Calls so far.
    pub found: usize,
}

impl Calls {
    /// Repairs the calls of a chunk. A chunk without faults keeps its text. `ids` has the ids of
    /// the calls of the conversation, and gets the new ones. Fails at the first call beyond
    /// `limit`.
    pub fn repair(
        &mut self,
        chunk: &mut Document,
        ids: &mut BTreeSet<String>,
        limit: usize,
    ) -> Result<(), TooManyCalls> {
        let is_affected = chunk.has_calls()
            && choices(chunk.object()).any(|choice| choice.get("delta").is_some_and(has_calls));
        if !is_affected {
            return Ok(());
        }
        let deltas = choices(chunk.object()).flat_map(calls_of).count();
        if deltas > limit {
            return Err(TooManyCalls { found: deltas });
        }
        let mut repaired = Vec::new();
        for (position, choice) in choices(chunk.object()).enumerate() {
            let mut list = Vec::new();
            for call in calls_of(choice) {
                let state = self.choices.entry(index_of(choice, position)).or_default();
                let before = state.calls.len();
                list.push(Value::Object(state.repaired(call, ids)));
                self.count += state.calls.len() - before;
                if self.count > limit {
                    return Err(TooManyCalls { found: self.count });
                }
            }
            repaired.push(list);
        }
        let is_all_sound =
            choices(chunk.object()).zip(&repaired).all(|(choice, list)| is_sound(choice, list));
        if !is_all_sound {
            for (choice, list) in choices_mut(chunk.object_mut()).zip(repaired) {
                set_calls(choice, list);
            }
        }
        Ok(())
    }
}

/// Returns whether the `tool_calls` of a delta are a list that is not empty, or another value.
fn has_calls(delta: &Value) -> bool {
    match delta.get("tool_calls") {
        Some(Value::Array(calls)) => !calls.is_empty(),
        calls => calls.is_some_and(|calls| !calls.is_null()),
    }
}

/// Returns whether the calls of a choice equal the repaired ones.
fn is_sound(choice: &Object, list: &[Value]) -> bool {
    match choice.get("delta").and_then(|delta| delta.get("tool_calls")) {
        Some(Value::Array(calls)) => calls == list,
        calls => calls.is_none_or(Value::is_null),
    }
}

/// Replaces the calls of a choice. Without calls the member is removed, for the merged response:
/// there an element that is not a call would take the index of a call, and a value that is not a
/// list would replace the calls so far.
fn set_calls(choice: &mut Object, list: Vec<Value>) {
    if is_sound(choice, &list) {
        return;
    }
    if let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) {
        if list.is_empty() {
            delta.shift_remove("tool_calls");
        } else {
            delta.insert("tool_calls".to_owned(), list.into());
        }
    }
}

fn calls_of(choice: &Object) -> impl Iterator<Item = &Object> {
    let calls = choice.get("delta").and_then(|delta| delta.get("tool_calls"));
    calls.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

impl ChoiceCalls {
    /// Returns a delta of a call with its index, and its id if it is the first one or has one.
    fn repaired(&mut self, sent: &Object, ids: &mut BTreeSet<String>) -> Object {
        let known = self.calls.len();
        let at = self.find(sent).unwrap_or(known);
        let mut out = sent.clone();
        if at == known {
            self.begin(sent, ids);
            let id = self.calls[at].id.clone();
            out.insert("id".to_owned(), id.into());
            if sent.contains_key("function") {
                out.entry("type").or_insert_with(|| json!("function"));
            }
        } else if out.get("id").is_some_and(|id| id.as_str() != Some("") && !id.is_null()) {
            out.insert("id".to_owned(), self.calls[at].id.clone().into());
        }
        let call = &mut self.calls[at];
        if call.name.is_empty() {
            name(sent).unwrap_or_default().clone_into(&mut call.name);
        }
        call.has_arguments |= has_arguments(sent);
        out.insert("index".to_owned(), at.into());
        if let Some(arguments) =
            out.get_mut("function").and_then(|function| function.get_mut("arguments"))
            && !arguments.is_string()
            && !arguments.is_null()
        {
            *arguments = arguments.to_string().into();
        }
        out
    }

    /// Finds the call that a delta belongs to; `None` if it begins a new call.
    fn find(&self, sent: &Object) -> Option<usize> {
        let id = id(sent);
        let name = name(sent);
        if let Some(index) = sent.get("index").and_then(Value::as_u64) {
            let at = *self.by_index.get(&index)?;
            let call = &self.calls[at];
            let is_other = match (id, name) {
                // Another id without a name begins no call: LiteLLM sends a new id in every delta.
                (Some(id), Some(_)) => {
                    !call.name.is_empty() && !call.sent_id.is_empty() && id != call.sent_id
                }
                (None, Some(name)) => {
                    call.has_arguments && !call.name.is_empty() && name != call.name
                }
                (_, None) => false,
            };
            return (!is_other).then_some(at);
        }
        match id {
            Some(id) => self.by_id.get(id).copied(),
            None if name.is_some()
                && self
                    .calls
                    .last()
                    .is_some_and(|call| call.has_arguments && !call.name.is_empty()) =>
            {
                None
            }
            None => self.calls.len().checked_sub(1),
        }
    }

    fn begin(&mut self, sent: &Object, ids: &mut BTreeSet<String>) {
        let at = self.calls.len();
        let sent_id = id(sent).unwrap_or_default().to_owned();
        let is_new = !sent_id.is_empty() && ids.insert(sent_id.clone());
        let id = if is_new { sent_id.clone() } else { new_id(ids) };
        if let Some(index) = sent.get("index").and_then(Value::as_u64) {
            self.by_index.insert(index, at);
        }
        if !sent_id.is_empty() {
            self.by_id.insert(sent_id.clone(), at);
        }
        self.calls.push(RepairedCall { sent_id, id, name: String::new(), has_arguments: false });
    }
}

fn new_id(ids: &mut BTreeSet<String>) -> String {
    let id = format!("call_{}", Uuid::new_v4().simple());
    ids.insert(id.clone());
    id
}

/// Returns the id that a server sent, unless it is too long to be kept.
fn id(call: &Object) -> Option<&str> {
    let id = call.get("id").and_then(Value::as_str);
    id.filter(|id| !id.is_empty() && id.len() <= MAX_NAME_BYTES)
}

fn has_arguments(call: &Object) -> bool {
    let arguments = call.get("function").and_then(|function| function.get("arguments"));
    arguments.is_some_and(|arguments| !arguments.is_null() && arguments != "")
}

fn name(call: &Object) -> Option<&str> {
    let named = call.get("function").or_else(|| call.get("custom"))?;
    let name = named.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    Some(&name[..name.floor_char_boundary(MAX_NAME_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::memory::MemoryBudget;
    use airlock_json::{Caps, object};

    /// Sends each list as the calls of one chunk. Returns the repaired lists, and whether each
    /// chunk kept its text.
    fn repair(lists: &[Value], ids: &mut BTreeSet<String>) -> (Vec<Value>, Vec<bool>) {
        let mut calls = Calls::default();
        let held = MemoryBudget::unlimited().charge();
        let repaired = lists.iter().map(|list| {
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": list}}]});
            let mut chunk = Document::read(chunk.to_string(), &Caps::memory(1 << 20), &held)
                .expect("an object");
            calls.repair(&mut chunk, ids, 100).expect("few calls");
            let list = chunk.object()["choices"][0]["delta"]["tool_calls"].clone();
            (list, chunk.is_exact())
        });
        repaired.unzip()
    }

    fn places(lists: &[Value]) -> Vec<(u64, String)> {
        let mut ids = BTreeSet::new();
        let (repaired, _) = repair(lists, &mut ids);
        let calls = repaired.iter().flat_map(|list| list.as_array().expect("a list"));
        let places = calls.map(|call| {
            let id = call["id"].as_str().unwrap_or_default();
            let id = if id.starts_with("call_") { "new" } else { id };
            (call["index"].as_u64().expect("an index"), id.to_owned())
        });
        places.collect()
    }

    fn call(index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Value {
        let mut call = json!({"function": {"arguments": "x"}});
        if let Some(index) = index {
            call["index"] = index.into();
        }
        if let Some(id) = id {
            call["id"] = id.into();
        }
        if let Some(name) = name {
            call["function"]["name"] = name.into();
        }
        call
    }

    #[test]
    fn a_delta_finds_its_call_by_index_id_or_order() {
        let a = Some("a");
        let b = Some("b");
        let x = Some("x");
        let y = Some("y");
        for (description, lists, expected) in [
            (
                "as OpenAI sends them, interleaved",
                vec![
                    json!([call(Some(0), a, x), call(Some(1), b, y)]),
                    json!([call(Some(1), None, None), call(Some(0), None, None)]),
                ],
                vec![(0, "a"), (1, "b"), (1, ""), (0, "")],
            ),
            (
                "index 1 first",
                vec![json!([call(Some(1), b, y), call(Some(0), a, x)])],
                vec![(0, "b"), (1, "a")],
            ),
            (
                "every call has index 0",
                vec![
                    json!([call(Some(0), a, x)]),
                    json!([call(Some(0), b, y)]),
                    json!([call(Some(0), None, None)]),
                ],
                vec![(0, "a"), (1, "b"), (1, "")],
            ),
            (
                "the id is repeated",
                vec![
                    json!([call(Some(0), a, x)]),
                    json!([call(Some(0), a, None)]),
                    json!([call(None, a, None)]),
                ],
                vec![(0, "a"), (0, "a"), (0, "a")],
            ),
            (
                "without an index",
                vec![
                    json!([call(None, a, x)]),
                    json!([call(None, None, None)]),
                    json!([call(None, b, y), call(None, a, None)]),
                ],
                vec![(0, "a"), (0, ""), (1, "b"), (0, "a")],
            ),
            (
                "without index and id",
                vec![
                    json!([call(None, None, x)]),
                    json!([call(None, None, None)]),
                    json!([call(None, None, y)]),
                ],
                vec![(0, "new"), (0, ""), (1, "new")],
            ),
            ("without anything", vec![json!([call(None, None, None)])], vec![(0, "new")]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(at, id)| (at, id.to_owned())).collect();
            assert_eq!(places(&lists), expected, "{description}");
        }
    }

    #[test]
    fn an_id_of_an_earlier_round_is_replaced_in_every_delta() {
        let mut ids = BTreeSet::from(["a".to_owned()]);
        let lists =
            [json!([call(Some(0), Some("a"), Some("x"))]), json!([call(Some(0), Some("a"), None)])];
        let (repaired, _) = repair(&lists, &mut ids);
        assert_eq!(repaired[0][0]["id"], repaired[1][0]["id"]);
        assert_ne!(repaired[0][0]["id"], "a");
        assert_eq!(ids.len(), 2);
    }

    #[test]
    fn sound_calls_keep_the_text_of_their_chunk() {
        let sound = json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "x", "arguments": ""}}]);
        let more = json!([{"index": 0, "function": {"arguments": "{"}}]);
        let object = json!([{"index": 0, "function": {"arguments": {"a": 1}}}]);
        let (repaired, is_exact) = repair(&[sound, more, object], &mut BTreeSet::new());
        assert_eq!(is_exact, [true, true, false]);
        assert_eq!(repaired[2][0]["function"]["arguments"], r#"{"a":1}"#);
    }

    #[test]
    fn values_that_are_no_calls_are_removed() {
        let good = call(Some(0), Some("a"), Some("x"));
        let lists =
            [json!([1]), json!({}), json!("x"), json!([null, good]), json!([]), json!(null)];
        let (repaired, is_exact) = repair(&lists, &mut BTreeSet::new());
        let lists: Vec<_> = repaired.iter().map(|list| list.as_array().map(Vec::len)).collect();
        assert_eq!(lists, [None, None, None, Some(1), Some(0), None]);
        assert_eq!(repaired[..3], [const { Value::Null }; 3]);
        assert_eq!((&repaired[3][0]["id"], &repaired[3][0]["index"]), (&json!("a"), &json!(0)));
        assert_eq!(is_exact, [false, false, false, false, true, true]);
    }

    #[test]
    fn calls_beyond_the_limit_fail() {
        let mut calls = Calls::default();
        let list: Vec<Value> = (0..4).map(|index| call(Some(index), None, Some("x"))).collect();
        let choices = [0, 1].map(|index| json!({"index": index, "delta": {"tool_calls": list}}));
        let chunk = object(json!({"choices": choices}));
        let mut same = Document::from(chunk.clone());
        assert_eq!(Calls::default().repair(&mut same, &mut BTreeSet::new(), 8), Ok(()));
        assert_eq!(
            calls.repair(&mut Document::from(chunk), &mut BTreeSet::new(), 7),
            Err(TooManyCalls { found: 8 })
        );
    }

    #[test]
    fn a_chunk_with_more_deltas_than_calls_are_permitted_is_refused() {
        for (count, expected) in [(5, Ok(())), (6, Err(TooManyCalls { found: 6 }))] {
            let list = vec![json!({"index": 0}); count];
            let chunk = object(json!({"choices": [{"delta": {"tool_calls": list}}]}));
            let mut chunk = Document::from(chunk);
            assert_eq!(Calls::default().repair(&mut chunk, &mut BTreeSet::new(), 5), expected);
        }
    }

    #[test]
    fn an_id_that_is_too_long_is_replaced() {
        for (length, is_kept) in [(MAX_NAME_BYTES, true), (MAX_NAME_BYTES + 1, false)] {
            let id = "x".repeat(length);
            let (repaired, _) =
                repair(&[json!([call(Some(0), Some(&id), Some("n"))])], &mut BTreeSet::new());
            assert_eq!(repaired[0][0]["id"] == *id, is_kept, "{length}");
        }
    }
}
