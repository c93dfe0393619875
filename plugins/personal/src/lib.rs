//! Keeps personal data out of requests to models: by default, the gateway sends placeholders in their places, and puts
//! them back into responses and the arguments of calls. Calls with such data can be denied, or need an approval. [`find`]
//! knows the formats.

pub mod find;
#[cfg(test)]
mod rates;
pub mod settings;

use airlock_guest::{
    Error,
    guard::{Call, Guard, HiddenPart, Hook, ModelExchange, Verdict},
};
use serde_json::Value;

use self::{
    find::PersonalKind,
    settings::{PersonalSettings, RequestDecision, ToolDecision},
};

/// The guard.
#[derive(Debug)]
pub struct PersonalGuard;

impl Guard for PersonalGuard {
    const HOOKS: &'static [Hook] = &[Hook::Before, Hook::BeforeModel];

    fn check_settings(settings: &str) -> Result<(), Error> {
        PersonalSettings::check(settings)
    }

    fn before(call: &Call) -> Result<Verdict, Error> {
        let PersonalSettings { kinds, before, .. } = call.settings()?;
        if before == ToolDecision::Allow {
            return Ok(Verdict::Allow);
        }
        let mut present = Vec::new();
        add_kinds(&call.arguments()?, &kinds, &mut present);
        if present.is_empty() {
            return Ok(Verdict::Allow);
        }
        let reason = format!("the arguments have personal data: {}", names(&present));
        if before == ToolDecision::Ask {
            return Ok(Verdict::ask(reason));
        }
        Ok(Verdict::deny("personal_data_in_arguments", reason))
    }

    fn before_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
        let PersonalSettings { kinds, before_model, .. } = exchange.settings()?;
        match before_model {
            RequestDecision::Placeholder => exchange.hide(|text| hidden(&text.text, &kinds)),
            RequestDecision::Remove => exchange.rewrite(|text| removed(&text.text, &kinds)),
            RequestDecision::Deny => denied(exchange, &kinds),
        }
    }
}

/// Shortest part that can have a placeholder, in bytes, as in the gateway: it would find a shorter one by accident in other
/// words.
const MIN_PART_BYTES: usize = 4;

/// Returns the parts of a text that are hidden, without the characters that stay.
fn hidden(text: &str, kinds: &[PersonalKind]) -> Vec<HiddenPart> {
    let mut parts = Vec::new();
    for found in find::personal(text, kinds) {
        let mut start = found.start;
        for part in text[found.start..found.end].split_inclusive(stays) {
            let end = start + part.trim_end_matches(stays).len();
            if end - start >= MIN_PART_BYTES {
                parts.push(HiddenPart { start, end, kind: found.kind.name().to_owned() });
            }
            start += part.len();
        }
    }
    parts
}

/// Returns whether a character stays, because the gateway gives no placeholder to a part that has it: a `'` would end a
/// text in a script in which the model has written the placeholder, and a control character is written otherwise in JSON.
fn stays(character: char) -> bool {
    character == '\'' || character.is_control()
}

/// Returns a text with a mark in the place of each find; `None` if there is none.
fn removed(text: &str, kinds: &[PersonalKind]) -> Option<String> {
    let mut marked = String::new();
    let mut copied = 0;
    for found in find::personal(text, kinds) {
        marked.push_str(&text[copied..found.start]);
        marked.push_str("[personal data removed: ");
        marked.push_str(found.kind.name());
        marked.push(']');
        copied = found.end;
    }
    (copied > 0).then(|| marked + &text[copied..])
}

fn denied(exchange: &ModelExchange, kinds: &[PersonalKind]) -> Result<Verdict, Error> {
    let mut present = Vec::new();
    for text in exchange.texts()? {
        add(&text.text, kinds, &mut present);
    }
    if present.is_empty() {
        return Ok(Verdict::Allow);
    }
    let reason = format!("the request has personal data: {}", names(&present));
    Ok(Verdict::deny("personal_data_in_request", reason))
}

