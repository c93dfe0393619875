//! The answers of a client to the questions of a source.

use std::collections::BTreeMap;

use airlock_json::raw;
use airlock_wire::error::RpcError;

/// Answers by the keys of their questions, each as the JSON text of an object; `None` for a question
/// that the client has refused or not answered.
pub(super) type GivenAnswers = BTreeMap<String, Option<String>>;

/// Reads the JSON text of `inputResponses`. Fails if it is no object whose members are objects.
pub(super) fn parse(responses: &str) -> Result<GivenAnswers, RpcError> {
    let members = raw::members(responses).map(|members| {
        members
            .map(|(key, answer)| {
                answer.starts_with('{').then(|| (key.into_owned(), Some(answer.to_owned())))
            })
            .collect::<Option<GivenAnswers>>()
    });
    members.flatten().ok_or_else(|| {
        RpcError::invalid_params("`inputResponses` must be an object whose members are objects")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_wire::error::code;

    #[test]
    fn answers_are_an_object_of_objects() {
        assert_eq!(parse(r#"{"a":{}}"#).expect("good").len(), 1);
        for refused in ["[]", r#"{"a":7}"#, ""] {
            assert_eq!(parse(refused).expect_err("refused").code, code::INVALID_PARAMS);
        }
    }
}
