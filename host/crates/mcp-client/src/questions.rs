//! Reads questions. All of them come from the server, and their texts are shown to a person or to a
//! model of the caller.

use std::borrow::Cow;

use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    inbox::ServerQuestion,
    limits::{MAX_QUESTION_BYTES, MAX_QUESTIONS},
};
use airlock_core::tool::{
    Answers, ClientName, MAX_ANSWER_BYTES, Question, QuestionKind, QuestionKinds,
};
use airlock_mcp_oauth::MAX_URL_BYTES;
use airlock_strings::stripped;
use airlock_wire::error::RpcError;

/// Metadata of a question with the name of the client whose source asks.
const CLIENT: &str = "airlock/client";
/// Name of the gateway's own question, which asks for an approval.
const APPROVAL: &str = "approval";
/// Maximum characters of a message for a person: about a screen, so that the question at its end
/// is not scrolled away.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// Maximum tokens that the caller's model may be asked for (`maxTokens`); a larger number is replaced
/// by this one. The server chooses it and the caller pays for them: 32,768 are some 130 KB of text.
const MAX_TOKENS: f64 = 32_768.0;
/// Parameter with the state that a modern server wants back.
const STATE: &str = "requestState";
/// Parameter with the task whose questions are answered.
pub const TASK: &str = "taskId";
/// Answer to a form or a URL for which no caller can be asked.
const CANCELLED: &str = r#"{"action":"cancel"}"#;

/// The questions in the result of a request to a modern server.
#[derive(Debug)]
pub struct RequiredInput {
    requests: Map<String, Value>,
    /// Name and value of the parameter that resumes the request.
    state: Option<(&'static str, String)>,
}

/// Reason that a question is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The operator does not permit it, or the caller cannot answer it.
    #[error("the caller cannot be asked")]
    NotPermitted,
    /// MCP does not define it.
    #[error("the question is not one that MCP defines")]
    Malformed,
    /// It is over a bound.
    #[error("the questions are too large or too many")]
    TooLarge,
    /// The URL is not one that a person may open.
    #[error("a URL for a user must begin with https:// and have a plain host name")]
    Url,
    /// The caller's model would get tools of the server.
    #[error("tools of a server cannot be offered to the caller's model")]
    Tools,
    /// Too many requests wait for answers.
    #[error("too many questions wait for answers")]
    Full,
}

/// Reads the result `input_required` of a modern server. Fails if it is malformed or over a bound.
pub fn read_required_input(result: &mut Map<String, Value>) -> Result<RequiredInput, Refused> {
    let requests = match result.remove("inputRequests") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(requests)) => requests,
        Some(_) => return Err(Refused::Malformed),
    };
    let name = if result.contains_key(TASK) { TASK } else { STATE };
    let state = match result.remove(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(state)) if state.len() <= MAX_QUESTION_BYTES => Some((name, state)),
        Some(Value::String(_)) => return Err(Refused::TooLarge),
        Some(_) => return Err(Refused::Malformed),
    };
    if requests.is_empty() && state.is_none() {
        return Err(Refused::Malformed);
    }
    if requests.len() > MAX_QUESTIONS {
        return Err(Refused::TooLarge);
    }
    Ok(RequiredInput { requests, state })
}

