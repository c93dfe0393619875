//! Action receipts of Pipelock, version 1, which PyPI's `pipelock-verify` and verifiers in other languages
//! check: one receipt a line, each signed, each with the hash of the one before.
//!
//! The signature is over the bytes that Go's `encoding/json` writes for the record, so members have a fixed order.

use std::{fmt::Write as _, io::Write, path::Path};

use airlock_strings::{hex, one_line};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{ExportError, Selection, each_selected};
use crate::{
    event::{EventLine, time},
    key::SigningKey,
};

/// Exports lines as receipts. Each event is one, and those that are about no tool have their kind as target.
pub fn pipelock(
    path: &Path,
    selection: &Selection,
    key: &SigningKey,
    origin: &str,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut chain = ReceiptChain { previous: "genesis".to_owned(), length: 0 };
    each_selected(path, selection, |line| {
        let event = line.members().unwrap_or_default();
        let receipt = chain.receipt(line, &event, key, origin);
        out.write_all(receipt.as_bytes())?;
        out.write_all(b"\n")
    })
}

/// The receipts so far.
struct ReceiptChain {
    previous: String,
    length: u64,
}

impl ReceiptChain {
    fn receipt(
        &mut self,
        line: &EventLine<'_>,
        event: &Map<String, Value>,
        key: &SigningKey,
        origin: &str,
    ) -> String {
        let record = self.record(line, event, origin);
        let signature = hex(&key.sign(&Sha256::digest(&record)));
        let signer = hex(&key.public_bytes());
        let receipt = format!(
            "{{\"version\":1,\"action_record\":{record},\"signature\":\"ed25519:{signature}\",\"signer_key\":\"{signer}\"}}"
        );
        self.previous = hex(&Sha256::digest(&receipt));
        self.length += 1;
        receipt
    }

    fn record(&self, line: &EventLine<'_>, event: &Map<String, Value>, origin: &str) -> String {
        let kind = first(event, &["kind"]).unwrap_or_default();
        let principal = first(event, &["user_subject", "key_name", "key", "actor"]);
        let target = first(event, &["tool", "model", "object", "kind"]);
        let mut record = GoObject::default();
        record.number("version", 1);
        record.text("action_id", &format!("{origin}/{}", line.number));
        record.optional("parent_action_id", first(event, &["parent"]));
        record.text("action_type", action_type(&kind, event));
        record.text("timestamp", &time(event));
        record.text("principal", principal.as_deref().unwrap_or(UNKNOWN));
        record.text("actor", first(event, &["origin"]).as_deref().unwrap_or("gateway"));
        record.json("delegation_chain", "[]");
        record.text("target", target.as_deref().unwrap_or(UNKNOWN));
        record.text("side_effect_class", side_effect_class(event));
        record.text("reversibility", UNKNOWN);
        record.text("policy_hash", "");
        record.text("verdict", verdict(&kind, event));
        record.optional("decision_phase", Some(kind));
        record.optional("session_id", first(event, &["run"]));
        record.text("transport", "airlock");
        record.optional("pattern", first(event, &["code"]));
        record.optional("request_id", first(event, &["call", "request"]));
        record.text("chain_prev_hash", &self.previous);
        record.number("chain_seq", self.length);
        record.finish()
    }
}

/// Value of a member that the log does not know.
const UNKNOWN: &str = "unknown";

/// Returns the first of these texts that an event has, on one line: Go and others escape control characters
/// differently. A text of spaces counts as none, because a receipt with an empty target is not valid.
fn first(event: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let texts = names.iter().filter_map(|name| event.get(*name)?.as_str());
    texts.map(one_line).find(|text| !text.is_empty())
}

fn has_effects(event: &Map<String, Value>) -> Option<bool> {
    event.get("effects").and_then(Value::as_bool)
}

/// Returns the type of an action. Of a call it is known only whether it may have effects.
fn action_type(kind: &str, event: &Map<String, Value>) -> &'static str {
    if kind.starts_with("approval_") {
        "authorize"
    } else if has_effects(event) == Some(false) {
        "read"
    } else {
        "unclassified"
    }
}

fn side_effect_class(event: &Map<String, Value>) -> &'static str {
    match has_effects(event) {
        Some(true) => "external",
        Some(false) => "none",
        None => "unknown",
    }
}

/// Returns the decision that an event is, in the words of Pipelock.
fn verdict(kind: &str, event: &Map<String, Value>) -> &'static str {
    match kind {
        "events_counted" if are_questions(event) => "ask",
        "call_refused" | "events_counted" | "approval_denied" | "approval_expired" => "block",
        "definition_guarded" if is_refusal(event) => "block",
        "model_ended" if guards(event).any(is_refusal) => "block",
        "approval_asked" => "ask",
        _ => "allow",
    }
}

/// Returns whether counted events are questions to users, and their denials.
fn are_questions(event: &Map<String, Value>) -> bool {
    event.get("events").is_some_and(|events| events == "approvals")
}

/// Iterates over the decisions of guards about a call or a request to a model.
fn guards(event: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let guards = event.get("guards").and_then(Value::as_array);
    guards.into_iter().flatten().filter_map(Value::as_object)
}

/// Returns whether a decision of a guard denies what it is about, or is a failure, which does the same.
fn is_refusal(decision: &Map<String, Value>) -> bool {
    let verdict = decision.get("verdict").and_then(Value::as_str);
    matches!(verdict, Some("deny" | "fail"))
}

/// An object as Go's `encoding/json` writes it.
#[derive(Default)]
struct GoObject(String);

impl GoObject {
    fn json(&mut self, name: &str, json: &str) {
        let separator = if self.0.is_empty() { '{' } else { ',' };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{separator}\"{name}\":{json}");
    }

    fn number(&mut self, name: &str, number: u64) {
        self.json(name, &number.to_string());
    }

    fn text(&mut self, name: &str, value: &str) {
        let json = Value::from(value).to_string();
        let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        self.json(name, &json);
    }

    /// Leaves out what is empty, as Go does.
    fn optional(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.text(name, &value);
        }
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}
