//! Compares a request with the lines of the lock file that were accepted: a request that the
//! accepted lines do not visibly include is a wider one.

use std::collections::BTreeSet;

use serde::{
    Deserialize as _,
    de::{IntoDeserializer, value},
};

use super::{
    ANY, Request,
    request::{CACHE, REVEALED},
};
use airlock_core::units::Size;
use airlock_egress::Rule;

impl Request<'_> {
    /// Returns the rights in lines of the lock file about this request.
    pub(crate) fn accepted(self, lines: &[String]) -> Vec<&str> {
        let own = rights_of(lines, &self.to_string());
        // As in the grants, the request for any directory counts only where none names this one.
        if own.is_empty() && matches!(self, Self::Files(..)) {
            return rights_of(lines, &format!("files.{ANY}"));
        }
        own
    }

    /// Returns whether the accepted right includes another one of this request. A text that cannot
    /// be read includes only itself.
    pub(crate) fn includes(self, accepted: &str, right: &str) -> bool {
        accepted == right
            || match self {
                Self::Http(..) => includes_rule(accepted, right),
                Self::Secret(..) => SecretUse::parse(accepted).includes(&SecretUse::parse(right)),
                Self::Kv(..) => match (accepted.strip_suffix(CACHE), right.strip_suffix(CACHE)) {
                    (Some(accepted), right_size) => {
                        includes_space(accepted, right_size.unwrap_or(right))
                    }
                    (None, None) => includes_space(accepted, right),
                    (None, Some(_)) => false,
                },
                Self::Files(..) | Self::Scratch(_) => includes_space(accepted, right),
                Self::Slot(..) | Self::Tools(_) | Self::Clocks(_) => false,
            }
    }
}

/// Returns the accepted rights of one request.
fn rights_of<'l>(lines: &'l [String], request: &str) -> Vec<&'l str> {
    let split = lines.iter().map(|line| line.split_once(' ').unwrap_or((line.as_str(), "")));
    split.filter(|(key, _)| *key == request).map(|(_, right)| right).collect()
}

fn includes_rule(accepted: &str, right: &str) -> bool {
    let Ok(right) = right.parse::<Rule>() else { return false };
    accepted == ANY || accepted.parse::<Rule>().is_ok_and(|accepted| accepted.contains(&right))
}

fn includes_space(accepted: &str, right: &str) -> bool {
    match (Space::parse(accepted), Space::parse(right)) {
        (Some(accepted), Some(right)) => accepted.includes(&right),
        _ => false,
    }
}

/// Use of a secret: `in header x-key to api, web and shown to the plugin`.
struct SecretUse<'a> {
    inject: &'a str,
    audience: BTreeSet<&'a str>,
    is_revealed: bool,
}

impl<'a> SecretUse<'a> {
    fn parse(text: &'a str) -> Self {
        let (text, is_revealed) =
            text.strip_suffix(REVEALED).map_or((text, false), |text| (text, true));
        // The last `to ` begins the audience, because no name in it has a space.
        let (inject, audience) = text.trim_end().rsplit_once("to ").unwrap_or((text, ""));
        let names = audience.split(',').map(str::trim).filter(|name| !name.is_empty());
        Self { inject: inject.trim(), audience: names.collect(), is_revealed }
    }

    fn includes(&self, other: &Self) -> bool {
        (other.inject.is_empty() || other.inject == self.inject)
            && self.audience.is_superset(&other.audience)
            && (self.is_revealed || !other.is_revealed)
    }
}

/// Space on disk: `read_write 1GiB 5 files`. An amount that is not stated leaves the quota to the
/// operator.
struct Space {
    may_write: bool,
    bytes: Option<u64>,
    files: Option<u64>,
}

impl Space {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').peekable();
        let may_write = match words.peek() {
            Some(&"read_only") => words.next().is_none(),
            Some(&"read_write") => words.next().is_some(),
            _ => true,
        };
        let mut space = Self { may_write, bytes: None, files: None };
        while let Some(word) = words.next() {
            match words.next_if_eq(&"files") {
                Some(_) => space.files = Some(word.parse().ok()?),
                None => space.bytes = Some(size(word)?),
            }
        }
        Some(space)
    }

    fn includes(&self, other: &Self) -> bool {
        // A quota limits nothing that is only read.
        !other.may_write
            || (self.may_write
                && is_within(self.bytes, other.bytes)
                && is_within(self.files, other.files))
    }
}

fn is_within(most: Option<u64>, other: Option<u64>) -> bool {
    most.is_none_or(|most| other.is_some_and(|other| other <= most))
}

