//! Questions of MCP servers to the callers of their tools, between both eras on both sides, and to
//! callers of the chat endpoint.

use std::{fs, path::PathBuf};

use airlock_tests::{
    Client, Gateway, Setup,
    mcp::{Endpoint, McpClient, McpRequest, McpSession},
    peers, root, wait,
};
use serde_json::{Value, json};

use super::{ANN, BOB};

mod concurrent;
mod libraries;

const ERAS: [&str; 2] = ["legacy", "modern"];

/// A gateway with one server that asks, named after its era.
struct Asking {
    gateway: Gateway,
    notes: PathBuf,
}

impl Asking {
    /// Starts a gateway whose server may ask everything.
    async fn start(era: &str) -> Self {
        Self::with(era, |client| {
            client.set("/allow", ["elicitation", "sampling", "roots"].as_slice())
        })
        .await
    }

    async fn with(era: &str, change: impl FnOnce(Client) -> Client) -> Self {
        let setup = Setup::new().set("/server/require_virtual_key", false);
        let rows: [(&str, &[&str]); 1] = [("up", &["*"])];
        let setup = setup.key("ann", ANN, &rows).key("bob", BOB, &rows);
        let notes = setup.directory().join("notes");
        let server = root().join("tests/fixtures/asking/server.py").display().to_string();
        let arguments = ["-B", &server, era, &notes.display().to_string()].map(str::to_owned);
        let client = Client::stdio("up", peers::python(), arguments).auto(&["ask"]);
        let client = client.execute(&["*"]).set("/prompts_to_get", ["*"].as_slice());
        let models = json!([
            {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": "up-ask", "arguments": asking(&[form("Name?")])}]}},
            {"when": {"role": "tool"}, "answer": {"content": "done"}},
        ]);
        let setup = setup.client(change(client)).scripted("scripted", &json!({"turns": models}));
        Self { gateway: setup.serve_connected().await, notes }
    }

    /// Returns the endpoint for a client with all capabilities.
    fn endpoint(&self) -> Endpoint {
        let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
        Endpoint::new(&self.gateway).with_capabilities(all)
    }

    /// Returns the number of processes that were replaced while they served.
    async fn replacements(&self) -> Option<u64> {
        self.gateway.connected("up").await["replacements"].as_u64()
    }

    /// Returns the names of the tools that have run.
    fn ran(&self) -> String {
        fs::read_to_string(&self.notes).unwrap_or_default()
    }
}

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn url(url: &str) -> Value {
    let params = json!({"mode": "url", "message": "Open it", "url": url, "elicitationId": "e1"});
    json!({"method": "elicitation/create", "params": params})
}

fn sample() -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": "Say hi"}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 5, "includeContext": "allServers"}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn asking(questions: &[Value]) -> Value {
    json!({"questions": questions})
}

/// Returns an answer to a question, by its method.
fn good_answer(question: &Value) -> Value {
    match question["method"].as_str() {
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": "Ann"}}),
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"})
        }
        _ => json!({"roots": [{"uri": "file:///work"}]}),
    }
}

/// Makes a request and answers all that is asked. Returns the response, and what was asked.
async fn conversed(
    client: &McpClient,
    method: &str,
    params: Value,
    answer: impl Fn(&Value) -> Value,
) -> (Value, Vec<Value>) {
    let mut asked = Vec::new();
    match client {
        McpClient::Modern(endpoint) => {
            let mut request = endpoint.modern(method, params.clone());
            loop {
                let response = request.response().await;
                let result = &response["result"];
                if result["resultType"] != "input_required" {
                    return (response, asked);
                }
                let mut answers = json!({});
                for (key, question) in result["inputRequests"].as_object().expect("questions") {
                    answers[key] = answer(question);
                    asked.push(question.clone());
                }
                request = again(endpoint, method, &params, result, answers);
            }
        }
        McpClient::Legacy(session) => {
            let mut stream = match session.request(method, params).stream_or_response().await {
                Ok(stream) => stream,
                Err(response) => return (response, asked),
            };
            while let Some(message) = stream.next().await {
                if message.get("method").is_none() {
                    return (message, asked);
                }
                respond(session, &message, answer(&message)).await;
                asked.push(message);
            }
            panic!("no response");
        }
    }
}

