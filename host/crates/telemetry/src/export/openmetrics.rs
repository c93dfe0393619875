//! The text format of `OpenMetrics`, as the gateway's registry writes it → families of samples.
//!
//! The registry could also write messages of protobuf. `prometheus-client` generates their types during the build
//! with `protoc`, which no other part of the build needs.
//!
//! The reader takes what the registry has: `HELP`, `TYPE` and `UNIT` before the samples of each family, and no
//! timestamps. What it does not understand it leaves out.

/// Maximum size of a text, in bytes. It has samples of each tool and model that was used, and is in
/// memory together with these samples and the message of them. Of a longer one, whole lines are
/// read, and the samples of the rest are [counted](left_out).
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum MetricKind {
    Counter,
    Histogram,
    /// A gauge, and everything else that has a value now.
    #[default]
    Gauge,
}

/// The samples of one metric.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Family<'t> {
    pub(super) name: &'t str,
    pub(super) help: &'t str,
    pub(super) unit: Option<&'t str>,
    pub(super) kind: MetricKind,
    pub(super) samples: Vec<MetricSample<'t>>,
}

/// One sample.
#[derive(Debug, PartialEq)]
pub(super) struct MetricSample<'t> {
    /// The end of its name, such as `_bucket`; empty if it has the name of the family.
    pub(super) suffix: &'t str,
    pub(super) labels: Vec<(&'t str, String)>,
    /// The number, as it is written.
    pub(super) value: &'t str,
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in whole_lines(text).lines() {
        if let Some(metadata) = line.strip_prefix("# ") {
            add_metadata(&mut families, metadata);
        } else if let Some(family) = families.last_mut() {
            family.samples.extend(sample(family.name, line));
        }
    }
    families
}

/// Returns the number of samples that [`parse`] leaves out, because they are beyond the bound of a text.
pub(super) fn left_out(text: &str) -> usize {
    let rest = &text[whole_lines(text).len()..];
    rest.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

/// Returns the whole lines of a text up to its bound.
fn whole_lines(text: &str) -> &str {
    let Some(head) = text.as_bytes().get(..MAX_TEXT_BYTES) else { return text };
    let end = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &text[..end]
}

/// Takes a line about a family: `TYPE name counter`.
fn add_metadata<'t>(families: &mut Vec<Family<'t>>, metadata: &'t str) {
    let mut words = metadata.splitn(3, ' ');
    let keyword = words.next().unwrap_or_default();
    let Some(name) = words.next() else { return };
    let rest = words.next().unwrap_or_default();
    if families.last().is_none_or(|family| family.name != name) {
        families.push(Family { name, ..Family::default() });
    }
    let Some(family) = families.last_mut() else { return };
    match keyword {
        "HELP" => family.help = rest,
        "UNIT" => family.unit = Some(rest),
        "TYPE" => {
            family.kind = match rest {
                "counter" => MetricKind::Counter,
                "histogram" => MetricKind::Histogram,
                _ => MetricKind::Gauge,
            }
        }
        _ => {}
    }
}

/// Reads `name{label="value"} 1`, and what may follow the number.
fn sample<'t>(family: &str, line: &'t str) -> Option<MetricSample<'t>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let suffix = name.strip_prefix(family)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim_start().split(' ').next().filter(|value| !value.is_empty())?;
    Some(MetricSample { suffix, labels, value })
}

/// Reads `a="b",c="d"}`. Returns what follows, too.
fn labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        text = text.strip_prefix(',').unwrap_or(text);
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.push((name, value));
        text = rest;
    }
}

/// Reads up to the closing quotation mark. Returns the text without escapes, and what follows the mark.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        encoding::text::encode,
        metrics::{
            counter::Counter, family::Family as Metrics, gauge::Gauge, histogram::Histogram,
        },
        registry::{Registry, Unit},
    };

    use super::*;

    #[test]
    fn what_the_registry_writes_is_read() {
        let mut registry = Registry::default();
        let calls: Metrics<[(&str, String); 1], Counter> = Metrics::default();
        calls.get_or_create_owned(&[("tool", "a\"b\\c\n}{,=".to_owned())]).inc_by(3);
        registry.register("calls", "Calls", calls);
        let open: Gauge = Gauge::default();
        open.set(-2);
        registry.register("open", "Open", open);
        let time = Histogram::new([0.5, 1.0]);
        time.observe(0.7);
        registry.register_with_unit("time", "Time", Unit::Seconds, time);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");

        let families = parse(&text);
        let names: Vec<_> = families.iter().map(|family| (family.name, family.kind)).collect();
        assert_eq!(
            names,
            [
                ("calls", MetricKind::Counter),
                ("open", MetricKind::Gauge),
                ("time_seconds", MetricKind::Histogram),
            ]
        );
        let calls = &families[0].samples[0];
        assert_eq!((calls.suffix, calls.value), ("_total", "3"));
        assert_eq!(calls.labels, [("tool", "a\"b\\c\n}{,=".to_owned())]);
        assert_eq!(families[0].help, "Calls.");
        assert_eq!(families[1].samples[0].value, "-2");
        assert_eq!(families[2].unit, Some("seconds"));
        let suffixes: Vec<_> = families[2].samples.iter().map(|sample| sample.suffix).collect();
        assert_eq!(suffixes, ["_sum", "_count", "_bucket", "_bucket", "_bucket"]);
    }

    #[test]
    fn lines_that_are_no_samples_are_left_out() {
        let text = "orphan 1\n# TYPE a gauge\na{b=\"c 1\na{b\na\nother 1\na 2 123\n\n# EOF\n";
        let families = parse(text);
        assert_eq!(families.len(), 1);
        let values: Vec<_> = families[0].samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, ["2"]);
    }

    #[test]
    fn samples_beyond_the_bound_are_left_out_and_counted() {
        let metadata = "# TYPE a gauge\n";
        let line = format!("a 1 {}\n", "x".repeat((1 << 20) - 5));
        assert_eq!(line.len(), 1 << 20);
        for (lines, kept) in [(15, 15), (16, 15), (18, 15)] {
            let text = format!("{metadata}{}# EOF\n", line.repeat(lines));
            assert_eq!(parse(&text)[0].samples.len(), kept, "{lines}");
            assert_eq!(left_out(&text), lines - kept, "{lines}");
        }
        let exact = line.repeat(16);
        assert_eq!((exact.len(), left_out(&exact)), (MAX_TEXT_BYTES, 0));
        let without_end = "x".repeat(MAX_TEXT_BYTES + 1);
        assert_eq!((parse(&without_end).len(), left_out(&without_end)), (0, 1));
    }
}