fn size(text: &str) -> Option<u64> {
    let text = IntoDeserializer::<value::Error>::into_deserializer(text);
    Size::deserialize(text).ok().map(|size| size.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{MANIFEST_SCHEMA, Manifest};

    /// Returns whether the lock lines of one manifest include every right of another one.
    fn includes(was: &Value, is: &Value) -> bool {
        let was = manifest(was);
        let is = manifest(is);
        let lines: Vec<_> = was.request.all().flat_map(Request::lock_lines).collect();
        is.request.all().all(|request| {
            let accepted = request.accepted(&lines);
            !accepted.is_empty()
                && request
                    .rights()
                    .iter()
                    .all(|right| accepted.iter().any(|accepted| request.includes(accepted, right)))
        })
    }

    fn manifest(request: &Value) -> Manifest {
        let manifest = json!({"schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1", "request": request});
        Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest")
    }

    /// Asserts that the second of two requests is narrower than the first.
    fn narrows(wide: &Value, narrow: &Value) {
        assert!(includes(wide, wide) && includes(narrow, narrow), "{wide} {narrow}");
        assert!(includes(wide, narrow), "{narrow} is not within {wide}");
        assert!(!includes(narrow, wide), "{wide} is within {narrow}");
    }

    #[test]
    fn a_destination_is_compared_by_its_rule() {
        let wide = api(&json!({"url": "https://api.example.com", "methods": ["GET", "POST"]}));
        for narrow in [
            json!({"url": "https://api.example.com", "methods": ["POST"]}),
            json!({"url": "https://api.example.com/v1", "methods": ["GET"]}),
        ] {
            narrows(&wide, &api(&narrow));
        }
        narrows(&api(&json!({"url": "*"})), &wide);
        for moved in ["https://api.example.org", "https://api.example.com:8443"] {
            let moved = api(&json!({"url": moved}));
            assert!(!includes(&wide, &moved) && !includes(&moved, &wide), "{moved}");
        }
        let public = api(&json!({"url": "https://api.example.com", "private": false}));
        narrows(&api(&json!({"url": "https://api.example.com", "private": true})), &public);
    }

    fn api(rule: &Value) -> Value {
        let mut rule = rule.clone();
        rule["reason"] = json!("r");
        json!({"http": {"api": rule}})
    }

    #[test]
    fn a_secret_is_compared_by_injection_audience_and_whether_it_is_revealed() {
        let both = json!(["to", "goto"]);
        let key = json!({"header": "x-key", "prefix": "comes to the "});
        narrows(&used(&key, &both), &used(&key, &json!(["goto"])));
        narrows(
            &secret(&json!({"inject": key, "audience": both, "reveal": true})),
            &used(&key, &json!(["to"])),
        );
        narrows(
            &secret(&json!({"inject": key, "audience": both, "reveal": true})),
            &secret(&json!({"reveal": true})),
        );
        for other in
            [json!({"query": "key"}), json!({"header": "x-key"}), json!({"header": "x-other"})]
        {
            assert!(!includes(&used(&key, &both), &used(&other, &both)), "{other}");
        }
    }

    fn secret(secret: &Value) -> Value {
        let to = json!({"url": "https://to.example.com", "reason": "r"});
        let goto = json!({"url": "https://goto.example.com", "reason": "r"});
        let mut request = json!({"http": {"to": to, "goto": goto}, "secret": {"t": secret}});
        request["secret"]["t"]["reason"] = json!("r");
        request
    }

    fn used(inject: &Value, audience: &Value) -> Value {
        secret(&json!({"inject": inject, "audience": audience}))
    }

    #[test]
    fn space_is_compared_by_access_bytes_and_files() {
        let some = data(&json!({"access": "read_write", "max_bytes": "2MiB", "max_files": 5}));
        narrows(&data(&json!({"access": "read_write"})), &some);
        for narrow in [
            json!({"access": "read_write", "max_bytes": "2047KiB", "max_files": 5}),
            json!({"access": "read_write", "max_bytes": "2MiB", "max_files": 4}),
            json!({"access": "read_only"}),
        ] {
            narrows(&some, &data(&narrow));
        }
        assert!(includes(&any("read_write"), &some) && !includes(&any("read_only"), &some));
        assert!(!includes(&some, &any("read_only")));
        narrows(&cache("2KiB"), &cache("1KiB"));
        narrows(&cache("2KiB"), &store("2KiB"));
        assert!(!includes(&store("2KiB"), &cache("1KiB")));
        narrows(&store("1MiB"), &store("1500B"));
        narrows(&scratch(3), &scratch(2));
    }

    fn data(files: &Value) -> Value {
        let mut files = files.clone();
        files["reason"] = json!("r");
        json!({"files": {"data": files}})
    }

    fn any(access: &str) -> Value {
        json!({"files": {"*": {"access": access, "reason": "r"}}})
    }

    fn cache(bytes: &str) -> Value {
        json!({"kv": {"n": {"max_bytes": bytes, "cache": true, "reason": "r"}}})
    }

    fn store(bytes: &str) -> Value {
        json!({"kv": {"n": {"max_bytes": bytes, "reason": "r"}}})
    }

    fn scratch(files: u64) -> Value {
        json!({"scratch": {"max_bytes": "1MiB", "max_files": files, "reason": "r"}})
    }

    #[test]
    fn a_line_that_cannot_be_read_includes_only_itself() {
        let lines = ["http.api anything".to_owned(), "kv.n a lot".to_owned()];
        let requests: crate::Requests = serde_json::from_value(json!({
            "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
            "kv": {"n": {"max_bytes": "1B", "reason": "r"}},
        }))
        .expect("requests");
        for request in requests.all() {
            let accepted = request.accepted(&lines);
            assert!(accepted.len() == 1 && request.includes(accepted[0], accepted[0]));
            assert!(!request.includes(accepted[0], &request.rights()[0]), "{request}");
        }
    }
}