/// Builds a modern request that goes on with a result.
fn again(
    endpoint: &Endpoint,
    method: &str,
    params: &Value,
    result: &Value,
    answers: Value,
) -> McpRequest {
    let mut params = params.clone();
    params["requestState"] = result["requestState"].clone();
    params["inputResponses"] = answers;
    endpoint.modern(method, params)
}

async fn respond(session: &McpSession, question: &Value, answer: Value) {
    let reply = session.respond(&question["id"], answer).reply().await;
    assert_eq!(reply.status, 202, "{}", reply.text);
}

/// Returns the JSON text of a result.
fn text(response: &Value) -> Value {
    let result = &response["result"];
    let text = result["content"][0]["text"].as_str();
    let text = text.or_else(|| result["messages"][0]["content"]["text"].as_str());
    serde_json::from_str(text.unwrap_or_else(|| panic!("{response}"))).expect("JSON")
}

fn ask(questions: &[Value]) -> Value {
    json!({"name": "up-ask", "arguments": asking(questions)})
}

#[tokio::test]
async fn questions_and_answers_pass_between_all_eras() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        for client in asking.endpoint().both().await {
            let questions = [form("Your\u{202e} name?"), sample(), roots()];
            let (response, asked) =
                conversed(&client, "tools/call", ask(&questions), good_answer).await;
            let answers = json!({"0": good_answer(&form("")), "1": good_answer(&sample()), "2": good_answer(&roots())});
            assert_eq!(text(&response)["answers"], answers, "{era} {client:?}");
            let of = |method: &str| {
                let found = asked.iter().find(|question| question["method"] == method);
                found.unwrap_or_else(|| panic!("{method} is not in {asked:?}"))["params"].clone()
            };
            let asked_form = of("elicitation/create");
            assert_eq!(asked_form["message"], r#"The MCP server "up" asks: Your name?"#);
            assert_eq!(asked_form["requestedSchema"], form("")["params"]["requestedSchema"]);
            let sampled = of("sampling/createMessage");
            assert_eq!((&sampled["maxTokens"], sampled.get("includeContext")), (&json!(5), None));
            assert_eq!(of("roots/list")["_meta"]["airlock/client"], "up");
        }
        assert_eq!(asking.ran(), "ask\nask\n", "{era}: each call ran once");
    }
}

#[tokio::test]
async fn a_server_may_ask_in_several_rounds_and_not_without_an_end() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        for client in asking.endpoint().both().await {
            let rounds = |rounds: u32| {
                let arguments = json!({"questions": [form("Name?")], "rounds": rounds});
                json!({"name": "up-ask", "arguments": arguments})
            };
            let (response, asked) = conversed(&client, "tools/call", rounds(3), good_answer).await;
            assert_eq!(
                (asked.len(), text(&response)["answers"]["0"]["action"].as_str()),
                (3, Some("accept"))
            );
            let (response, asked) = conversed(&client, "tools/call", rounds(40), good_answer).await;
            assert_eq!(asked.len(), 16, "{era} {client:?} {response}");
        }
    }
}

#[tokio::test]
async fn nothing_is_asked_without_the_operator_or_beyond_what_a_client_can_answer() {
    for era in ERAS {
        let asking = Asking::with(era, |client| client).await;
        for client in asking.endpoint().both().await {
            let (response, asked) =
                conversed(&client, "tools/call", ask(&[form("Name?")]), good_answer).await;
            refused(&response, &asked, era);
        }
        let plain = json!({"name": "up-ask", "arguments": {}});
        for client in asking.endpoint().both().await {
            let (response, _) = conversed(&client, "tools/call", plain.clone(), good_answer).await;
            assert_eq!(capabilities(&response), json!({}), "{era} {client:?}");
        }
        let asking =
            Asking::with(era, |client| client.set("/allow", ["elicitation"].as_slice())).await;
        let forms = Endpoint::new(&asking.gateway)
            .with_capabilities(json!({"elicitation": {}, "roots": {}}));
        for client in forms.both().await {
            for question in [roots(), sample(), url("https://example.com/")] {
                let (response, asked) =
                    conversed(&client, "tools/call", ask(&[question]), good_answer).await;
                refused(&response, &asked, era);
            }
            let (response, asked) =
                conversed(&client, "tools/call", ask(&[form("?")]), good_answer).await;
            assert_eq!(asked.len(), 1, "{response}");
            // A modern server learns what its caller can answer; a legacy one what it may ask at all.
            let expected = if era == "modern" {
                json!({"elicitation": {"form": {}}})
            } else {
                json!({"elicitation": {"form": {}, "url": {}}})
            };
            assert_eq!(capabilities(&response), expected);
        }
        let none = Endpoint::new(&asking.gateway);
        for client in none.both().await {
            let (response, asked) =
                conversed(&client, "tools/call", ask(&[form("?")]), good_answer).await;
            refused(&response, &asked, era);
        }
    }
}

