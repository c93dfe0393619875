//! Wider requests for any host. Such a request stands for the operator's rules that no request with a
//! host of its own contains. So it grows, without a change of its own, where another request goes or
//! becomes narrower.

use super::{Grant, Manifest, Request, Widening, secrets_for};
use crate::{manifest::ANY, rights::of_any_host};
use airlock_egress::Rule;
use airlock_strings::visible_line;

/// Text for the accepted rights of a request for any host that stood for no rule.
const NO_RULE: &str = "none of your rules";

/// Returns the accepted requests for any host that stand for more of the operator's rules than
/// before. `accepted` are lines of the lock file.
pub(super) fn widened(accepted: &[String], manifest: &Manifest, grant: &Grant) -> Vec<Widening> {
    let was = of_any_host(grant, &accepted_rules(accepted));
    let named = manifest.request.http.values().filter_map(|request| request.rule().ok().flatten());
    let is = of_any_host(grant, &named.collect::<Vec<_>>());
    let new: Vec<_> = is.into_iter().filter(|rule| !was.contains(rule)).collect();
    if new.is_empty() {
        return Vec::new();
    }
    // One that was not accepted as it is, is wider in itself.
    let accepted = manifest.request.all().filter(|request| {
        let is_any = matches!(request, Request::Http(_, http) if http.is_any_host());
        is_any && request.accepted(accepted).contains(&ANY)
    });
    let widened = accepted.map(|request| Widening {
        request: visible_line(&request.to_string()),
        was: if was.is_empty() { vec![NO_RULE.to_owned()] } else { lines(&was) },
        is: lines(&new),
        secrets: secrets_for(request, manifest, grant),
    });
    widened.collect()
}

fn lines(rules: &[&Rule]) -> Vec<String> {
    rules.iter().map(|rule| visible_line(&rule.to_string())).collect()
}

/// Returns the rules of the accepted requests that had a host of their own.
fn accepted_rules(accepted: &[String]) -> Vec<Rule> {
    let http = accepted.iter().filter(|line| line.starts_with("http."));
    http.filter_map(|line| line.split_once(' ')?.1.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::widening::tests::{secret_grant, widened};

    /// Returns a build with two requests for any host, one of which is the audience of a secret, and
    /// a request with this host.
    fn build(named: Option<&str>) -> Value {
        let mut build = json!({
            "http": {"any": http("*"), "other": http("*")},
            "secret": {"token": {"inject": {"header": "x-key"}, "audience": ["any"], "reason": "r"}},
        });
        if let Some(url) = named {
            build["http"]["a"] = http(url);
        }
        build
    }

    fn http(url: &str) -> Value {
        json!({"url": url, "reason": "r"})
    }

    #[test]
    fn a_rule_whose_own_request_is_gone_makes_the_requests_for_any_host_wider() {
        let grant = secret_grant(&["https://a.example GET /v1/**", "https://b.example GET /**"]);
        let was = build(Some("https://a.example"));
        insta::assert_snapshot!(widened(&was, &build(None), &grant), @"
        granted: http.any now reaches https://a.example GET /v1/**, with secret.token (accepted: https://b.example GET /**)
        granted: http.other now reaches https://a.example GET /v1/** (accepted: https://b.example GET /**)
        ");
        let grant = secret_grant(&["https://a.example GET /v1/**"]);
        insta::assert_snapshot!(widened(&was, &build(None), &grant), @"
        granted: http.any now reaches https://a.example GET /v1/**, with secret.token (accepted: none of your rules)
        granted: http.other now reaches https://a.example GET /v1/** (accepted: none of your rules)
        ");
    }

    #[test]
    fn a_rule_whose_own_request_became_narrower_or_moved_counts_and_one_that_is_still_within_does_not()
     {
        let grant = secret_grant(&["https://a.example GET /v1/**"]);
        let was = build(Some("https://a.example"));
        for (named, is_wider) in [
            ("https://a.example", false),
            ("https://a.example/v1", false),
            ("https://a.example/v2", true),
            ("https://c.example", true),
        ] {
            let found = widened(&was, &build(Some(named)), &grant);
            assert_eq!(
                found.contains("http.any now reaches https://a.example GET"),
                is_wider,
                "{found}"
            );
        }
        let new = widened(&build(None), &was, &grant);
        assert!(!new.contains("http.any") && !new.contains("http.other"), "{new}");
        assert_eq!(widened(&build(None), &build(None), &grant), "");
    }

    #[test]
    fn a_request_for_any_host_that_is_new_is_reported_once() {
        let grant = secret_grant(&["https://a.example GET /v1/**"]);
        let mut was = build(Some("https://a.example"));
        was["http"].as_object_mut().expect("an object").remove("other");
        let found = widened(&was, &build(None), &grant);
        assert_eq!(found.matches("http.other").count(), 1, "{found}");
        assert!(
            found.contains("http.other now reaches * (it was not requested before)"),
            "{found}"
        );
    }
}
