//! The forms of a request to run a tool, and of its response: its query, the call and the message
//! with the result.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use url::form_urlencoded;

use airlock_agent::ResultMessage;
use airlock_conversation::Object;
use airlock_core::tool::Answers;
use airlock_http::respond::ApiError;
use airlock_json::object;
use airlock_strings::{MAX_WORD_BYTES, cut};

/// Options of a request, from its query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExecuteOptions {
    /// API whose form the call and its result have.
    pub(super) format: Format,
    /// Form of the result.
    pub(super) reader: ResultForm,
    /// The model that reads the result; `None` if any may read it.
    pub(super) model: Option<String>,
}

/// Form of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ResultForm {
    /// A model: the text is what a model receives in the agent loop.
    #[default]
    Model,
    /// A program: the text is as its source sent it.
    Program,
}

/// OpenAI API whose form a call has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Chat,
    Responses,
}

/// Tool call, from either form.
#[derive(Debug)]
pub(super) struct ExecuteCall {
    /// Echoed unchanged, whatever its type.
    pub(super) id: Option<Value>,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) answers: Option<Answers>,
}

/// Members of an object of the body.
struct BodyMembers {
    /// Path of the object, with the dot before its members; empty for the body.
    path: &'static str,
    object: Object,
}

impl ExecuteOptions {
    /// Reads a query. Names that have no meaning here are ignored. Fails if a value is not valid.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match (name.as_ref(), value.to_ascii_lowercase().as_str()) {
                ("format", "" | "chat") => options.format = Format::Chat,
                ("format", "responses") => options.format = Format::Responses,
                ("format", _) => {
                    return Err(ApiError::bad_request(
                        "invalid_format",
                        "Invalid format value, must be 'chat' or 'responses'",
                    )
                    .about("format"));
                }
                ("present", "" | "model") => options.reader = ResultForm::Model,
                ("present", "raw") => options.reader = ResultForm::Program,
                ("present", _) => {
                    let message = "Invalid present value, must be 'model' or 'raw'";
                    return Err(ApiError::bad_request("invalid_value", message).about("present"));
                }
                ("model", _) => {
                    options.model = Some(value.into_owned()).filter(|model| !model.is_empty());
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

impl Format {
    /// Reads a call. Fails if it is not of this form.
    pub(super) fn read(self, body: Object) -> Result<ExecuteCall, ApiError> {
        let mut body = BodyMembers { path: "", object: body };
        let answers = body.answers()?;
        let (id, mut function, example) = match self {
            Self::Chat => {
                let function = body.object("function")?.unwrap_or_default();
                let function = BodyMembers { path: "function.", object: function };
                (body.take("id"), function, r#"{"function": {"name": …, "arguments": …}}"#)
            }
            Self::Responses => {
                let example = r#"{"name": …, "arguments": …} with format=responses"#;
                (body.take("call_id"), body, example)
            }
        };
        let name = function.text("name", "a string")?.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            let place = function.place("name");
            let message = format!(
                "Tool function name is required: no `{place}` in the body, expected {example}"
            );
            ApiError::bad_request("missing_name", message).about(&place)
        })?;
        let arguments = function.text("arguments", r#"JSON as a string, such as "{\"a\": 1}""#)?;
        Ok(ExecuteCall { id, name, arguments: arguments.unwrap_or_default(), answers })
    }

    /// Returns the message with a result, for the call with this identifier.
    pub(super) fn write(self, id: Option<Value>, message: ResultMessage) -> Object {
        let (mut reply, id_key) = match self {
            Self::Chat => {
                let content = message.into_content();
                (object(json!({"role": "tool", "content": content})), "tool_call_id")
            }
            Self::Responses => {
                let output = message.into_output();
                (object(json!({"type": "function_call_output", "output": output})), "call_id")
            }
        };
        reply.extend(id.map(|id| (id_key.to_owned(), id)));
        reply
    }
}

impl BodyMembers {
    /// Removes a member; `None` if it is absent or null.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.object.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Removes a member that is a string. Fails if it is another value; `expected` describes a valid
    /// one.
    fn text(&mut self, name: &str, expected: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(&self.place(name), &other, expected)),
        }
    }

