//! Questions of a source to the caller of a request that is running, and the answers to them.
//!
//! A source asks for input of a user, for an answer of the caller's model, or for the caller's roots
//! (MCP: elicitation, sampling, roots). The request then ends as [`InputRequired`], and the caller
//! resumes it with its [`Answers`]. Nothing waits in the caller's task meanwhile.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

use super::ClientName;

/// Time for a caller to answer the questions that a source asks at a time.
pub const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// Maximum length of the answer to one question, in bytes: as much as arguments may have. A longer one counts as
/// refused. Answers wait until their source reads them, which one that asks and reads nothing never does.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Client under whose name the gateway itself asks: about the calls of a script.
pub const OWN_ASKER: &str = "airlock";

/// Kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// A form for the user.
    Form,
    /// A URL that the user is to open.
    Url,
    /// A message that the caller's model is to write.
    Sampling,
    /// The list of the caller's roots.
    Roots,
}

impl QuestionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Form, Self::Url, Self::Sampling, Self::Roots];

    /// Returns the method of the question in MCP.
    pub fn method(self) -> &'static str {
        match self {
            Self::Form | Self::Url => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Reads the kind of a question. `mode` is that of an elicitation; `None` means a form. Returns
    /// `None` for any other method or mode.
    pub fn find(method: &str, mode: Option<&str>) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| match kind {
            Self::Url => method == kind.method() && mode == Some("url"),
            Self::Form => method == kind.method() && matches!(mode, None | Some("form")),
            Self::Sampling | Self::Roots => method == kind.method(),
        })
    }
}

/// Kinds of questions: those that a caller can answer, or those that the operator permits a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuestionKinds([bool; QuestionKind::ALL.len()]);

impl QuestionKinds {
    /// No kind.
    pub const NONE: Self = Self([false; QuestionKind::ALL.len()]);
    /// Questions that a person answers.
    pub const ELICITATION: Self = Self([true, true, false, false]);

    /// Adds a kind, if `is_there`.
    #[must_use]
    pub const fn with(mut self, kind: QuestionKind, is_there: bool) -> Self {
        self.0[kind as usize] |= is_there;
        self
    }

    /// Returns whether a kind is among them.
    pub const fn has(self, kind: QuestionKind) -> bool {
        self.0[kind as usize]
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns the kinds that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut both = Self::NONE;
        for kind in QuestionKind::ALL {
            both = both.with(kind, self.has(kind) && other.has(kind));
        }
        both
    }

    /// Returns the kinds as capabilities of an MCP client.
    pub fn to_capabilities(self) -> Value {
        let mut capabilities = Map::new();
        let mut elicitation = Map::new();
        for (kind, mode) in [(QuestionKind::Form, "form"), (QuestionKind::Url, "url")] {
            if self.has(kind) {
                elicitation.insert(mode.to_owned(), json!({}));
            }
        }
        if !elicitation.is_empty() {
            capabilities.insert("elicitation".to_owned(), elicitation.into());
        }
        for (kind, name) in [(QuestionKind::Sampling, "sampling"), (QuestionKind::Roots, "roots")] {
            if self.has(kind) {
                capabilities.insert(name.to_owned(), json!({}));
            }
        }
        capabilities.into()
    }
}

/// A question of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Name of the question among those of its request.
    pub key: String,
    /// Its kind.
    pub kind: QuestionKind,
    /// Its parameters in MCP; bounded, without secrets, and without invisible characters.
    pub params: Map<String, Value>,
}

/// A request that goes on once its caller has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRequired {
    /// The client whose source asks.
    pub client: ClientName,
    /// Its questions; at least one.
    pub questions: Vec<Question>,
    /// Names the request that waits. Random, and valid once, for a limited time.
    pub token: String,
}

impl InputRequired {
    /// Returns the questions as MCP's `inputRequests`.
    pub fn to_requests(&self) -> Map<String, Value> {
        let requests = self.questions.iter().map(|question| {
            let request = json!({"method": question.kind.method(), "params": question.params});
            (question.key.clone(), request)
        });
        requests.collect()
    }
}

/// Answers to the questions of a request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Token of the request.
    pub token: String,
    /// Results by the names of the questions, each as the text of a JSON object. `None` if the
    /// caller refuses to answer. A question without an answer is asked again.
    pub given: BTreeMap<String, Option<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_method_and_mode() {
        let find = QuestionKind::find;
        assert_eq!(find("elicitation/create", None), Some(QuestionKind::Form));
        assert_eq!(find("elicitation/create", Some("form")), Some(QuestionKind::Form));
        assert_eq!(find("elicitation/create", Some("url")), Some(QuestionKind::Url));
        assert_eq!(find("elicitation/create", Some("voice")), None);
        assert_eq!(find("sampling/createMessage", None), Some(QuestionKind::Sampling));
        assert_eq!(find("roots/list", Some("url")), Some(QuestionKind::Roots));
        assert_eq!(find("ping", None), None);
    }

    #[test]
    fn kinds_are_the_capabilities_of_an_mcp_client() {
        let all = QuestionKind::ALL;
        let all = all.into_iter().fold(QuestionKinds::NONE, |kinds, kind| kinds.with(kind, true));
        let expected = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
        assert_eq!(all.to_capabilities(), expected);
        let form = QuestionKinds::NONE.with(QuestionKind::Form, true);
        assert_eq!(all.and(form), form);
        assert_eq!(form.to_capabilities(), json!({"elicitation": {"form": {}}}));
        assert!(form.and(QuestionKinds::NONE).is_empty());
        assert_eq!(QuestionKinds::NONE.to_capabilities(), json!({}));
    }
}
