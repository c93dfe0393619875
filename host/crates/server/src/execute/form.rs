//! The forms of a request to run a tool, and of its response: its query, the call and the message
//! with the result.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::respond::ApiError;
use airlock_agent::Message;
use airlock_core::tool::Answers;
use airlock_model::{Object, object};

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

/// Members of a body that resume a call that waits for answers.
#[derive(Default, Deserialize)]
struct Answered {
    request_state: Option<String>,
    #[serde(default)]
    input_responses: BTreeMap<String, Object>,
}

#[derive(Deserialize)]
struct ChatCall {
    id: Option<Value>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct ResponsesCall {
    call_id: Option<Value>,
    #[serde(flatten)]
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
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
        let body = Value::from(body);
        let Answered { request_state, input_responses } =
            Answered::deserialize(&body).map_err(|error| bad_json(&error))?;
        let (id, function) = match self {
            Self::Chat => {
                serde_json::from_value::<ChatCall>(body).map(|call| (call.id, call.function))
            }
            Self::Responses => serde_json::from_value::<ResponsesCall>(body)
                .map(|call| (call.call_id, Some(call.function))),
        }
        .map_err(|error| bad_json(&error))?;
        let function = function.unwrap_or(Function { name: None, arguments: None });
        let name = function.name.filter(|name| !name.is_empty());
        let (place, example) = match self {
            Self::Chat => ("function.name", r#"{"function": {"name": …, "arguments": …}}"#),
            Self::Responses => ("name", r#"{"name": …, "arguments": …} with format=responses"#),
        };
        let name = name.ok_or_else(|| {
            let message = format!(
                "Tool function name is required: no `{place}` in the body, expected {example}"
            );
            ApiError::bad_request("missing_name", message).about(place)
        })?;
        let given = input_responses
            .into_iter()
            .map(|(key, answer)| (key, Some(Value::from(answer).to_string())))
            .collect();
        let answers = request_state.map(|token| Answers { token, given });
        Ok(ExecuteCall { id, name, arguments: function.arguments.unwrap_or_default(), answers })
    }

    /// Returns the message with a result, for the call with this identifier.
    pub(super) fn write(self, id: Option<Value>, message: Message) -> Object {
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

fn bad_json(error: &serde_json::Error) -> ApiError {
    ApiError::bad_request("invalid_json", format!("Invalid request format: {error}"))
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
}
