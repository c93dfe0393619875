//! Compares a manifest with the table of keys.

use serde_json::{Map, Value};

use crate::fault::{Fault, Faults};
use crate::form::{ANY, Form, Read, is_name, shown, url_defect};
use crate::key_path::KeyPath;
use crate::keys::{EFFECTS, Key, KeyKind, MANIFEST};

/// Maximum number of requests of one kind: an operator decides about each.
const MAX_NAMED: usize = 32;
/// Maximum number of elements of a list, as in the schema: the rules compare them with each other, which is 65,000 pairs.
const MAX_ELEMENTS: usize = 256;
/// Maximum number of tools: no catalog takes more from one source.
const MAX_TABLES: usize = 2_000;
/// Maximum length of the name of a request, in bytes, as in the schema: an operator writes it into the configuration, and
/// the cost of a suggestion is the product of two lengths.
const MAX_NAME: usize = 64;
/// Least similarity of a suggested key (Jaro-Winkler, 0 to 1).
const SIMILAR: f64 = 0.75;

/// Compares a manifest with the table of keys. Returns whether every list and table is within its
/// bound.
pub(crate) fn check(document: &Value, read: Read<'_>, faults: &mut Faults) -> bool {
    let mut walk = Walk { read, faults, is_bounded: true };
    walk.value(&KeyPath::default(), &KeyKind::Table(MANIFEST), document);
    walk.is_bounded
}

struct Walk<'a> {
    read: Read<'a>,
    faults: &'a mut Faults,
    is_bounded: bool,
}

impl Walk<'_> {
    fn value(&mut self, key: &KeyPath, kind: &KeyKind, value: &Value) {
        match (kind, value) {
            _ if self.faults.is_full() => {}
            (KeyKind::Text(form), Value::String(text)) if form.fits(text) => {
                if let Err(problem) = (self.read)(*form, text) {
                    self.fault(key, problem);
                }
            }
            (KeyKind::OneOf(words), Value::String(word)) => self.word(key, words, word),
            (KeyKind::Effect, Value::String(effect)) => {
                // The rules know which names there are.
                let kind = effect.split_once('.').map_or(effect.as_str(), |(kind, _)| kind);
                self.word(key, &EFFECTS, kind);
            }
            (KeyKind::Count, Value::Number(number)) if number.is_u64() => {}
            (KeyKind::Flag, Value::Bool(_)) | (KeyKind::Free, Value::Object(_)) => {}
            (KeyKind::List(of), Value::Array(elements)) => {
                if self.is_few(key, elements.len(), MAX_ELEMENTS) {
                    for (index, element) in elements.iter().enumerate() {
                        self.value(&key.element(index), of, element);
                    }
                }
            }
            (KeyKind::Tables(keys), Value::Array(tables)) => {
                if self.is_few(key, tables.len(), MAX_TABLES) {
                    for (index, table) in tables.iter().enumerate() {
                        self.value(&key.element(index), &KeyKind::Table(keys), table);
                    }
                }
            }
            (KeyKind::Table(keys), Value::Object(members)) => self.table(key, keys, members),
            (KeyKind::Named { keys, has_wildcard }, Value::Object(members)) => {
                self.named(key, keys, *has_wildcard, members);
            }
            (KeyKind::Text(Form::Url), Value::String(url)) => {
                let found = shown(url);
                let expected = expected(kind);
                self.fault(key, format!("found {found}, {}, expected {expected}", url_defect(url)));
            }
            _ => self.fault(key, unlike(value, &expected(kind))),
        }
    }

    /// Returns whether a list or table is within its bound; records a fault if it is not.
    fn is_few(&mut self, key: &KeyPath, found: usize, limit: usize) -> bool {
        let is_few = found <= limit;
        if !is_few {
            self.is_bounded = false;
            self.fault(key, format!("found {found} of them, expected at most {limit}"));
        }
        is_few
    }

    fn fault(&mut self, key: &KeyPath, problem: String) {
        self.faults.push(Fault::new(key.clone(), problem));
    }

    fn word(&mut self, key: &KeyPath, words: &[&str], word: &str) {
        if !words.contains(&word) {
            let problem = match nearest(word, words) {
                Some(near) if words.len() > 1 => {
                    format!(
                        "found {}; did you mean {near:?}? Valid: {}",
                        shown(word),
                        any_of(words)
                    )
                }
                _ => format!("found {}, expected {}", shown(word), any_of(words)),
            };
            self.fault(key, problem);
        }
    }

    fn table(&mut self, key: &KeyPath, keys: &[Key], members: &Map<String, Value>) {
        for (name, value) in members {
            let member = key.member(name);
            match keys.iter().find(|known| known.name == name) {
                Some(known) => self.value(&member, &known.kind, value),
                None if self.faults.is_full() => return,
                None => self.faults.push(Fault::of_name(member, unknown(name, keys))),
            }
        }
        for missing in keys.iter().filter(|key| key.is_required && !members.contains_key(key.name))
        {
            let problem = format!("is missing, expected {}", expected(&missing.kind));
            self.fault(&key.member(missing.name), problem);
        }
    }

    fn named(
        &mut self,
        key: &KeyPath,
        keys: &'static [Key],
        has_wildcard: bool,
        members: &Map<String, Value>,
    ) {
        if !self.is_few(key, members.len(), MAX_NAMED) {
            return;
        }
        for (name, value) in members {
            let member = key.member(name);
            if !value.is_object() {
                // The name of the request was left out: `[request.http]` with a `url`.
                let problem = unlike(value, &format!("a table: [{key}.NAME]"));
                self.fault(&member, problem);
                continue;
            }
            let is_fit = is_name(name, MAX_NAME) || (has_wildcard && name == ANY);
            if !is_fit {
                let wildcard = if has_wildcard { ", or \"*\"" } else { "" };
                let problem = format!(
                    "found the name {}, expected 1 to {MAX_NAME} letters, digits, `_` or `-`{wildcard}",
                    shown(name)
                );
                self.faults.push(Fault::of_name(member.clone(), problem));
            }
            self.value(&member, &KeyKind::Table(keys), value);
        }
    }
}

fn expected(kind: &KeyKind) -> String {
    match kind {
        KeyKind::Text(form) => form.expected().to_owned(),
        KeyKind::OneOf(words) => any_of(words),
        KeyKind::Effect => any_of(&EFFECTS),
        KeyKind::Flag => "true or false".to_owned(),
        KeyKind::Count => "a whole number from 0".to_owned(),
        KeyKind::List(_) => "a list".to_owned(),
        KeyKind::Tables(_) => "a list of tables".to_owned(),
        KeyKind::Free | KeyKind::Table(_) | KeyKind::Named { .. } => "a table".to_owned(),
    }
}

fn unlike(value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => shown(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
    };
    format!("found {found}, expected {expected}")
}

fn unknown(name: &str, keys: &[Key]) -> String {
    let names: Vec<_> = keys.iter().map(|key| key.name).collect();
    match nearest(name, &names) {
        Some(near) => format!("unknown key; did you mean {near:?}?"),
        None => format!("unknown key; valid here are {}", names.join(", ")),
    }
}

fn any_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Returns the most similar of the known names; `None` if none is similar. Case and punctuation do
/// not count.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // The cost of a comparison is the product of the two lengths.
    let name = Some(name).filter(|name| name.len() <= MAX_NAME).map(plain)?;
    let compared = known.iter().map(|known| (strsim::jaro_winkler(&name, &plain(known)), *known));
    let near = compared.filter(|(similarity, _)| *similarity >= SIMILAR);
    near.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
