//! The imports of the contract, for native builds: the same names and types as the generated ones.
//! Without a host, reading finds nothing and everything else is unavailable.

pub(crate) mod log {
    use crate::testing::state::{Line, current};

    pub(crate) use crate::bindings::airlock::host::log::Level;

    pub(crate) fn write(level: Level, message: &str, fields: &[(String, String)]) {
        let line =
            Line { level: level.into(), message: message.to_owned(), fields: fields.to_vec() };
        if let Some(state) = current() {
            state.lines.borrow_mut().push(line);
        } else {
            let fields = line.fields.iter().map(|(name, value)| format!(" {name}={value}"));
            eprintln!("{:?} {}{}", line.level, line.message, fields.collect::<String>());
        }
    }
}

pub(crate) mod context {
    use crate::bindings::airlock::types::types::Content;
    use crate::testing::state::Progress;
    use crate::wire;

    pub(crate) use crate::testing::state::CallContext;

    impl CallContext {
        #[expect(clippy::unused_self, reason = "a method in the contract")]
        pub(crate) fn id(&self) -> String {
            "test".to_owned()
        }

        pub(crate) fn remaining_ms(&self) -> Option<u64> {
            self.0.remaining.borrow().map(wire::milliseconds)
        }

        pub(crate) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
            let message = message.map(str::to_owned);
            self.0.progress.borrow_mut().push(Progress { done, total, message });
        }

        pub(crate) fn emit(&self, part: &Content) {
            let part = wire::content_from_host(part.clone());
            self.0.parts.borrow_mut().push(part.expect("the part was converted from a `Content`"));
        }
    }
}

pub(crate) mod config {
    use crate::testing::state::current;

    pub(crate) fn get(key: &str) -> Option<String> {
        current()?.config.borrow().get(key).map(ToString::to_string)
    }

    pub(crate) fn get_all() -> String {
        let config = current().map(|state| state.config.borrow().clone());
        serde_json::Value::Object(config.unwrap_or_default()).to_string()
    }
}

pub(crate) mod secrets {
    use crate::testing::state::current;

    pub(crate) fn exists(name: &str) -> bool {
        current().is_some_and(|state| state.secrets.borrow().contains_key(name))
    }
}

pub(crate) mod secrets_reveal {
    use crate::testing::state::{NO_HOST, current};

    pub(crate) use crate::bindings::airlock::host::secrets_reveal::SecretError;

    pub(crate) fn reveal(name: &str) -> Result<Vec<u8>, SecretError> {
        let state = current().ok_or_else(|| SecretError::Unavailable(NO_HOST.to_owned()))?;
        match state.secrets.borrow().get(name) {
            Some(secret) if secret.is_revealed => Ok(secret.value.clone()),
            Some(_) => Err(SecretError::Denied),
            None => Err(SecretError::NoSuchSecret),
        }
    }
}

pub(crate) mod kv {
    use crate::testing::state::{NO_HOST, current};

    pub(crate) use crate::bindings::airlock::host::kv::{Entry, KvError};
    pub(crate) use crate::testing::store::TestStore as Store;

    pub(crate) fn open(name: &str) -> Result<Store, KvError> {
        let state = current().ok_or_else(|| KvError::Unavailable(NO_HOST.to_owned()))?;
        state.stores.borrow().get(name).cloned().map(Store::new).ok_or(KvError::NoSuchStore)
    }
}

pub(crate) mod tools {
    use serde_json::{Value, json};

    use crate::bindings::airlock::types::types::{ToolDescriptor, ToolError, ToolOutput};
    use crate::testing::state::{NO_HOST, State, current};
    use crate::{Descriptor, Error, wire};

    pub(crate) use crate::bindings::airlock::host::tools::{CallRequest, ToolPage, ToolSummary};

    fn host() -> Result<std::rc::Rc<State>, ToolError> {
        current().ok_or_else(|| wire::error_to_host(Error::unavailable(NO_HOST)))
    }

    fn missing(name: &str) -> ToolError {
        let message = format!("tool '{name}' is not available or not permitted");
        wire::error_to_host(Error::not_found(message).with_code("airlock.not_found"))
    }

    /// Returns the position of a name in the list: slots come first, and have no `-`.
    fn position(name: &str) -> (bool, &str) {
        (name.contains('-'), name)
    }

