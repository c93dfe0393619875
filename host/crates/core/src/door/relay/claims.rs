//! Templates of one client that may expand to URIs of another one.
//!
//! Servers choose both, and a list has each URI compared with the templates of all other servers.
//! Templates are found by the text that they begin with, so that those of unrelated servers cost
//! next to nothing; the work for all URIs together is bounded.

use std::collections::{BTreeSet, HashMap};

use super::view::{Granted, RelayView};
use crate::tool::{ClientName, Offer, may_expand_to};

/// The most work of one [`Claims`], in units of about 30 ns: 15 ms. Twenty servers with a thousand
/// resources and a scheme each take less. A server chooses how many it has.
const MAX_WORK: u64 = 500_000;
/// Bytes that are compared for one unit of work.
const BYTES_PER_UNIT: usize = 64;

/// Templates of all clients by the text that they begin with.
pub struct Claims<'v> {
    by_head: HashMap<&'v str, Vec<ClaimedTemplate<'v>>>,
    /// Lengths of the texts.
    lengths: BTreeSet<usize>,
    left: u64,
}

struct ClaimedTemplate<'v> {
    client: &'v ClientName,
    granted: &'v Granted,
    text: &'v str,
    expressions: usize,
}

impl<'v> Claims<'v> {
    pub(super) fn new(view: &'v RelayView) -> Self {
        let mut by_head: HashMap<_, Vec<_>> = HashMap::new();
        for (client, granted) in view.clients.iter() {
            for text in granted.offers.templates.iter().map(Offer::key) {
                let expressions = text.matches('{').count();
                let head = text.split_once('{').map_or(text, |(head, _)| head);
                let template = ClaimedTemplate { client, granted, text, expressions };
                by_head.entry(head).or_default().push(template);
            }
        }
        let lengths = by_head.keys().map(|head| head.len()).collect();
        Self { by_head, lengths, left: MAX_WORK }
    }

    /// Returns whether another client than `client` has a template that may expand to a URI, as far
    /// as the caller may read it there. Returns true without a comparison once the work is used up:
    /// the URI is then told apart although it may belong to one client alone.
    pub fn is_claimed_by_other(&mut self, client: &ClientName, uri: &str) -> bool {
        for &length in &self.lengths {
            // A longer text, or one that ends inside a character, is not the beginning of the URI.
            let Some(head) = uri.get(..length) else { continue };
            if !take(&mut self.left, 1 + length / BYTES_PER_UNIT) {
                return true;
            }
            for template in self.by_head.get(head).into_iter().flatten() {
                if !take(&mut self.left, 1) {
                    return true;
                }
                if template.client == client {
                    continue;
                }
                let compared = (template.text.len() + uri.len()) / BYTES_PER_UNIT;
                if !take(&mut self.left, template.expressions + compared) {
                    return true;
                }
                if may_expand_to(template.text, uri) && template.granted.may_read(uri) {
                    return true;
                }
            }
        }
        false
    }
}

/// Takes work. Returns whether it was left; else none is left afterwards.
fn take(left: &mut u64, units: usize) -> bool {
    let rest = left.checked_sub(units as u64);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::{
        door::{Filter, RelaySource},
        tool::{Offers, Policy, UriList, client},
    };

    fn view(clients: &[(&str, &[&str])]) -> RelayView {
        let policy = Policy { resources: UriList::All, ..Policy::default() };
        let offers: BTreeMap<ClientName, Arc<Offers>> = clients
            .iter()
            .map(|(name, templates)| {
                let templates = templates.iter().map(|text| Offer::new(text, "{}")).collect();
                (client(name), Arc::new(Offers { templates, ..Offers::default() }))
            })
            .collect();
        let sources = offers.iter().map(|(client, offers)| RelaySource {
            client,
            policy: &policy,
            offers,
            provider: None,
            is_switched_off: false,
        });
        RelayView::new(sources, &Filter::none(), None)
    }

    #[test]
    fn a_uri_is_claimed_by_the_templates_of_others_alone() {
        let view = view(&[
            ("a", &["a://{x}/end", "ä://{x}"]),
            ("b", &["a://{x}{y}/no", "{any}/tail", "plain://x"]),
        ]);
        let mut claims = view.claims();
        for (owner, uri, expected) in [
            ("b", "a://1/end", true),
            ("a", "a://1/end", false),
            ("a", "a://1/no", true),
            ("a", "z://1/tail", true),
            ("b", "z://1/tail", false),
            ("b", "ä://1", true),
            ("b", "ü://1", false),
            ("a", "plain://x", true),
            ("a", "plain://xy", false),
            ("a", "", false),
        ] {
            assert_eq!(claims.is_claimed_by_other(&client(owner), uri), expected, "{owner} {uri}");
        }
    }

    #[test]
    fn templates_that_begin_otherwise_take_no_work() {
        let one = view(&[("a", &["a://{x}"])]);
        let texts: Vec<_> = (0..100).map(|n| format!("b{n:02}://{{x}}")).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let many = view(&[("a", &["a://{x}"]), ("b", &texts)]);
        assert_eq!(work(&many) - work(&one), 0);
    }

    fn work(view: &RelayView) -> u64 {
        let mut claims = view.claims();
        assert!(!claims.is_claimed_by_other(&client("a"), "a://1"));
        MAX_WORK - claims.left
    }

    #[test]
    fn the_work_is_bounded_and_a_uri_beyond_it_counts_as_claimed() {
        let text = format!("a://{}c", "ab{x}".repeat(16));
        let hostile = view(&[("evil", &[text.as_str(); 100]), ("good", &["g://{x}"])]);
        let mut claims = hostile.claims();
        let uri = format!("a://{}", "ab".repeat(900));
        let good = client("good");
        let compared = (0..2_000).take_while(|_| !claims.is_claimed_by_other(&good, &uri)).count();
        assert!((10..1_000).contains(&compared), "{compared}");
        assert!(claims.is_claimed_by_other(&good, "other://1") && claims.left == 0);
    }

    #[test]
    fn twenty_servers_with_a_thousand_resources_each_are_told_apart_in_full() {
        let names: Vec<_> = (0..20).map(|n| format!("s{n}")).collect();
        let texts: Vec<_> =
            (0..20).map(|n| format!("scheme{}-{n}://{{x}}", "e".repeat(n))).collect();
        let texts: Vec<_> = texts.iter().map(|text| [text.as_str()]).collect();
        let clients: Vec<_> =
            names.iter().zip(&texts).map(|(name, texts)| (name.as_str(), &texts[..])).collect();
        let view = view(&clients);
        let mut claims = view.claims();
        for (n, name) in names.iter().enumerate() {
            for resource in 0..1_000 {
                let uri = format!("scheme{}-{n}://{resource}", "e".repeat(n));
                assert!(!claims.is_claimed_by_other(&client(name), &uri), "{uri}");
            }
        }
    }
}
