//! Prometheus' text format, as a gateway writes it, and quantiles of histograms.

use std::collections::BTreeMap;

/// The metrics of a gateway.
#[derive(Debug, Default)]
pub(super) struct Metrics(Vec<Series>);

/// One line of the text.
#[derive(Debug)]
pub(super) struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Series {
    /// Returns the value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// Parses a line; `None` if it is not one of a metric.
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let mut labels = BTreeMap::new();
        let value = match rest.strip_prefix('{') {
            Some(rest) => labelled(rest, &mut labels)?,
            None => rest,
        };
        let value = value.split_whitespace().next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), labels, value })
    }
}

/// Reads labels up to the closing brace. Returns the text behind it.
fn labelled<'t>(mut rest: &'t str, labels: &mut BTreeMap<String, String>) -> Option<&'t str> {
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some(behind);
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let end = closing_quote(quoted)?;
        labels.insert(name.trim_start_matches(',').to_owned(), unescaped(&quoted[..end]));
        rest = &quoted[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// Returns the place of the first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => {}
            },
            c => plain.push(c),
        }
    }
    plain
}

impl Metrics {
    /// Parses a text. Comments and lines that are not of a metric are left out.
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(Series::parse).collect())
    }

    /// Returns the series with a name.
    pub(super) fn named<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Series> {
        self.0.iter().filter(move |series| series.name == name)
    }

    /// Returns the sum of all series with a name; `None` if there is none.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        let values: Vec<_> = self.named(name).map(Series::value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// Returns the histograms with a name, by the value of a label.
    pub(super) fn histograms(&self, name: &str, label: &str) -> BTreeMap<String, Histogram> {
        let mut histograms = BTreeMap::<String, Histogram>::new();
        for series in self.named(&format!("{name}_bucket")) {
            let bound = match series.label("le") {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().unwrap_or(f64::INFINITY),
            };
            let histogram = histograms.entry(series.label(label).to_owned()).or_default();
            histogram.add(bound, series.value);
        }
        histograms
    }
}

/// A histogram: the number of values up to each bound.
#[derive(Debug, Default, Clone)]
pub(super) struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    /// Adds a bucket. Buckets with the same bound, of other labels, are added up.
    fn add(&mut self, bound: f64, count: f64) {
        match self.0.binary_search_by(|(known, _)| known.total_cmp(&bound)) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (bound, count)),
        }
    }

    /// Returns the number of values.
    pub(super) fn count(&self) -> f64 {
        self.0.last().map(|(_, count)| *count).unwrap_or_default()
    }

    /// Returns a quantile by linear interpolation in its bucket, as Prometheus does; of values beyond the last bound,
    /// that bound. `None` without values.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = self.count() * quantile;
        if rank <= 0.0 {
            return None;
        }
        let at = self.0.iter().position(|(_, count)| *count >= rank)?;
        let (bound, count) = self.0[at];
        let before = at.checked_sub(1).map(|before| self.0[before]);
        let (lower, counted) = before.unwrap_or_default();
        if bound.is_infinite() {
            return Some(lower);
        }
        let share = (rank - counted) / (count - counted);
        Some(lower + (bound - lower) * share)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "the numbers have no fraction in binary")]

    use super::*;

    const TEXT: &str = "# HELP a_total Text.\n# TYPE a_total counter\n\
        a_total{client=\"up\",tool=\"b \\\"c\\\\\"} 3\na_total{client=\"up\"} 4 1700000000\n\
        plain 1.5\nbroken{x=\"1} 2\nnothing\n";

    #[test]
    fn lines_are_read_with_escaped_labels_and_others_are_left_out() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(metrics.sum("a_total"), Some(7.0));
        assert_eq!(metrics.sum("plain"), Some(1.5));
        for absent in ["broken", "nothing", "a"] {
            assert_eq!(metrics.sum(absent), None, "{absent}");
        }
        let first = metrics.named("a_total").next().expect("a series");
        assert_eq!((first.label("client"), first.label("tool")), ("up", "b \"c\\"));
        assert_eq!(first.label("other"), "");
    }

    #[test]
    fn quantiles_are_interpolated_and_bounded_by_the_last_bound() {
        let text = "d_bucket{c=\"a\",le=\"1.0\"} 2\nd_bucket{c=\"a\",le=\"2.0\"} 4\n\
                    d_bucket{c=\"a\",le=\"+Inf\"} 8\nd_bucket{c=\"b\",le=\"+Inf\"} 0\n";
        let histograms = Metrics::parse(text).histograms("d", "c");
        let a = &histograms["a"];
        assert_eq!(a.count(), 8.0);
        assert_eq!(a.quantile(0.25), Some(1.0));
        assert_eq!(a.quantile(0.125), Some(0.5));
        assert_eq!(a.quantile(0.375), Some(1.5));
        assert_eq!(a.quantile(0.95), Some(2.0));
        assert_eq!(histograms["b"].quantile(0.5), None);
    }
}
