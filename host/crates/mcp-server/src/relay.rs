//! `resources/read`, `prompts/get` and `completion/complete`: the door, and the result in the era of
//! the client.

use std::time::Duration;

use serde_json::Value;

use super::{
    exchange::Outlet,
    offers::{OfferList, Offering, wrapped},
    questions::{self, Dialog},
    resources::{MAX_NAME_BYTES, failed, not_found, target},
    result::{SERVER_INFO, repaired, server_info},
    service::{Incoming, Requester},
    trace,
};
use airlock_core::{
    door::{RelayError, RelayRequest, Subject},
    tool::{ClientName, Content, InputRequired},
};
use airlock_json::{Caps, RawObject, raw};
use airlock_strings::cut;
use airlock_wire::{
    error::{RpcError, code},
    message::Request,
    method,
    version::Version,
};

/// Result of a completion that no server makes.
const NO_COMPLETION: &str = r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#;

/// Returns whether [`run`] handles a method.
pub fn is_relayed(method: &str) -> bool {
    matches!(method, method::RESOURCES_READ | method::PROMPTS_GET | method::COMPLETE)
}

/// Handles a request. Returns the result as JSON text.
pub(super) async fn run(
    Incoming { service, client, request, outlet }: Incoming,
) -> Result<String, RpcError> {
    let toolbox = service.toolboxes().open(&client.selection);
    let version = client.peer.version;
    let context = Context {
        offering: toolbox.offering(),
        client: &client,
        request: &request,
        outlet: &outlet,
        limit: service.settings().approval_timeout,
    };
    let response = match request.method.as_str() {
        method::RESOURCES_READ => context.read().await?,
        method::PROMPTS_GET => context.get().await?,
        _ => RelayResponse::Result(complete(context.offering, &client, &request).await?),
    };
    Ok(match response {
        RelayResponse::Result(result) => result.write(version),
        RelayResponse::Asked(asked) => questions::input_required(&asked),
    })
}

/// Response to a client.
enum RelayResponse {
    /// The result of the source.
    Result(Relayed),
    /// The questions of the source.
    Asked(Box<InputRequired>),
}

/// One request for a resource or a prompt.
struct Context<'c> {
    offering: &'c Offering,
    client: &'c Requester,
    request: &'c Request,
    outlet: &'c Outlet,
    /// Time for the client to answer questions.
    limit: Duration,
}

impl Context<'_> {
    /// Sends a request to a source. A legacy client is asked what the source asks, a bounded number
    /// of times; the questions for a modern one are the error.
    async fn relay(
        &self,
        source: &ClientName,
        request: RelayRequest,
    ) -> Result<Result<String, RelayError>, RpcError> {
        let params = &self.request.params;
        let mut dialog = Dialog::new(self.client.peer, params, self.outlet, self.limit)?;
        loop {
            let admitted = self.offering.view().admit(source, request.clone(), self.client.timeout);
            let relay = match admitted {
                Ok(relay) => relay.with_capabilities(dialog.capabilities()),
                Err(error) => return Ok(Err(error)),
            };
            let ran = match dialog.take() {
                Some(answers) => relay.answering(answers).run().await,
                None => relay.run().await,
            };
            match ran {
                Err(RelayError::InputRequired(asked)) => {
                    let answered = dialog.answer(asked, None, |token| {
                        self.offering.view().forget(source, token);
                    });
                    if let Err(asked) = answered.await {
                        return Ok(Err(RelayError::InputRequired(asked)));
                    }
                }
                Err(error @ RelayError::NotWaiting) => {
                    return Err(RpcError::invalid_params(error.to_string()));
                }
                ran => {
                    // Whatever the trust in the server's tools is, as for models.
                    self.client.received.receive(&source.into());
                    return Ok(ran);
                }
            }
        }
    }

    async fn read(&self) -> Result<RelayResponse, RpcError> {
        let version = self.client.peer.version;
        let (uri, target) = target(self.offering, self.request, version)?;
        let read = RelayRequest::Read { uri: target.uri.clone() };
        let ran = match self.relay(&target.client, read).await? {
            Err(RelayError::InputRequired(asked)) => return Ok(RelayResponse::Asked(asked)),
            ran => ran,
        };
        let text = ran.map_err(|error| match error {
            // The code of either era: a URI is the only parameter.
            RelayError::NotFound
            | RelayError::Unsupported
            | RelayError::Refused { code: -32_002 | -32_602, .. } => not_found(&uri, version),
            error => failed(&self.request.method, &target.client, &error),
        })?;
        let mut result = Relayed::parse(text)?;
        if target.is_wrapped {
            result.wrap_uris(&target.client);
        }
        if version.is_modern() {
            result.make_private();
        }
        Ok(RelayResponse::Result(result))
    }

    async fn get(&self) -> Result<RelayResponse, RpcError> {
        let offering = self.offering;
        let request = self.request;
        if !offering.has(OfferList::Prompts) {
            return Err(RpcError::method_not_found(&request.method));
        }
        let name = request.params.string("name").filter(|name| name.len() <= MAX_NAME_BYTES);
        let name = name.ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let (source, original) = offering.prompt(&name).ok_or_else(|| unknown_prompt(&name))?;
        trace::name_prompt(&name);
        let arguments = object(request, "arguments")?;
        let get = RelayRequest::Prompt { name: original, arguments };
        let ran = match self.relay(&source, get).await? {
            Err(RelayError::InputRequired(asked)) => return Ok(RelayResponse::Asked(asked)),
            ran => ran,
        };
        let text = ran.map_err(|error| match error {
            RelayError::NotFound | RelayError::Unsupported => unknown_prompt(&name),
            error => failed(&request.method, &source, &error),
        })?;
        let mut result = Relayed::parse(text)?;
        result.repair_messages(self.client.peer.version);
        Ok(RelayResponse::Result(result))
    }
}