    pub(crate) fn list(cursor: Option<&str>, limit: u32) -> Result<ToolPage, ToolError> {
        let state = host()?;
        let tools = state.tools.borrow();
        let mut names: Vec<_> = tools.keys().collect();
        names.sort_by_key(|name| position(name));
        let after = cursor.map(position);
        let mut names =
            names.into_iter().filter(|name| after.is_none_or(|after| position(name) > after));
        let limit = limit.clamp(1, 1_000) as usize;
        let items = names.by_ref().take(limit).map(|name| ToolSummary {
            name: name.clone(),
            title: None,
            description: String::new(),
        });
        let items: Vec<_> = items.collect();
        let next = names.next().and_then(|_| items.last().map(|item| item.name.clone()));
        Ok(ToolPage { items, next })
    }

    pub(crate) fn describe(name: &str) -> Result<ToolDescriptor, ToolError> {
        if !host()?.tools.borrow().contains_key(name) {
            return Err(missing(name));
        }
        let schema = json!({ "type": "object" }).try_into().expect("an object is a schema");
        Ok(wire::descriptor_to_host(Descriptor::new(name, "", schema)))
    }

    pub(crate) fn call(request: &CallRequest) -> Result<ToolOutput, ToolError> {
        // Not borrowed during the call, because the function may itself call tools.
        let tool = host()?.tools.borrow().get(&request.name).cloned();
        let tool = tool.ok_or_else(|| missing(&request.name))?;
        let Ok(arguments @ Value::Object(_)) = serde_json::from_str(&request.arguments) else {
            let error = Error::invalid_input("the arguments must be a JSON object");
            return Err(wire::error_to_host(error.with_code("airlock.bad_arguments")));
        };
        tool(arguments).map(wire::output_to_host).map_err(wire::error_to_host)
    }

    pub(crate) fn call_batch(requests: &[CallRequest]) -> Vec<Result<ToolOutput, ToolError>> {
        requests.iter().map(call).collect()
    }
}

pub(crate) mod http {
    use crate::bindings::airlock::host::http::{HttpError, HttpErrorKind};
    use crate::testing::state::{HttpResponder, NO_HOST, State, current};

    pub(crate) use crate::bindings::airlock::host::http::{Header, Redirects, Request, Response};

    /// Largest number of secrets that one request names, as the host has it (`host.wit`).
    const CREDENTIALS_MAX: usize = 8;

    pub(crate) fn send(request: &Request) -> Result<Response, HttpError> {
        let state = current().ok_or_else(|| failure(HttpErrorKind::Unavailable, NO_HOST))?;
        let server = permit(&state, request)?;
        let mut response = server(request)?;
        if response.final_url.is_empty() {
            response.final_url.clone_from(&request.url);
        }
        let max = request.max_response_bytes.unwrap_or(u64::MAX);
        if response.body.len() as u64 > max {
            let message = format!("the response is larger than {max} bytes");
            return Err(HttpError { kind: HttpErrorKind::TooLarge, message, request_sent: true });
        }
        Ok(response)
    }

    fn permit(state: &State, request: &Request) -> Result<HttpResponder, HttpError> {
        const DENIED: &str = "the request is not permitted";
        if request.credentials.len() > CREDENTIALS_MAX {
            let message = format!("a request has at most {CREDENTIALS_MAX} credentials");
            return Err(failure(HttpErrorKind::InvalidRequest, &message));
        }
        let secrets = state.secrets.borrow();
        if !request.credentials.iter().all(|name| secrets.contains_key(name)) {
            return Err(failure(HttpErrorKind::Denied, DENIED));
        }
        if state.requested.as_ref().is_some_and(|requested| !requested.may_reach(&request.url)) {
            let message = format!("plugin.toml has no [request.http.NAME] for {}", request.url);
            return Err(failure(HttpErrorKind::Denied, &message));
        }
        let server = state.server.borrow().clone();
        server.ok_or_else(|| failure(HttpErrorKind::Denied, DENIED))
    }

    fn failure(kind: HttpErrorKind, message: &str) -> HttpError {
        HttpError { kind, message: message.to_owned(), request_sent: false }
    }
}