    /// Removes a member that is an object. Fails if it is another value.
    fn object(&mut self, name: &str) -> Result<Option<Object>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(wrong_type(&self.place(name), &other, "an object")),
        }
    }

    /// Removes the members that resume a call that waits for answers.
    fn answers(&mut self) -> Result<Option<Answers>, ApiError> {
        let token = self.text("request_state", "a string")?;
        let mut given = BTreeMap::new();
        for (key, answer) in self.object("input_responses")?.unwrap_or_default() {
            if !answer.is_object() {
                let place = format!("input_responses.{}", cut(key, MAX_WORD_BYTES));
                return Err(wrong_type(&place, &answer, "an object"));
            }
            given.insert(key, Some(answer.to_string()));
        }
        Ok(token.map(|token| Answers { token, given }))
    }

    fn place(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }
}

/// Returns the error about a member of another type.
fn wrong_type(place: &str, found: &Value, expected: &str) -> ApiError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let message = format!("Invalid request format: `{place}` is {found}, expected {expected}");
    ApiError::bad_request("invalid_type", message).about(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_chat_and_the_reader_a_model_unless_the_query_says_otherwise() {
        for query in [
            None,
            Some(""),
            Some("format="),
            Some("a=b&format=CHAT&present="),
            Some("present=model"),
        ] {
            let options = ExecuteOptions::parse(query).expect("a good query");
            assert_eq!(options, ExecuteOptions::default(), "{query:?}");
        }
        let all = ExecuteOptions::parse(Some("format=Responses&present=raw&model=openai%2Fgpt"));
        let all = all.expect("a good query");
        let model = Some("openai/gpt".to_owned());
        assert_eq!(
            all,
            ExecuteOptions { format: Format::Responses, reader: ResultForm::Program, model }
        );
        for bad in ["format=xml", "present=yaml"] {
            assert!(ExecuteOptions::parse(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_call_needs_a_name_and_keeps_its_id() {
        let call = Format::Chat
            .read(object(json!({"id": 7, "function": {"name": "t"}})))
            .expect("a good call");
        assert_eq!(
            (call.id, call.name.as_str(), call.arguments.as_str()),
            (Some(json!(7)), "t", "")
        );
        let call = Format::Responses
            .read(object(json!({"name": "t", "arguments": "{}"})))
            .expect("a good call");
        assert_eq!((call.id, call.arguments.as_str()), (None, "{}"));
        for bad in [
            json!({}),
            json!({"function": {}}),
            json!({"function": {"name": ""}}),
            json!({"function": {"name": 1}}),
        ] {
            assert!(Format::Chat.read(object(bad)).is_err());
        }
    }

    #[test]
    fn a_member_of_another_type_is_named_with_a_valid_value() {
        let arguments = json!({"function": {"name": "t", "arguments": {"a": 1}}});
        let error = Format::Chat.read(object(arguments)).expect_err("an object");
        let body = Value::from(error.into_body());
        assert_eq!(
            (&body["error"]["code"], &body["error"]["param"]),
            (&json!("invalid_type"), &json!("function.arguments"))
        );
        insta::assert_snapshot!(body["error"]["message"].as_str().expect("a text"), @r#"Invalid request format: `function.arguments` is an object, expected JSON as a string, such as "{\"a\": 1}""#);
        for (format, body, param) in [
            (Format::Responses, json!({"name": "t", "arguments": []}), "arguments"),
            (Format::Responses, json!({"name": 1}), "name"),
            (Format::Chat, json!({"function": "t"}), "function"),
            (Format::Chat, json!({"request_state": 1}), "request_state"),
            (Format::Chat, json!({"input_responses": []}), "input_responses"),
            (Format::Chat, json!({"input_responses": {"q": "yes"}}), "input_responses.q"),
        ] {
            let error = format.read(object(body)).expect_err(param).into_body();
            assert_eq!(error["error"]["param"], param);
        }
    }

    #[test]
    fn a_null_member_is_absent_and_answers_are_kept_as_json() {
        let nulls = json!({"id": null, "request_state": null, "input_responses": null, "function": {"name": "t", "arguments": null}});
        let call = Format::Chat.read(object(nulls)).expect("a good call");
        assert_eq!((call.id, call.arguments.as_str(), call.answers), (None, "", None));
        let answered = json!({"name": "t", "request_state": "s", "input_responses": {"q": {"action": "accept"}}});
        let call = Format::Responses.read(object(answered)).expect("a good call");
        let given = [("q".to_owned(), Some(r#"{"action":"accept"}"#.to_owned()))].into();
        assert_eq!(call.answers, Some(Answers { token: "s".to_owned(), given }));
    }
}
