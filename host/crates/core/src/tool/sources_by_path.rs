//! The sources of the arguments of a call, for the person who decides about it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{SourceSet, arguments::shortened};
use airlock_json::raw;

/// The sources of untrusted content that the arguments of a call may have, by their paths: names of members with dots
/// between them. The empty path stands for all arguments. Arguments without a source are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourcesByPath(BTreeMap<String, SourceSet>);

impl SourcesByPath {
    /// Member of a stored call with them, beside the sources that its author had read.
    pub(crate) const MEMBER: &str = "arguments";

    /// Reads those of a stored call; `None` if they are not known.
    pub fn from_stored(text: Option<&str>) -> Option<Self> {
        let text = raw::member(text?, Self::MEMBER)?;
        serde_json::from_str(text).ok()
    }

    /// The sources by their paths.
    pub fn as_map(&self) -> &BTreeMap<String, SourceSet> {
        &self.0
    }

    /// Returns a line for each path, for the person who decides; one line if no argument has a source. No path is left
    /// out: one that was could be that of the argument that matters. Of a long path, the start and the end are shown. No
    /// character of a path can begin a line.
    pub fn lines(&self) -> Vec<String> {
        if self.0.is_empty() {
            return vec!["no argument may come from untrusted content".to_owned()];
        }
        self.0.iter().map(|(path, sources)| line(path, sources)).collect()
    }
}

fn line(path: &str, sources: &SourceSet) -> String {
    match path {
        "" => format!("all arguments may come from {sources}"),
        path => format!("the argument {:?} may come from {sources}", shortened(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_a_line_and_no_path_imitates_another_line() {
        let stored = r#"{"read":["crm","web"],"arguments":{"":["web"],"to\" may come from x\n":["crm","web"]}}"#;
        let known = SourcesByPath::from_stored(Some(stored)).expect("they are known");
        assert_eq!(
            known.lines(),
            [
                "all arguments may come from web",
                "the argument \"to\\\" may come from x\u{27e8}U+000A\u{27e9}\" may come from crm, web",
            ]
        );
        assert_eq!(known.as_map().len(), 2);
        let long =
            format!(r#"{{"read":["web"],"arguments":{{"{}":["web"]}}}}"#, "x".repeat(90_000));
        let known = SourcesByPath::from_stored(Some(&long)).expect("they are known");
        assert!(known.lines()[0].len() < 2_200, "{}", known.lines()[0].len());
    }

    #[test]
    fn arguments_without_a_source_are_not_unknown_ones() {
        let none = SourcesByPath::from_stored(Some(r#"{"read":["web"],"arguments":{}}"#));
        let lines = none.expect("they are known").lines();
        assert_eq!(lines, ["no argument may come from untrusted content"]);
        for text in
            [None, Some(r#"["web"]"#), Some(r#"{"read":["web"]}"#), Some(r#"{"arguments":1}"#)]
        {
            assert_eq!(SourcesByPath::from_stored(text), None, "{text:?}");
        }
    }
}
