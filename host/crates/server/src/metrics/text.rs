//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// Kind of a family of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A text in the making.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    family: &'static str,
}

impl Text {
    /// Begins a family, whose values follow. `help` is one line without `\`.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.family = name;
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Adds a value to the family. `suffix` belongs to the name of the metric.
    pub(super) fn value(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let family = self.family;
        self.push(format_args!("{family}{suffix}"));
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            self.push(format_args!("{before}{name}=\"{}\"", escaped(value)));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.push(format_args!("{end} {value}\n"));
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a `String` never fails.
        let _ = self.text.write_fmt(arguments);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut text = Text::default();
        text.family("a_total", Kind::Counter, "Counts.");
        text.value("", &[("x", "q\"b\\n\nz"), ("y", "ü")], 1);
        text.value("_sum", &[], 0.5);
        insta::assert_snapshot!(text.finish(), @r##"
        # HELP a_total Counts.
        # TYPE a_total counter
        a_total{x="q\"b\\n\nz",y="ü"} 1
        a_total_sum 0.5
        "##);
    }
}
