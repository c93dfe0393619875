//! Notes of the gateway in the texts of a conversation: the line for the model about a record whose
//! contents are lost, and the text for people about calls that wait for an approval.

use serde_json::{Value, json};

use airlock_core::tool::Suspension;
use airlock_json::raw;

/// Beginning of every note.
pub(super) const BEGIN: &str = "[Note of the gateway: ";
/// Part of the note about an approval that no other note has.
const NEEDS_APPROVAL: &str = " an approval, so nothing was run.";
/// Part of the note about a script that no other note has.
const HAS_STOPPED: &str = "the script has stopped: its run ";
/// Text between the texts of two rounds in a stream, and before the note.
pub(super) const SEPARATOR: &str = "\n\n";

/// The line about a lost record. It stands at the end of the result of the caller's call.
pub(super) const LOST: &str = "[Note of the gateway: together with this call you made other calls, which ran. Their results \
     are no longer kept. Do not repeat a call that changes something before you know its effect.]";

/// Adds the line to the content of a result: a text, or a list of parts of type `kind`. Any other
/// content stays as it is.
pub(super) fn add_to(content: &mut Value, kind: &str) {
    match content {
        Value::String(text) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(LOST);
        }
        Value::Array(parts) => parts.push(json!({"type": kind, "text": LOST})),
        _ => {}
    }
}

/// Returns the JSON text of the content of a result with the line, as [`add_to`]; `None` if the content
/// is neither a text nor a list.
pub(super) fn added_to(content: &str, kind: &str) -> Option<String> {
    if let Some(text) = raw::string(content) {
        let mut content = Value::String(text.into_owned());
        add_to(&mut content, kind);
        return Some(content.to_string());
    }
    let is_empty = raw::elements(content)?.next().is_none();
    let begin = content.trim_ascii_end().strip_suffix(']')?;
    let separator = if is_empty { "" } else { "," };
    Some(format!("{begin}{separator}{}]", json!({"type": kind, "text": LOST})))
}

/// The interface of a caller, which the notes for people name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerInterface {
    /// The HTTP API.
    Http,
    /// The methods of the library, in a program that embeds the gateway.
    Library,
}

/// Returns the text of an answer whose calls all wait for an approval. `names` are those of their tools.
pub(crate) fn approval<'n>(
    names: impl ExactSizeIterator<Item = &'n str>,
    interface: CallerInterface,
) -> String {
    let verb = if names.len() == 1 { "needs" } else { "need" };
    let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let remedy = match interface {
        CallerInterface::Http => {
            "A program approves a call by sending it to /v1/mcp/tool/execute. A client that cannot do that sends the header \
             `x-airlock-approval: wait`, or the operator sets `approval` to `wait`"
        }
        CallerInterface::Library => {
            "The program approves a call by making it in a request that is `approving`. A program that cannot do that sets \
             `approval` of the request to `wait`, or the operator sets `approval` in the configuration"
        }
    };
    format!(
        "{BEGIN}{names} {verb}{NEEDS_APPROVAL} {remedy}: a person then decides with `airlock approvals`.]"
    )
}

/// Returns the text of an answer whose call is a script that stopped before a call that needs an
/// approval.
pub(crate) fn suspension(suspension: &Suspension, interface: CallerInterface) -> String {
    let run = &suspension.run;
    let decides = match interface {
        CallerInterface::Http => format!("A program decides with POST /v1/runs/{run}/approve"),
        CallerInterface::Library => {
            "The program decides with `approve` or `deny`, and then `resume`, of the id in its list of pending calls".to_owned()
        }
    };
    format!(
        "{BEGIN}{HAS_STOPPED}{run} {}. {decides}, a person with `airlock runs show {run}`. The run then goes on from where it \
         stopped.]",
        suspension.described()
    )
}

/// Returns the content of a message, a text or a list of parts, without the note about an approval or
/// a script at its end; `None` if nothing is left. Content without the note is returned as it is.
pub fn without_approval(mut content: Value) -> Option<Value> {
    match &mut content {
        Value::String(text) => match before_approval(text) {
            Some("") => return None,
            Some(before) => *text = before.to_owned(),
            None => {}
        },
        Value::Array(parts) => {
            let last = parts.last().and_then(|part| before_approval(part.get("text")?.as_str()?));
            match last.map(str::to_owned) {
                Some(before) if before.is_empty() => drop(parts.pop()),
                Some(before) => {
                    if let Some(last) = parts.last_mut() {
                        last["text"] = before.into();
                    }
                }
                None => return Some(content),
            }
            if parts.is_empty() {
                return None;
            }
        }
        _ => {}
    }
    Some(content)
}