fn unknown_prompt(name: &str) -> RpcError {
    RpcError::invalid_params(format!("there is no prompt {:?}", shortened(name)))
}

async fn complete(
    offering: &Offering,
    client: &Requester,
    request: &Request,
) -> Result<Relayed, RpcError> {
    if !offering.has(OfferList::Resources) && !offering.has(OfferList::Prompts) {
        return Err(RpcError::method_not_found(&request.method));
    }
    let subject = request.params.get("ref").unwrap_or_default();
    let (source, subject) = completed(offering, subject).ok_or_else(unknown_reference)?;
    let argument = object(request, "argument")?
        .ok_or_else(|| RpcError::invalid_params("`argument` must be an object"))?;
    let context = object(request, "context")?;
    let complete = RelayRequest::Complete { subject, argument, context };
    let ran = match offering.view().admit(&source, complete, client.timeout) {
        Ok(relay) => relay.run().await,
        Err(error) => Err(error),
    };
    let text = match ran {
        // Not every server completes arguments; a client asks while its user writes.
        Err(RelayError::Unsupported) => NO_COMPLETION.to_owned(),
        Err(RelayError::NotFound) => return Err(unknown_reference()),
        ran => ran.map_err(|error| failed(&request.method, &source, &error))?,
    };
    Relayed::parse(text)
}

/// Finds what a `ref` names, and its source.
fn completed(offering: &Offering, reference: &str) -> Option<(ClientName, Subject)> {
    let kind = raw::member(reference, "type").and_then(raw::string);
    match kind.as_deref() {
        Some("ref/prompt") => {
            let name = raw::member(reference, "name").and_then(raw::string)?;
            let (source, name) = offering.prompt(&name)?;
            Some((source, Subject::Prompt(name)))
        }
        Some("ref/resource") => {
            let uri = raw::member(reference, "uri").and_then(raw::string);
            let target = offering.template(&uri.filter(|uri| uri.len() <= MAX_NAME_BYTES)?)?;
            Some((target.client, Subject::Template(target.uri)))
        }
        _ => None,
    }
}

fn unknown_reference() -> RpcError {
    RpcError::invalid_params("`ref` names no prompt or resource template")
}

/// Returns a parameter that is an object or absent, as text.
fn object(request: &Request, member: &str) -> Result<Option<String>, RpcError> {
    match request.params.get(member) {
        None | Some("null") => Ok(None),
        Some(object) if object.starts_with('{') => Ok(Some(object.to_owned())),
        Some(_) => Err(RpcError::invalid_params(format!("`{member}` must be an object"))),
    }
}

fn shortened(name: &str) -> String {
    cut(name.to_owned(), 128)
}

/// Result of a source, whose members stay as they were written.
struct Relayed(RawObject);

impl Relayed {
    fn parse(text: String) -> Result<Self, RpcError> {
        let parsed = RawObject::parse(text.into_bytes(), &Caps::memory(usize::MAX));
        let (object, _) =
            parsed.map_err(|_| RpcError::new(code::INTERNAL, "the result has too many members"))?;
        Ok(Self(object))
    }

    /// Replaces the URIs of a resource's contents by those that name their client.
    fn wrap_uris(&mut self, client: &ClientName) {
        self.map("contents", |part| {
            let uri = part.get("uri").and_then(raw::string)?;
            Some(("uri", Value::from(wrapped(client, &uri)).to_string()))
        });
    }

