//! Finds tools by words: the result of `searchTools`.
//!
//! Tools are ranked by BM25F over their names, their servers' names and their descriptions. Counts
//! are those of the tools in view, so a result tells nothing of other tools. Words are split when a
//! stub is rendered; a search reads one short list of each tool.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    names::{Namespace, ScriptFunction},
    stub::{ShownTool, Stub},
    stubs, terms,
    terms::{PLACES, SearchTerms, TermPlace},
    text,
};

/// Results of a search without `limit`.
pub(super) const DEFAULT_LIMIT: usize = 10;
/// Maximum number of results, which the schema of the tool states: as many tools of 800 bytes fill [`MAX_RESULTS`].
pub(super) const MAX_LIMIT: usize = 30;
/// Maximum number of different words of a query. Each is looked up in every tool of the view, on a
/// thread that serves requests.
const MAX_WORDS: usize = 16;
/// Maximum bytes of all results: about 6,000 tokens, as much as a script's output. The classes of one
/// tool alone can take as many.
const MAX_RESULTS: usize = 24 << 10;

/// Saturation of repeated terms.
const K1: f64 = 1.2;
/// Weight of the length of a field.
const B: f64 = 0.75;
/// Weights of the fields, in the order of [`TermPlace`].
const WEIGHTS: [f64; PLACES] = [3.0, 1.5, 1.0];

/// All tools of a view, ready for searches.
pub(super) struct ToolIndex {
    entries: Vec<IndexEntry>,
}

struct IndexEntry {
    namespace: usize,
    function: usize,
    stub: Arc<Stub>,
}

/// A tool that was found.
pub(super) struct SearchHit<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) function: &'a ScriptFunction,
}

/// Result of a search: the best tools, and the number of all that match.
pub(super) struct SearchHits<'a> {
    pub(super) best: Vec<SearchHit<'a>>,
    pub(super) total: usize,
}

impl ToolIndex {
    /// Creates the index of all tools of a view. `stubs` has those of each namespace, in the same
    /// order.
    pub(super) fn new(stubs: Vec<Vec<Arc<Stub>>>) -> Self {
        let entries = stubs.into_iter().enumerate().flat_map(|(namespace, stubs)| {
            let stubs = stubs.into_iter().enumerate();
            stubs.map(move |(function, stub)| IndexEntry { namespace, function, stub })
        });
        Self { entries: entries.collect() }
    }

    /// Finds the tools that match `query` best, those of `only` if it is given. Of equal ones, the
    /// first by server and name is first.
    pub(super) fn search<'a>(
        &self,
        namespaces: &'a [Namespace],
        query: &str,
        only: Option<&Namespace>,
        limit: usize,
    ) -> SearchHits<'a> {
        let entries = self.entries.iter().filter(|entry| {
            only.is_none_or(|only| std::ptr::eq(only, &raw const namespaces[entry.namespace]))
        });
        let entries: Vec<_> = entries.collect();
        let terms: Vec<_> = entries.iter().map(|entry| &entry.stub.terms).collect();
        let scores = scores(&terms, query);
        let mut found: Vec<_> =
            entries.into_iter().zip(scores).filter(|(_, score)| *score > 0.0).collect();
        // The sort is stable, and the entries are sorted by server and name.
        found.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let total = found.len();
        let best = found.into_iter().take(limit).map(|(entry, _)| {
            let namespace = &namespaces[entry.namespace];
            SearchHit { namespace, function: &namespace.functions[entry.function] }
        });
        SearchHits { best: best.collect(), total }
    }
}

/// Returns the score of each tool: the sum over the words of the query. 0 if none of them is found.
fn scores(tools: &[&SearchTerms], query: &str) -> Vec<f64> {
    let averages = averages(tools);
    let mut words: Vec<u64> = Vec::new();
    for word in terms::terms(query).iter().map(|word| terms::digest(word)) {
        if words.len() < MAX_WORDS && !words.contains(&word) {
            words.push(word);
        }
    }
    let mut scores = vec![0.0; tools.len()];
    for word in words {
        let counts: Vec<_> = tools.iter().map(|terms| terms.count(word)).collect();
        let with_word = counts.iter().flatten().count();
        let rarity = rarity(tools.len(), with_word);
        for ((score, count), terms) in scores.iter_mut().zip(counts).zip(tools) {
            let Some(count) = count else { continue };
            let frequency = frequency(count, terms.lengths(), averages);
            *score += rarity * frequency / (K1 + frequency);
        }
    }
    scores
}

/// Returns the average number of terms of each field.
fn averages(tools: &[&SearchTerms]) -> [f64; PLACES] {
    let mut sums = [0_u32; PLACES];
    for terms in tools {
        for (sum, length) in sums.iter_mut().zip(terms.lengths()) {
            *sum = sum.saturating_add(length.into());
        }
    }
    sums.map(|sum| f64::from(sum) / number(tools.len()).max(1.0))
}

