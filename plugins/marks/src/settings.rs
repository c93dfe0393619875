//! Settings of the guard.

use airlock_guest::{Error, guard::parse_settings};
use serde::Deserialize;

use crate::mark::MarkKind;

/// Maximum number of hosts. Each URL in a result is compared with all of them, and the result may have thousands.
const MAX_HOSTS: usize = 64;

/// Settings of the guard: a decision for each kind, and the hosts whose URLs may carry data.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarkSettings {
    /// Tag characters, which spell invisible ASCII.
    pub tags: MarkDecision,
    /// Sequences of characters without width.
    pub zero_width: MarkDecision,
    /// Variation selectors that select nothing.
    pub variation_selectors: MarkDecision,
    /// Overrides of the direction of text, and changes of it that do not end on their line.
    pub bidi: MarkDecision,
    /// Comments of HTML and Markdown.
    pub comments: MarkDecision,
    /// Elements of HTML that a browser does not show.
    pub hidden_elements: MarkDecision,
    /// URLs of images and links that carry data in their query.
    pub data_urls: MarkDecision,
    /// Marks of roles, tools and this gateway.
    pub forged_marks: MarkDecision,
    /// English phrases that order a model.
    pub orders: MarkDecision,
    /// Hosts, and with them their subdomains, whose URLs may carry data.
    pub hosts: Vec<String>,
}

/// Decision about what is found of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkDecision {
    /// A visible note takes its place.
    Mark,
    /// It is removed.
    Remove,
    /// The result is withheld, or the tool is not offered.
    Deny,
    /// Nothing changes. It is not searched.
    Allow,
}

impl Default for MarkSettings {
    fn default() -> Self {
        Self {
            tags: MarkDecision::Mark,
            zero_width: MarkDecision::Mark,
            variation_selectors: MarkDecision::Mark,
            bidi: MarkDecision::Mark,
            comments: MarkDecision::Mark,
            hidden_elements: MarkDecision::Mark,
            data_urls: MarkDecision::Mark,
            forged_marks: MarkDecision::Mark,
            orders: MarkDecision::Allow,
            hosts: Vec::new(),
        }
    }
}

impl MarkSettings {
    /// Fails if the settings cannot be read, name something that is no host, or let the guard find nothing.
    pub fn check(text: &str) -> Result<(), Error> {
        let settings: Self = parse_settings(text)?;
        if MarkKind::ALL.iter().all(|kind| settings.decision(*kind) == MarkDecision::Allow) {
            return Err(Error::invalid_input(
                "every kind is `allow`, so that nothing is found; set one to `mark`, `remove` or `deny`",
            ));
        }
        if settings.hosts.len() > MAX_HOSTS {
            let found = settings.hosts.len();
            let problem = format!("hosts: has {found} names; at most {MAX_HOSTS} are valid");
            return Err(Error::invalid_input(problem));
        }
        for (number, host) in settings.hosts.iter().enumerate() {
            if !is_host(host) {
                return Err(Error::invalid_input(format!(
                    "hosts[{number}]: {host:?} is not the name of a host, such as \"example.com\""
                )));
            }
        }
        Ok(())
    }

    /// Returns the decision about a kind.
    pub fn decision(&self, kind: MarkKind) -> MarkDecision {
        match kind {
            MarkKind::Tags => self.tags,
            MarkKind::ZeroWidth => self.zero_width,
            MarkKind::VariationSelectors => self.variation_selectors,
            MarkKind::Bidi => self.bidi,
            MarkKind::Comments => self.comments,
            MarkKind::HiddenElements => self.hidden_elements,
            MarkKind::DataUrls => self.data_urls,
            MarkKind::ForgedMarks => self.forged_marks,
            MarkKind::Orders => self.orders,
        }
    }
}

fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 253
        && !host.starts_with('.')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_a_setting_by_its_name_and_orders_alone_are_off_by_default() {
        assert_eq!(parse_settings::<MarkSettings>("{}"), Ok(MarkSettings::default()));
        for kind in MarkKind::ALL {
            let by_default = MarkSettings::default().decision(kind);
            assert_eq!(by_default == MarkDecision::Allow, kind == MarkKind::Orders, "{kind:?}");
            let text = serde_json::json!({kind.name(): "deny"}).to_string();
            let settings: MarkSettings = parse_settings(&text).expect("it is a setting");
            assert_eq!(settings.decision(kind), MarkDecision::Deny, "{kind:?}");
        }
    }

    #[test]
    fn an_error_names_the_setting_that_is_not_valid() {
        let allowed = MarkKind::ALL.map(|kind| format!(r#""{}":"allow""#, kind.name())).join(",");
        let allowed = format!("{{{allowed}}}");
        let many = serde_json::json!({"hosts": vec!["a.b"; MAX_HOSTS + 1]}).to_string();
        for (text, start) in [
            (r#"{"tag":"mark"}"#, "tag: unknown field"),
            (r#"{"tags":"ask"}"#, "tags: unknown variant `ask`"),
            (r#"{"hosts":["a.example","https://b.example"]}"#, "hosts[1]: \"https://b.example\""),
            (many.as_str(), "hosts: has 65 names"),
            (allowed.as_str(), "every kind is `allow`"),
        ] {
            let refused = MarkSettings::check(text).expect_err(text);
            assert!(refused.message().starts_with(start), "{refused}");
        }
        assert_eq!(MarkSettings::check(r#"{"hosts":["cdn.example.com"]}"#), Ok(()));
    }
}