/// Returns the questions that the server may ask, by the capabilities that it has seen.
fn capabilities(response: &Value) -> Value {
    let mut capabilities = text(response)["capabilities"].clone();
    capabilities.as_object_mut().expect("capabilities").remove("extensions");
    capabilities
}

/// Checks that nothing was asked: a legacy server gets errors, the call of a modern one fails.
fn refused(response: &Value, asked: &[Value], era: &str) {
    assert!(asked.is_empty(), "{asked:?}");
    if era == "legacy" {
        assert_eq!(text(response)["answers"]["0"]["error"]["code"], -32601, "{response}");
    } else {
        assert_eq!(response["result"]["isError"], true, "{response}");
    }
}

#[tokio::test]
async fn questions_that_could_deceive_or_overload_are_refused() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        for client in asking.endpoint().both().await {
            let mut with_tools = sample();
            with_tools["params"]["tools"] = json!([{"name": "x", "inputSchema": {}}]);
            let huge = form(&"x".repeat(65 << 10));
            for question in
                [url("http://example.com/"), url("javascript:alert(1)"), with_tools, huge]
            {
                let (response, asked) =
                    conversed(&client, "tools/call", ask(&[question]), good_answer).await;
                assert!(asked.is_empty(), "{asked:?}");
                let is_refused = response["result"]["isError"] == true
                    || text(&response)["answers"]["0"]["error"]["code"].is_number();
                assert!(is_refused, "{era} {response}");
            }
            let (_, asked) =
                conversed(&client, "tools/call", ask(&[url("https://example.com/a")]), good_answer)
                    .await;
            assert_eq!(asked[0]["params"]["url"], "https://example.com/a");
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_answer_cancels_the_question() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        let session = asking.endpoint().session().await;
        for (question, is_form) in [(form("Name?"), true), (roots(), false)] {
            let mut stream = session.request("tools/call", ask(&[question])).stream().await;
            let asked = stream.next().await.expect("a question");
            let refusal = session.respond(&asked["id"], json!({})).member("/result", ());
            let reply =
                refusal.member("/error", json!({"code": -1, "message": "no"})).reply().await;
            assert_eq!(reply.status, 202, "{}", reply.text);
            let response = stream.next().await.expect("a response");
            if is_form {
                assert_eq!(text(&response)["answers"]["0"], json!({"action": "cancel"}), "{era}");
            } else if era == "legacy" {
                assert_eq!(text(&response)["answers"]["0"]["error"]["code"], -1, "{response}");
            } else {
                assert_eq!(response["result"]["isError"], true, "{response}");
            }
        }
    }
}

#[tokio::test]
async fn answers_count_once_and_only_for_the_call_that_asked() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        let ann = asking.endpoint().key(ANN);
        let bob = asking.endpoint().key(BOB);
        let call = ask(&[form("Name?")]);
        let asked = ann.modern("tools/call", call.clone()).result().await;
        let key =
            asked["inputRequests"].as_object().expect("questions").keys().next().expect("one");
        let answers = json!({key: {"action": "accept", "content": {"name": "Ann"}}});
        let go_on = |endpoint: &Endpoint, call: &Value| {
            again(endpoint, "tools/call", call, &asked, answers.clone())
        };
        let mut forged = asked.clone();
        forged["requestState"] = "question.00000000000000000000000000000000".into();
        let mut other = ask(&[form("Name?")]);
        other["name"] = "up-note".into();
        for request in [
            go_on(&bob, &call),
            go_on(&ann, &ask(&[form("Other?")])),
            go_on(&ann, &other),
            again(&ann, "tools/call", &call, &forged, answers.clone()),
        ] {
            let error = request.error().await;
            assert_eq!(error["code"], -32602, "{error}");
        }
        // Without an answer, the question is asked again, with another state.
        let empty = again(&ann, "tools/call", &call, &asked, json!({})).result().await;
        assert_eq!(empty["resultType"], "input_required", "{empty}");
        let done = again(&ann, "tools/call", &call, &empty, answers.clone()).result().await;
        assert_eq!(done["content"][0]["type"], "text", "{done}");
        for state in [&asked, &empty] {
            let error = again(&ann, "tools/call", &call, state, answers.clone()).error().await;
            assert_eq!(error["code"], -32602, "{error}");
        }
        assert_eq!(asking.ran(), "ask\n");
    }
}