/// Returns the weighted frequency of a term in all fields of one tool.
fn frequency(count: [u8; PLACES], lengths: [u8; PLACES], averages: [f64; PLACES]) -> f64 {
    let places = [TermPlace::Name, TermPlace::Server, TermPlace::Description].into_iter();
    let weighted = places.map(|place| {
        let at = place as usize;
        let relative = f64::from(lengths[at]) / averages[at].max(1.0);
        WEIGHTS[at] * f64::from(count[at]) / (1.0 - B + B * relative)
    });
    weighted.sum()
}

/// Returns the weight of a term that `with_word` of `all` tools have.
fn rarity(all: usize, with_word: usize) -> f64 {
    let all = number(all);
    let with_word = number(with_word);
    ((all - with_word + 0.5) / (with_word + 0.5)).ln_1p()
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

/// Renders found tools as their signatures, grouped by server, the best first. `shown` has the stubs
/// of `hits` in their order.
pub(super) fn render(
    query: &str,
    hits: &SearchHits<'_>,
    shown: &[ShownTool],
    all: usize,
) -> String {
    let query = text::echo(query);
    if hits.best.is_empty() {
        return format!("No tool of {all} matches '{query}'. Try other words, or listToolFiles.");
    }
    // Servers in the order of their best tools.
    let mut order: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, hit) in hits.best.iter().enumerate() {
        let server = hit.namespace.client.as_str();
        if !order.contains(&server) {
            order.push(server);
        }
        groups.entry(server).or_default().push(at);
    }
    let mut lines = vec![
        format!(
            "# {} of {all} tools match '{query}'; shown: the best {}",
            hits.total,
            hits.best.len()
        ),
        "# Usage: server.tool(name=value) - keyword arguments, or one dict. A TypedDict is a dict: r[\"key\"]"
            .to_owned(),
    ];
    let mut room = MAX_RESULTS;
    let mut left_out = 0;
    for server in order {
        let first = &hits.best[groups[server][0]];
        lines.extend([String::new(), stubs::title(first.namespace)]);
        lines.extend(stubs::marker(first.function));
        for at in &groups[server] {
            let tool = stubs::lines(hits.best[*at].function, &shown[*at]);
            let bytes = tool.iter().map(|line| line.len() + 1).sum();
            match room.checked_sub(bytes) {
                Some(left) => {
                    room = left;
                    lines.extend(tool);
                }
                None => left_out += 1,
            }
        }
    }
    if left_out > 0 {
        lines.push(format!("\n# Not shown: {left_out}; ask for fewer, or read their files"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(tools: &[[&str; PLACES]], query: &str) -> Vec<String> {
        let terms: Vec<_> = tools.iter().map(|texts| SearchTerms::new(*texts)).collect();
        let scores = scores(&terms.iter().collect::<Vec<_>>(), query);
        let mut order: Vec<_> =
            scores.iter().enumerate().filter(|(_, score)| **score > 0.0).collect();
        order.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        order.into_iter().map(|(at, _)| tools[at][..2].join("/")).collect()
    }

    const TOOLS: [[&str; PLACES]; 6] = [
        ["create_issue", "github", "Creates an issue in a repository"],
        ["listIssues", "github", "Lists the issues of a repository, newest first"],
        ["create_ticket", "jira", "Creates an issue in a project"],
        ["post_message", "slack", "Posts a message to a channel, for example about an issue"],
        ["delete_object", "s3", "Deletes an object of a bucket"],
        ["search", "github", "Searches code"],
    ];

    #[test]
    fn a_word_in_a_name_counts_more_than_in_a_description() {
        insta::assert_snapshot!(ranked(&TOOLS, "create issue").join(" "), @"create_issue/github create_ticket/jira listIssues/github post_message/slack");
        insta::assert_snapshot!(ranked(&TOOLS, "searching").join(" "), @"search/github");
        insta::assert_snapshot!(ranked(&TOOLS, "github issues").join(" "), @"create_issue/github listIssues/github search/github create_ticket/jira post_message/slack");
        assert!(ranked(&TOOLS, "weather").is_empty() && ranked(&TOOLS, "").is_empty());
    }

    #[test]
    fn repeating_a_word_gains_little_and_a_long_text_loses() {
        let spam = "issue ".repeat(60);
        let tools = [["spam", "evil", &spam], ["create_issue", "github", "Creates an issue"]];
        assert_eq!(ranked(&tools, "issue"), ["create_issue/github", "spam/evil"]);
    }

    #[test]
    fn a_query_has_a_largest_number_of_words() {
        let last = word(MAX_WORDS - 1);
        let tools = [[last.as_str(), "a", ""], ["other", "b", ""]];
        let words: Vec<_> = (0..MAX_WORDS).map(word).collect();
        assert_eq!(ranked(&tools, &words.join(" ")).len(), 1);
        let others: Vec<_> = (0..MAX_WORDS).map(|n| word(n + 100)).collect();
        let beyond = format!("{} {last}", others.join(" "));
        assert!(ranked(&tools, &beyond).is_empty());
    }

    fn word(n: usize) -> String {
        format!("w{n}x")
    }
}
