//! The requests in the `plugin.toml` of the crate under test.

use std::env;
use std::path::Path;

use serde_json::Value;

/// Requests of the crate under test.
pub(super) struct Requested(Value);

impl Requested {
    /// Reads the `plugin.toml` of the crate under test; `None` if it has none.
    ///
    /// # Panics
    ///
    /// Panics if it is not TOML.
    pub(super) fn of_crate() -> Option<Self> {
        let directory = env::var_os("CARGO_MANIFEST_DIR")?;
        let source = airlock_manifest::read(Path::new(&directory));
        let source = source.unwrap_or_else(|bad| panic!("{}", bad.lines().join("\n")));
        source.map(|source| Self(source.document))
    }

    /// Panics unless the table `[request.KIND.NAME]` exists; `what` the test declares.
    pub(super) fn expect(&self, kind: &str, name: &str, what: &str) {
        if self.0["request"][kind].get(name).is_none() {
            missing(&format!("the {what} {name:?}"), &format!("request.{kind}.{name}"));
        }
    }

    pub(super) fn expect_tool(&self, name: &str) {
        let mut called = self.0["request"]["tools"]["call"].as_array().into_iter().flatten();
        if !called.any(|tool| tool == name) {
            let kind = if name.contains('-') { "tools" } else { "slot" };
            if kind == "tools" {
                missing(&format!("the tool {name:?}"), "request.tools");
            }
            self.expect(kind, name, "tool");
        }
    }

    pub(super) fn expect_config(&self) {
        if self.0.get("config").is_none() {
            missing("a configuration", "config");
        }
    }

    pub(super) fn expect_http(&self) {
        if self.urls().next().is_none() {
            missing("HTTP", "request.http.NAME");
        }
    }

    /// Returns whether a URL has the scheme and the host of a request. The mock decides no more.
    pub(super) fn may_reach(&self, url: &str) -> bool {
        let Some((scheme, host)) = origin(url) else { return false };
        self.urls().any(|requested| match origin(requested) {
            Some((own, name)) => {
                let is_below = name.strip_prefix('*').is_some_and(|parent| host.ends_with(parent));
                own == scheme && (name == host || is_below)
            }
            None => requested == "*",
        })
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        let requests = self.0["request"]["http"].as_object().into_iter().flatten();
        requests.filter_map(|(_, http)| http["url"].as_str())
    }
}

/// Returns the scheme of a URL, and its host with the port, in lower case.
fn origin(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    Some((scheme.to_ascii_lowercase(), host.to_ascii_lowercase()))
}

fn missing(what: &str, table: &str) -> ! {
    panic!(
        "the test's host has {what}, which plugin.toml does not request; write [{table}], or remove \
         it from the test"
    );
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_requested_is_refused_with_the_table_to_write() {
        assert_eq!(refused(&json!({ "kv": { "seen": {} } }), expect_store), None);
        insta::assert_snapshot!(
            refused(&json!({ "kv": { "other": {} } }), expect_store).expect("it is refused"),
            @r#"the test's host has the store "seen", which plugin.toml does not request; write [request.kv.seen], or remove it from the test"#
        );
        assert_eq!(refused(&json!({ "slot": { "search": {} } }), expect_slot), None);
        let no_slot = refused(&json!({}), expect_slot).expect("it is refused");
        assert!(no_slot.contains("[request.slot.search]"));
        let tools = json!({ "tools": { "call": ["web-search"] } });
        assert_eq!(refused(&tools, expect_full_name), None);
        let no_tool = refused(&json!({}), expect_full_name).expect("it is refused");
        assert!(no_tool.contains("[request.tools]"));
    }

    fn refused(request: &Value, expect: fn(&Requested)) -> Option<String> {
        let requested = Requested(json!({ "request": request }));
        let panic = catch_unwind(move || expect(&requested)).err()?;
        panic.downcast_ref::<String>().cloned()
    }

    fn expect_store(requested: &Requested) {
        requested.expect("kv", "seen", "store");
    }

    fn expect_slot(requested: &Requested) {
        requested.expect_tool("search");
    }

    fn expect_full_name(requested: &Requested) {
        requested.expect_tool("web-search");
    }

    #[test]
    fn a_request_reaches_the_hosts_that_are_requested() {
        for (url, reached, other) in [
            ("https://a.example", "https://A.example/x?y", "https://b.example/"),
            ("https://a.example/v1", "https://a.example", "http://a.example/v1"),
            ("https://*.example", "https://b.a.example/", "https://example/"),
            ("http://a:81", "http://a:81/", "http://a/"),
        ] {
            assert!(requested(url).may_reach(reached), "{url} {reached}");
            assert!(!requested(url).may_reach(other), "{url} {other}");
        }
        assert!(requested("*").may_reach("https://any.example/"));
    }

    fn requested(url: &str) -> Requested {
        Requested(json!({ "request": { "http": { "a": { "url": url } } } }))
    }
}
