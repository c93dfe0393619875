//! `plugin.toml` in a plugin's directory, for the lines of findings.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

/// Name of the file.
pub(super) const FILE: &str = "plugin.toml";

/// The text of a plugin.toml.
pub(super) struct Source {
    text: String,
}

impl Source {
    /// Reads the file in a directory; `None` if there is none that can be read.
    pub(super) fn in_directory(directory: &Path) -> Option<Self> {
        fs::read_to_string(directory.join(FILE)).ok().map(|text| Self { text })
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// Returns the line of a key such as `request.http.api` or `tool[0].effects`, from 1. If the key
    /// is absent, it is the line of the table that would contain it. `None` if there is no such
    /// table either.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let root = DeTable::parse(&self.text).ok()?;
        let mut table = root.get_ref();
        let mut offset = None;
        for part in key.split('.') {
            let (name, index) = match part.split_once('[') {
                Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
                None => (part, None),
            };
            let found = table.iter().find(|(key, _)| key.get_ref() == name);
            let Some((key, value)) = found else { break };
            offset = Some(key.span().start);
            let mut value = value;
            if let Some(element) = index.and_then(|index| value.get_ref().as_array()?.get(index)) {
                offset = Some(element.span().start);
                value = element;
            }
            match value.get_ref() {
                DeValue::Table(below) => table = below,
                _ => break,
            }
        }
        Some(self.text[..offset?].matches('\n').count() + 1)
    }
}

/// Returns the directory of a path, which is the working directory for a bare file name.
pub(super) fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_line_and_an_absent_key_that_of_its_table() {
        let source = Source::of(
            "id = 'a'\n\n[[tool]]\nname = 'b'\n\n[[tool]]\nname = 'c'\neffects = []\n\n[request.http.api]\nurl = '*'\n",
        );
        for (key, line) in [
            ("id", 1),
            ("tool[0]", 3),
            ("tool[0].effects", 3),
            ("tool[1].effects", 8),
            ("tool[1].title", 6),
            ("request.http.api", 10),
            ("request.http.api.url", 11),
            ("request.http.api.reason", 10),
        ] {
            assert_eq!(source.line(key), Some(line), "{key}");
        }
        assert_eq!(source.line("version"), None);
        assert_eq!(Source::of("id = ").line("id"), None);
    }
}