/// Returns the text before the note about an approval or a script, which is empty if it is blank; `None` if the
/// text does not end with the note. The names and the rest of the note may differ, because another
/// version of the gateway may have made it, but they have no further line and no closing bracket.
pub(super) fn before_approval(text: &str) -> Option<&str> {
    let inner = text.trim_end().strip_suffix(']')?;
    let (before, note) = inner.rsplit_once(BEGIN)?;
    let is_removed = note.contains(NEEDS_APPROVAL) || note.contains(HAS_STOPPED);
    if note.contains(['\n', ']']) || !is_removed {
        return None;
    }
    let before = before.strip_suffix(SEPARATOR).unwrap_or(before);
    Some(if before.trim().is_empty() { "" } else { before })
}

#[cfg(test)]
mod tests {
    use airlock_core::{
        run::Position,
        tool::{GuardQuestions, RunCall, SourceSet},
    };

    use super::*;

    #[test]
    fn the_note_about_an_approval_is_removed_from_the_end_of_a_text_alone() {
        let interfaces = [CallerInterface::Http, CallerInterface::Library];
        for (names, interface) in
            [&["web-post"][..], &["web-get", "web-post"]].into_iter().zip(interfaces)
        {
            let note = approval(names.iter().copied(), interface);
            assert_eq!(note.contains("header"), interface == CallerInterface::Http, "{note}");
            for (text, before) in [
                (note.clone(), Some("")),
                (format!(" \n\n{note}\n"), Some("")),
                (format!("I ask.\n\n{note}"), Some("I ask.")),
                (format!("I ask. {note}"), Some("I ask. ")),
                (format!("{note} Why?"), None),
                (format!("{note} [sic]"), None),
                (format!("{note}\n]"), None),
                (note.replace(']', ""), None),
                (LOST.to_owned(), None),
                (BEGIN.to_owned(), None),
                (format!("{BEGIN}]"), None),
                ("]".to_owned(), None),
                (String::new(), None),
            ] {
                assert_eq!(before_approval(&text), before, "{text}");
            }
        }
    }

    #[test]
    fn the_note_about_a_script_is_removed_too() {
        let call = RunCall {
            position: Position { block: 1, branch: 0 },
            tool: "web-post".to_owned(),
            arguments: "{}".to_owned(),
            sources: SourceSet::default(),
            argument_sources: None,
            manifest: Vec::new(),
            asked_by: GuardQuestions::new(),
        };
        let suspended = Suspension {
            run: "run_1".to_owned(),
            token: String::new(),
            completed: Vec::new(),
            pending: vec![call],
            in_doubt: Vec::new(),
        };
        let note = suspension(&suspended, CallerInterface::Http);
        insta::assert_snapshot!(note, @"[Note of the gateway: the script has stopped: its run run_1 waits for the approval of web-post (1). A program decides with POST /v1/runs/run_1/approve, a person with `airlock runs show run_1`. The run then goes on from where it stopped.]");
        for interface in [CallerInterface::Http, CallerInterface::Library] {
            let note = suspension(&suspended, interface);
            assert_eq!(before_approval(&format!("I run it.\n\n{note}")), Some("I run it."));
        }
    }

    #[test]
    fn content_without_the_note_about_an_approval_may_be_nothing() {
        let note = approval(["web-post"].into_iter(), CallerInterface::Http);
        for (content, rest) in [
            (json!(note), None),
            (json!(format!("I ask.\n\n{note}")), Some(json!("I ask."))),
            (json!([part(&note)]), None),
            (json!([part("I ask."), part(&note)]), Some(json!([part("I ask.")]))),
            (json!([part(&format!("I ask.\n\n{note}"))]), Some(json!([part("I ask.")]))),
        ] {
            assert_eq!(without_approval(content), rest);
        }
        for content in [json!("I ask."), json!([part(&note), part("Why?")]), json!([]), json!(7)] {
            assert_eq!(without_approval(content.clone()), Some(content));
        }
    }

    fn part(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn the_line_is_added_to_a_tree_as_to_a_text() {
        for content in [json!(""), json!("a"), json!([]), json!([{"type": "text", "text": "a"}])] {
            let mut tree = content.clone();
            add_to(&mut tree, "text");
            let text = added_to(&content.to_string(), "text").expect("it can be added");
            assert_eq!(text.parse::<Value>().expect("JSON"), tree, "{content}");
        }
        assert_eq!(added_to("7", "text"), None);
    }
}