/// A request to a modern server that is to be sent once more.
#[derive(Debug)]
pub struct ResumedRequest {
    keys: Vec<Asking>,
    /// Name and value of the parameter that resumes the request.
    state: Option<(&'static str, String)>,
    /// Times that it was sent.
    pub rounds: u32,
}

/// A question of a modern server.
#[derive(Debug)]
struct Asking {
    /// Its name at the server.
    own: String,
    /// Its name for the caller.
    shown: String,
    kind: QuestionKind,
}

impl RequiredInput {
    /// Splits the questions from what is kept until they are answered. Fails if one of them is not
    /// permitted, or is malformed.
    pub fn split(
        self,
        client: &ClientName,
        permitted: QuestionKinds,
        rounds: u32,
    ) -> Result<(Vec<Question>, ResumedRequest), Refused> {
        let mut questions = Vec::with_capacity(self.requests.len());
        let mut keys = Vec::with_capacity(self.requests.len());
        let mut bytes = 0;
        for (number, (own, request)) in self.requests.into_iter().enumerate() {
            let mut key = shown_key(&own, number + 1);
            while questions.iter().any(|other: &Question| other.key == key) {
                key.push('-');
            }
            bytes += own.len() + request.to_string().len();
            if bytes > MAX_QUESTION_BYTES {
                return Err(Refused::TooLarge);
            }
            let QuestionRequest { method, params } =
                serde_json::from_value(request).map_err(|_| Refused::Malformed)?;
            let question = question(key, &method, params, client, permitted)?;
            keys.push(Asking { own, shown: question.key.clone(), kind: question.kind });
            questions.push(question);
        }
        Ok((questions, ResumedRequest { keys, state: self.state, rounds }))
    }
}

impl ResumedRequest {
    /// Returns the parameters that resume the request, as JSON texts on one line. Fails if the
    /// caller refuses to answer a question that has no answer for that.
    pub fn parameters(&self, mut answers: Answers) -> Result<Vec<(&'static str, String)>, Refused> {
        let mut parameters = Vec::new();
        let mut members = Vec::new();
        for Asking { own, shown, kind } in &self.keys {
            // A server asks again what has no answer.
            let Some(given) = answers.given.remove(shown) else { continue };
            let result = question_response(*kind, given).map_err(|_| Refused::NotPermitted)?;
            members.push(format!("{}:{result}", Value::from(own.as_str())));
        }
        if !self.keys.is_empty() {
            parameters.push(("inputResponses", format!("{{{}}}", members.join(","))));
        }
        let state = self.state.as_ref();
        parameters.extend(state.map(|(name, state)| (*name, Value::from(&**state).to_string())));
        Ok(parameters)
    }
}

/// Returns the result for a question, as JSON text on one line; an error if the caller refuses to
/// answer, or answers with more than [`MAX_ANSWER_BYTES`].
pub fn question_response(kind: QuestionKind, given: Option<String>) -> Result<String, RpcError> {
    match (given.filter(|answer| answer.len() <= MAX_ANSWER_BYTES), kind) {
        (Some(result), _) => Ok(airlock_json::raw::on_one_line(&result)),
        (None, QuestionKind::Form | QuestionKind::Url) => Ok(CANCELLED.to_owned()),
        // The code that the specification uses for a user's refusal (2025-11-25, "Sampling").
        (None, QuestionKind::Sampling | QuestionKind::Roots) => {
            Err(RpcError::new(-1, "the caller refused to answer"))
        }
    }
}

#[derive(Deserialize)]
struct QuestionRequest {
    method: String,
    #[serde(default)]
    params: Map<String, Value>,
}

impl ServerQuestion {
    /// Reads the question. Fails if it is not permitted, or is malformed.
    pub fn read(
        &self,
        key: String,
        client: &ClientName,
        permitted: QuestionKinds,
    ) -> Result<Question, Refused> {
        let QuestionRequest { method, params } =
            serde_json::from_slice(&self.text).map_err(|_| Refused::Malformed)?;
        question(key, &method, params, client, permitted)
    }
}

fn question(
    key: String,
    method: &str,
    mut params: Map<String, Value>,
    client: &ClientName,
    permitted: QuestionKinds,
) -> Result<Question, Refused> {
    // Before a member is read: a hidden character in its name must not hide it.
    clean(&mut params);
    let mode = params.get("mode").map(|mode| mode.as_str().unwrap_or_default());
    let kind = QuestionKind::find(method, mode).ok_or(Refused::Malformed)?;
    if !permitted.has(kind) {
        return Err(Refused::NotPermitted);
    }
    match kind {
        QuestionKind::Form | QuestionKind::Url => {
            let message = params.get("message").and_then(Value::as_str);
            let message = shown(client, message.ok_or(Refused::Malformed)?);
            params.insert("message".to_owned(), message.into());
            if kind == QuestionKind::Url {
                let url = params.get("url").and_then(Value::as_str).unwrap_or_default();
                let url = checked_url(url)?;
                params.insert("url".to_owned(), url.into());
            }
        }
        QuestionKind::Sampling => {
            if params.contains_key("tools") || params.contains_key("toolChoice") {
                return Err(Refused::Tools);
            }
            // The context of the client's "this server" is that of the gateway, so of all servers.
            params.shift_remove("includeContext");
            let tokens = params.get("maxTokens").and_then(Value::as_f64);
            if tokens.is_some_and(|tokens| tokens > MAX_TOKENS) {
                params.insert("maxTokens".to_owned(), MAX_TOKENS.into());
            }
        }
        QuestionKind::Roots => {}
    }
    params.shift_remove("task");
    // The server's own metadata could pose as that of the gateway.
    let meta = Map::from_iter([(CLIENT.to_owned(), client.as_str().into())]);
    params.insert("_meta".to_owned(), meta.into());
    Ok(Question { key, kind, params })
}

/// Returns a message for a person, who must see which server asks: the caller's client names only
/// the gateway. Its lines are quoted, so that none of them reads like one of the gateway.
fn shown(client: &ClientName, message: &str) -> String {
    let characters = message.chars().count();
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    let mut lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut out = format!("The MCP server \"{client}\" asks: {first}");
    for line in lines {
        out.push_str("\n> ");
        out.push_str(line);
    }
    if characters > MAX_MESSAGE_CHARS {
        let hidden = characters - MAX_MESSAGE_CHARS;
        out.push_str("\n[");
        out.push_str(&hidden.to_string());
        out.push_str(" characters are not shown]");
    }
    out
}

/// Returns a URL that a person may open, as it was understood: programs that read a URL in another
/// way must not find another host in it.
fn checked_url(text: &str) -> Result<String, Refused> {
    let is_plain = text.len() <= MAX_URL_BYTES
        && text.starts_with("https://")
        && !text.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control());
    let url = Url::parse(text).ok().filter(|_| is_plain).ok_or(Refused::Url)?;
    let has_name =
        url.domain().is_some_and(|name| name.contains('.') && !name.ends_with(".localhost"));
    if has_name && url.username().is_empty() && url.password().is_none() {
        Ok(url.into())
    } else {
        Err(Refused::Url)
    }
}