/// Adds the kinds in the texts and the keys of a value, each once.
fn add_kinds(value: &Value, kinds: &[PersonalKind], present: &mut Vec<PersonalKind>) {
    match value {
        Value::String(text) => add(text, kinds, present),
        // A card or a tax number can be a number.
        Value::Number(number) => add(&number.to_string(), kinds, present),
        Value::Array(elements) => {
            for element in elements {
                add_kinds(element, kinds, present);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                add(name, kinds, present);
                add_kinds(member, kinds, present);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Adds the kinds in a text, each once.
fn add(text: &str, kinds: &[PersonalKind], present: &mut Vec<PersonalKind>) {
    for found in find::personal(text, kinds) {
        if !present.contains(&found.kind) {
            present.push(found.kind);
        }
    }
}

fn names(kinds: &[PersonalKind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

airlock_guest::guard!(PersonalGuard);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn personal_data_in_a_request_are_hidden_with_their_places_and_kinds() {
        let texts = [("user", "é mail ann@a.example"), ("tool", "nothing"), ("call", "{}")];
        let exchange = ModelExchange::new(&texts);
        let expected = json!([
            {"role": "user", "text": "é mail ann@a.example", "hide": [{"start": 8, "end": 21, "kind": "email"}]},
            {"role": "tool", "text": "nothing"},
            {"role": "call", "text": "{}"},
        ]);
        let Ok(Verdict::Rewrite(rewritten)) = PersonalGuard::before_model(&exchange) else {
            panic!("it is rewritten")
        };
        assert_eq!(serde_json::from_str::<Value>(&rewritten).expect("JSON"), expected);
        let plain = ModelExchange::new(&texts[1..]);
        assert_eq!(PersonalGuard::before_model(&plain), Ok(Verdict::Allow));
    }

    #[test]
    fn a_quote_or_control_character_in_an_address_is_not_hidden() {
        for (text, expected) in [
            ("Ann.O'Neil@a.example", &[(0, 5), (6, 20)][..]),
            ("o'neil@a.example", &[(2, 16)]),
            ("a'+key+'@a.example", &[(2, 7), (8, 18)]),
            ("a\u{85}bcdef@a.example", &[(3, 18)]),
        ] {
            let parts = hidden(text, &[PersonalKind::Email]);
            let places: Vec<_> = parts.iter().map(|part| (part.start, part.end)).collect();
            assert_eq!(places, expected, "{text}");
        }
    }

    #[test]
    fn settings_choose_what_happens_to_a_request() {
        let exchange = ModelExchange::new(&[("user", "mail ann@a.example")]);
        let removed = ModelExchange::new(&[("user", "mail [personal data removed: email]")]);
        let denied =
            Verdict::deny("personal_data_in_request", "the request has personal data: email");
        for (settings, expected) in [
            (json!({"before_model": "remove"}), Verdict::Rewrite(removed.texts.clone())),
            (json!({"before_model": "deny"}), denied),
            (json!({"before_model": "deny", "kinds": ["iban"]}), Verdict::Allow),
            (json!({"kinds": ["iban"]}), Verdict::Allow),
        ] {
            let exchange = exchange.clone().with_settings(&settings);
            assert_eq!(PersonalGuard::before_model(&exchange), Ok(expected), "{settings}");
        }
        let removed = removed.with_settings(&json!({"before_model": "remove"}));
        assert_eq!(PersonalGuard::before_model(&removed), Ok(Verdict::Allow), "it is idempotent");
    }

    #[test]
    fn settings_choose_what_happens_to_a_call_and_its_reason_names_kinds_alone() {
        let reason = "the arguments have personal data: email, card_number";
        let arguments = json!({"to": ["ann@a.example", {"n": 4_111_111_111_111_111_u64}]});
        for (before, expected) in [
            ("allow", Verdict::Allow),
            ("ask", Verdict::ask(reason)),
            ("deny", Verdict::deny("personal_data_in_arguments", reason)),
        ] {
            let settings = json!({"before": before, "kinds": ["email", "card_number"]});
            let call = Call::new("mail-send", &arguments).with_settings(&settings);
            assert_eq!(PersonalGuard::before(&call), Ok(expected));
            let plain = Call::new("mail-send", &json!({"n": 4})).with_settings(&settings);
            assert_eq!(PersonalGuard::before(&plain), Ok(Verdict::Allow));
        }
        let call = Call::new("mail-send", &arguments);
        assert_eq!(PersonalGuard::before(&call), Ok(Verdict::Allow), "it is the default");
    }
}
