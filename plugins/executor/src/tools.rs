//! The tools behind a run: calls, results and errors.

use std::fmt::Display;

/// The tools behind a run: the host's import in WebAssembly, a stub in tests.
pub trait Tools {
    /// Calls one tool and waits for its result.
    fn call(&self, request: Request) -> Result<ToolAnswer, ToolError>;

    /// Calls several tools at once. The results are in the order of the requests.
    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<ToolAnswer, ToolError>> {
        requests.into_iter().map(|request| self.call(request)).collect()
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Full name of the tool.
    pub tool: String,
    /// Arguments, as a JSON object.
    pub arguments: String,
}

/// The result of a tool. The host describes content that is not text as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolAnswer {
    /// Data, as JSON text.
    Json(String),
    /// Text for a reader. It becomes data if it is JSON, and stays a string otherwise.
    Text(String),
}

impl ToolAnswer {
    /// Converts the result to a value of a language, which `parse` makes of JSON and `text` of any
    /// other text. Fails if data are not JSON, which is the fault of the tool.
    pub fn into_value<V, E: Display>(
        self,
        parse: impl Fn(&str) -> Result<V, E>,
        text: impl FnOnce(String) -> V,
    ) -> Result<V, ToolError> {
        match self {
            Self::Json(json) => parse(&json)
                .map_err(|error| ToolError::internal(format!("its result is not JSON: {error}"))),
            Self::Text(plain) if may_be_json(&plain) => {
                Ok(parse(&plain).unwrap_or_else(|_| text(plain)))
            }
            Self::Text(plain) => Ok(text(plain)),
        }
    }
}

/// Returns whether a text begins as JSON does, or as a name of a number that a parser may read besides. Any other text would
/// make the parser fail, which allocates an error.
fn may_be_json(text: &str) -> bool {
    let first = text.trim_ascii_start().bytes().next();
    matches!(
        first,
        Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'N' | b'I')
    )
}

/// The error of a tool, as scripts examine it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolError {
    /// Kind of error, such as `not-found`.
    pub kind: String,
    /// Stable identifier that the tool chose.
    pub code: Option<String>,
    /// Message for a reader.
    pub message: String,
    /// Details, as JSON text.
    pub data: Option<String>,
    /// Time to wait before the next try, in milliseconds; `None` if it is not known.
    pub retry_after_ms: Option<u64>,
}

impl ToolError {
    /// Names of the attributes by which a script examines an error.
    pub const ATTRIBUTES: [&str; 5] = ["kind", "code", "message", "data", "retry_after_ms"];

    /// Creates the error of a tool that has a fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { kind: "internal".into(), message: message.into(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_data_if_it_is_json() {
        for (plain, is_data) in [
            (" {\"a\": 1}", true),
            ("\n[1]", true),
            ("\"x\"", true),
            ("-1.5", true),
            ("true", true),
            ("null", true),
            ("no", false),
            ("ok", false),
            ("", false),
            ("- a list", false),
        ] {
            let answer = ToolAnswer::Text(plain.to_owned());
            let value = answer.into_value(
                |json| if is_data { Ok(json.len()) } else { Err("no JSON") },
                |text| usize::MAX - text.len(),
            );
            let expected = if is_data { plain.len() } else { usize::MAX - plain.len() };
            assert_eq!(value, Ok(expected), "{plain}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_json_is_not_parsed() {
        for plain in ["ok", "", "\u{a0}{}", "(1)", "Done: 3"] {
            let answer = ToolAnswer::Text(plain.to_owned());
            let value = answer.into_value(|_| Ok::<_, &str>(true), |_| false);
            assert_eq!(value, Ok(false), "{plain}");
        }
    }
}