    /// Changes the content of messages that the client's revision does not know to text.
    fn repair_messages(&mut self, version: Version) {
        self.map("messages", |message| {
            let content: Value = serde_json::from_str(message.get("content")?).ok()?;
            let before = content.to_string();
            let content = repaired(Content::from_mcp(content), version);
            let content = serde_json::to_string(&content).ok()?;
            (content != before).then_some(("content", content))
        });
    }

    /// Changes one member of some elements of a list. Elements that are no objects are left out.
    fn map(&mut self, list: &str, change: impl Fn(&RawObject) -> Option<(&'static str, String)>) {
        let Some(elements) = self.0.get(list).and_then(raw::elements) else { return };
        let changed: Vec<String> = elements
            .filter_map(|element| {
                let caps = Caps::memory(usize::MAX);
                let (mut object, _) = RawObject::parse(element.as_bytes().to_vec(), &caps).ok()?;
                if let Some((member, value)) = change(&object) {
                    object.set(member, value);
                }
                Some(object.to_text())
            })
            .collect();
        self.0.set(list, format!("[{}]", changed.join(",")));
    }

    /// Lets only the client keep the result, for no longer than its source says.
    fn make_private(&mut self) {
        let ttl = self.0.get("ttlMs").and_then(|ttl| ttl.parse::<u64>().ok()).unwrap_or(0);
        self.0.set("ttlMs", ttl.to_string());
        self.0.set("cacheScope", "\"private\"");
    }

    /// Returns the text, in the era of the client. A modern result names the gateway, not its
    /// source.
    fn write(mut self, version: Version) -> String {
        let mut meta = self.0.object("_meta").and_then(Result::ok).unwrap_or_default();
        meta.remove(SERVER_INFO);
        if version.is_modern() {
            self.0.set("resultType", "\"complete\"");
            meta.set(SERVER_INFO, server_info().to_string());
        } else {
            for modern in ["resultType", "ttlMs", "cacheScope"] {
                self.0.remove(modern);
            }
        }
        if meta.iter().next().is_some() {
            self.0.set("_meta", meta.to_text());
        } else {
            self.0.remove("_meta");
        }
        self.0.to_text()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn relayed(text: &str) -> Relayed {
        Relayed::parse(text.to_owned()).expect("an object")
    }

    #[test]
    fn a_result_names_the_gateway_and_is_of_the_clients_era() {
        let text = r#"{"contents":[],"n":1.10,"ttlMs":5,"resultType":"complete","cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"inner"},"k":1}}"#;
        let legacy = relayed(text).write(Version::V2025_11_25);
        assert_eq!(legacy, r#"{"contents":[],"n":1.10,"_meta":{"k":1}}"#);
        let mut modern = relayed(text);
        modern.make_private();
        let modern: Value =
            serde_json::from_str(&modern.write(Version::V2026_07_28)).expect("JSON");
        assert_eq!((&modern["ttlMs"], &modern["cacheScope"]), (&json!(5), &json!("private")));
        assert_eq!(modern["_meta"][SERVER_INFO]["name"], "airlock");
        assert_eq!((&modern["_meta"]["k"], &modern["resultType"]), (&json!(1), &json!("complete")));
        let mut odd = relayed(r#"{"contents":[],"ttlMs":-1,"_meta":7}"#);
        odd.make_private();
        assert!(odd.write(Version::V2026_07_28).contains(r#""ttlMs":0"#));
        assert_eq!(relayed(r#"{"_meta":{}}"#).write(Version::V2025_11_25), "{}");
    }

    #[test]
    fn contents_of_a_resource_that_was_named_with_its_client_are_named_so_too() {
        let mut result = relayed(r#"{"contents":[{"uri":"a://b","text":"1.0"},7,{"x":1.10}]}"#);
        result.wrap_uris(&ClientName::parse("up").expect("a good name"));
        let expected = r#"{"contents":[{"uri":"airlock://up/a://b","text":"1.0"},{"x":1.10}]}"#;
        assert_eq!(result.write(Version::V2025_11_25), expected);
    }

    #[test]
    fn content_that_a_revision_does_not_know_becomes_text() {
        let text = r#"{"messages":[{"role":"user","content":{"type":"audio","data":"AA==","mimeType":"audio/wav"}}]}"#;
        for (version, expected) in [
            (Version::V2025_03_26, r#""type":"audio""#),
            (Version::V2024_11_05, r#""type":"text""#),
        ] {
            let mut result = relayed(text);
            result.repair_messages(version);
            assert!(result.write(version).contains(expected), "{version:?}");
        }
    }
}
