//! The reasons for which guards require an approval of a call.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::guard_reason::shown_reason;

/// A reason for which a guard requires an approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardQuestion {
    /// Name of the guard in the configuration.
    pub guard: Arc<str>,
    /// The reason, on one line, without hidden characters, and of at most 1 KiB. It may repeat arguments.
    pub reason: String,
}

/// The reasons for which guards require an approval of a call, in the order of the guards. An empty list takes no
/// memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GuardQuestions(Vec<GuardQuestion>);

impl GuardQuestions {
    /// Creates a list without reasons.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns whether there is no reason.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the reason of a guard, which is cut and made visible.
    pub fn push(&mut self, guard: Arc<str>, reason: &str) {
        self.0.push(GuardQuestion { guard, reason: shown_reason(reason) });
    }

    /// The reasons.
    pub fn as_slice(&self) -> &[GuardQuestion] {
        &self.0
    }

    /// Returns the JSON text of the reasons as an array; `None` if there is none.
    pub fn to_json(&self) -> Option<String> {
        let text = (!self.is_empty()).then(|| serde_json::to_string(self));
        text.and_then(Result::ok)
    }

    /// Reads what [`Self::to_json`] returns. Anything else counts as no reason.
    pub fn from_json(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

impl fmt::Display for GuardQuestions {
    /// Writes the guards with their reasons on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, GuardQuestion { guard, reason }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}the guard {guard:?} asks: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_shown_with_their_guards_and_stored_as_an_array() {
        let mut asked = GuardQuestions::new();
        assert_eq!((asked.to_json(), asked.to_string()), (None, String::new()));
        asked.push("spend".into(), "above\n1000\u{202e}");
        asked.push("mail".into(), "to others");
        let shown = "the guard \"spend\" asks: above 1000\u{27e8}U+202E\u{27e9}; the guard \"mail\" asks: to others";
        assert_eq!(asked.to_string(), shown);
        let text = asked.to_json().expect("there are reasons");
        let spend = "{\"guard\":\"spend\",\"reason\":\"above 1000\u{27e8}U+202E\u{27e9}\"}";
        assert_eq!(text, format!(r#"[{spend},{{"guard":"mail","reason":"to others"}}]"#));
        assert_eq!(GuardQuestions::from_json(Some(&text)), asked);
        for text in [None, Some("{}"), Some("[1]")] {
            assert!(GuardQuestions::from_json(text).is_empty(), "{text:?}");
        }
    }
}