#[tokio::test]
async fn a_state_is_no_approval() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        let endpoint = asking.endpoint();
        let call = json!({"name": "up-note", "arguments": asking_nothing()});
        // The approval is asked first, and its state is not that of a question.
        let approval = endpoint.modern("tools/call", call.clone()).result().await;
        assert!(approval["inputRequests"]["approval"].is_object(), "{approval}");
        for state in ["question.", "question.x", "question.00000000000000000000000000000000"] {
            let mut forged = approval.clone();
            forged["requestState"] = state.into();
            let accept = json!({"approval": {"action": "accept"}});
            let error = again(&endpoint, "tools/call", &call, &forged, accept).error().await;
            assert_eq!(error["code"], -32602, "{error}");
        }
        assert_eq!(asking.ran(), "");
        // With an approval, the tool runs and asks.
        let call = json!({"name": "up-note", "arguments": {"questions": [form("Name?")]}});
        let answer = |question: &Value| match &question["params"]["requestedSchema"]["properties"] {
            Value::Object(fields) if fields.is_empty() => {
                json!({"action": "accept", "content": {}})
            }
            _ => good_answer(question),
        };
        for client in endpoint.both().await {
            let (response, asked) = conversed(&client, "tools/call", call.clone(), answer).await;
            assert_eq!(
                (asked.len(), text(&response)["answers"]["0"]["action"].as_str()),
                (2, Some("accept"))
            );
        }
    }
}

fn asking_nothing() -> Value {
    json!({"questions": []})
}

#[tokio::test]
async fn a_prompt_of_a_modern_server_may_ask() {
    let asking = Asking::start("modern").await;
    let questions = json!([form("Context?")]).to_string();
    let get = json!({"name": "ask", "arguments": {"questions": questions}});
    for client in asking.endpoint().source("up").both().await {
        let (response, asked) = conversed(&client, "prompts/get", get.clone(), good_answer).await;
        assert_eq!(asked.len(), 1, "{response}");
        assert_eq!(text(&response)["answers"]["0"]["content"]["name"], "Ann");
    }
}

#[tokio::test]
async fn a_chat_ends_with_the_question_and_the_caller_goes_on_with_the_answer() {
    for era in ERAS {
        let asking = Asking::start(era).await;
        let answer = asking.gateway.chat("scripted/model", "hello").await.ok();
        let pending = &answer["airlock"]["pending"][0];
        assert_eq!(
            (&pending["name"], &pending["reason"]),
            (&json!("up-ask"), &json!("input_required")),
            "{answer}"
        );
        let asked = &pending["input_required"];
        let (key, question) =
            asked["input_requests"].as_object().expect("questions").iter().next().expect("one");
        assert_eq!(question["params"]["message"], r#"The MCP server "up" asks: Name?"#);
        let call = answer["choices"][0]["message"]["tool_calls"][0].clone();
        let mut body = call.clone();
        body["request_state"] = asked["request_state"].clone();
        body["input_responses"] = json!({key: good_answer(question)});
        let reply = asking.gateway.post("/v1/mcp/tool/execute?present=raw", &body).await.ok();
        let content: Value =
            serde_json::from_str(reply["content"].as_str().expect("text")).expect("JSON");
        assert_eq!(content["answers"]["0"]["content"]["name"], "Ann", "{reply}");
        let again = asking.gateway.post("/v1/mcp/tool/execute?present=raw", &body).await;
        assert_eq!(again.refusal().0, 400, "{}", again.text);
        assert_eq!(again.code(), "not_waiting");
        // Executed by hand from the start, the tool asks in the same way.
        let reply = asking.gateway.post("/v1/mcp/tool/execute", &call).await.ok();
        assert_eq!(reply["is_error"], true);
        assert!(reply["airlock"]["input_required"]["request_state"].is_string(), "{reply}");
        assert_eq!(asking.ran(), "ask\n");
    }
}