/// Returns the name of a modern server's question for its caller: the server's own, unless that could
/// be taken for something else.
fn shown_key(key: &str, number: usize) -> String {
    let is_plain =
        key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    if (1..=64).contains(&key.len()) && is_plain && key != APPROVAL {
        key.to_owned()
    } else {
        format!("question-{number}")
    }
}

/// Removes invisible characters from all texts. The depth is that of a message that has passed.
fn clean(object: &mut Map<String, Value>) {
    let is_clean = object.keys().all(|key| matches!(stripped(key), Cow::Borrowed(_)));
    if !is_clean {
        let members = std::mem::take(object).into_iter();
        object.extend(members.map(|(key, value)| (stripped(&key).into_owned(), value)));
    }
    object.values_mut().for_each(clean_value);
}

fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = stripped(text) {
                *text = clean;
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(clean_value),
        Value::Object(members) => clean(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn client() -> ClientName {
        ClientName::parse("up").expect("a good name")
    }

    fn all() -> QuestionKinds {
        QuestionKind::ALL
            .into_iter()
            .fold(QuestionKinds::NONE, |kinds, kind| kinds.with(kind, true))
    }

    fn read(method: &str, params: Value) -> Result<Question, Refused> {
        let Value::Object(params) = params else { panic!("an object") };
        question("k".to_owned(), method, params, &client(), all())
    }

    #[test]
    fn a_question_names_its_server_and_has_no_hidden_text() {
        let params = json!({"message": "Your\u{200b} name?", "requestedSchema": {"properties": {"a\u{202e}": {"title": "x\u{e0068}"}}}});
        let question = read("elicitation/create", params).expect("a question");
        let expected = json!({
            "message": "The MCP server \"up\" asks: Your name?",
            "requestedSchema": {"properties": {"a": {"title": "x"}}},
            "_meta": {"airlock/client": "up"},
        });
        assert_eq!(Value::from(question.params), expected);
        assert_eq!((question.kind, question.key.as_str()), (QuestionKind::Form, "k"));
    }

    #[test]
    fn what_is_no_permitted_question_is_refused_with_a_reason() {
        assert_eq!(form(json!({"message": 7})), Err(Refused::Malformed));
        assert_eq!(form(json!({"message": "m", "mode": "voice"})), Err(Refused::Malformed));
        assert_eq!(form(json!({"message": "m", "mode": 7})), Err(Refused::Malformed));
        assert_eq!(url("https://example.com/a?b"), Ok(QuestionKind::Url));
        for bad in [
            "http://example.com/",
            "javascript:x",
            "https://a:b@example.com/",
            "",
            "x",
            r"https://good.example\@evil.example/",
            "https:evil.example",
            r"HtTpS:\\evil.example",
            " https://example.com/",
            "https://exa\tmple.com/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://localhost/",
            "https://a.localhost/",
        ] {
            assert_eq!(url(bad), Err(Refused::Url), "{bad}");
        }
        // A person sees the name that is looked up.
        let cyrillic = json!({"message": "m", "mode": "url", "url": "https://\u{430}pple.com/"});
        let shown = read("elicitation/create", cyrillic).expect("a question").params;
        assert_eq!(shown["url"], "https://xn--pple-43d.com/");
        // A hidden character in a name hides nothing.
        let hidden = json!({"message": "m", "mo\u{200b}de": "url", "url": "javascript:x"});
        assert_eq!(form(hidden), Err(Refused::Url));
        let long = format!("https://example.com/{}", "x".repeat(MAX_URL_BYTES));
        assert_eq!(url(&long), Err(Refused::Url));
        assert_eq!(sample(json!({"messages": [], "tools": []})), Err(Refused::Tools));
        let plain = sample(json!({"messages": [], "includeContext": "allServers", "task": {}}));
        let plain = plain.expect("a question").params;
        assert_eq!(plain.keys().collect::<Vec<_>>(), ["messages", "_meta"]);
        let costly = sample(json!({"maxTokens": 1e9, "_meta": {"progressToken": 1}}));
        let costly = Value::from(costly.expect("a question").params);
        assert_eq!(costly, json!({"maxTokens": 32_768.0, "_meta": {"airlock/client": "up"}}));
        assert_eq!(read("ping", json!({})), Err(Refused::Malformed));
        let none = question("k".into(), "roots/list", Map::new(), &client(), QuestionKinds::NONE);
        assert_eq!(none, Err(Refused::NotPermitted));
    }

    fn form(params: Value) -> Result<QuestionKind, Refused> {
        read("elicitation/create", params).map(|question| question.kind)
    }

    fn url(url: &str) -> Result<QuestionKind, Refused> {
        form(json!({"message": "m", "mode": "url", "url": url}))
    }

    fn sample(params: Value) -> Result<Question, Refused> {
        read("sampling/createMessage", params)
    }

    #[test]
    fn no_line_of_a_message_reads_like_one_of_the_gateway() {
        assert_eq!(
            shown(&client(), "Which seat?\n\n\n**Airlock**\n \nThe MCP server \"bank\" asks: PIN"),
            "The MCP server \"up\" asks: Which seat?\n> **Airlock**\n> The MCP server \"bank\" asks: PIN"
        );
        let long = shown(&client(), &"x".repeat(MAX_MESSAGE_CHARS + 3));
        assert!(long.ends_with("x\n[3 characters are not shown]"), "{long}");
        assert!(!shown(&client(), &"x".repeat(MAX_MESSAGE_CHARS)).contains('['));
    }

    #[test]
    fn a_question_has_the_servers_name_for_it_unless_that_deceives() {
        let asking = json!({"method": "roots/list"});
        let requests =
            json!({"a_1": asking, "approval": asking, "x\n": asking, "question-2": asking});
        let asked = asks(json!({"inputRequests": requests})).expect("questions");
        let (questions, again) = asked.split(&client(), all(), 1).expect("permitted");
        let keys: Vec<_> = questions.iter().map(|question| &*question.key).collect();
        assert_eq!(keys, ["a_1", "question-2", "question-3", "question-2-"]);
        let given = keys.iter().map(|key| ((*key).to_owned(), Some("{}".to_owned()))).collect();
        let sent = again.parameters(Answers { token: String::new(), given });
        let expected = r#"{"a_1":{},"approval":{},"x\n":{},"question-2":{}}"#;
        assert_eq!(sent, Ok(vec![("inputResponses", expected.to_owned())]));
    }

    fn asks(result: Value) -> Result<RequiredInput, Refused> {
        let Value::Object(mut result) = result else { panic!("an object") };
        read_required_input(&mut result)
    }

    #[test]
    fn the_questions_of_a_result_are_bounded() {
        assert!(asks(requests(MAX_QUESTIONS)).is_ok());
        assert_eq!(asks(requests(MAX_QUESTIONS + 1)).err(), Some(Refused::TooLarge));
        assert!(asks(state(MAX_QUESTION_BYTES)).is_ok());
        assert_eq!(asks(state(MAX_QUESTION_BYTES + 1)).err(), Some(Refused::TooLarge));
        for bad in [json!({}), json!({"inputRequests": []}), json!({"requestState": 7})] {
            assert_eq!(asks(bad).err(), Some(Refused::Malformed));
        }
        assert_eq!(long(MAX_QUESTION_BYTES - 1_000), Ok(1));
        assert_eq!(long(MAX_QUESTION_BYTES), Err(Refused::TooLarge));
    }

    fn requests(count: usize) -> Value {
        let requests = (0..count).map(|n| (n.to_string(), json!({"method": "roots/list"})));
        json!({"inputRequests": requests.collect::<Map<_, _>>()})
    }

    fn state(bytes: usize) -> Value {
        json!({"requestState": "x".repeat(bytes)})
    }

    /// Returns the number of questions of a result with one of so many bytes.
    fn long(bytes: usize) -> Result<usize, Refused> {
        let params = json!({"message": "x".repeat(bytes)});
        let requests = json!({"q": {"method": "elicitation/create", "params": params}});
        let asked = asks(json!({"inputRequests": requests})).expect("questions");
        asked.split(&client(), all(), 1).map(|(questions, _)| questions.len())
    }

    #[test]
    fn an_answer_that_is_too_long_counts_as_refused() {
        let long = "x".repeat(MAX_ANSWER_BYTES);
        assert_eq!(question_response(QuestionKind::Form, Some(long.clone())).as_ref(), Ok(&long));
        let refused = question_response(QuestionKind::Form, Some(long + "x"));
        assert_eq!(refused.as_deref(), Ok(CANCELLED));
    }

    #[test]
    fn a_request_goes_on_with_the_answers_to_its_own_questions() {
        let requests = json!({"a": {"method": "elicitation/create", "params": {"message": "m"}},
                              "b": {"method": "roots/list"}, "c": {"method": "roots/list"}});
        let asked = asks(json!({"inputRequests": requests, "requestState": "s\n"}));
        let (_, again) = asked.expect("questions").split(&client(), all(), 1).expect("permitted");
        let sent =
            again.parameters(answers(&[("a", None), ("b", Some("{\n}")), ("x", Some("{}"))]));
        let expected = vec![
            ("inputResponses", r#"{"a":{"action":"cancel"},"b":{ }}"#.to_owned()),
            ("requestState", r#""s\n""#.to_owned()),
        ];
        assert_eq!(sent, Ok(expected));
        assert_eq!(again.parameters(answers(&[("b", None)])), Err(Refused::NotPermitted));
    }

    fn answers(given: &[(&str, Option<&str>)]) -> Answers {
        let given: BTreeMap<_, _> = given
            .iter()
            .map(|(key, answer)| ((*key).to_owned(), answer.map(str::to_owned)))
            .collect();
        Answers { token: String::new(), given }
    }
}
