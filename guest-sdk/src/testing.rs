//! A host for native tests: `cargo test` runs a plugin's tools without a gateway.
//!
//! A [`Host`] has the configuration, stores, secrets and tools that a test declares. Everything
//! else is refused, in the same way as the gateway refuses what is not requested or granted. What a
//! test declares must be requested in the `plugin.toml` of the crate, if it has one: a declaration of
//! something else panics.
//! Progress, log lines and emitted parts are kept for the test.
//!
//! ```
//! use airlock_guest::{Context, Error, config, http::{Request, Response}, kv, log, tool};
//! use airlock_guest::{serde_json::{Value, json}, testing::Host};
//!
//! /// Returns the temperature in a city.
//! #[tool(read_only)]
//! fn temperature(city: String, context: &Context) -> Result<String, Error> {
//!     let unit: Option<String> = config::get("unit")?;
//!     let response = Request::get("https://api.example.com/now")
//!         .with_query("city", &city)
//!         .with_credential("token")
//!         .send()?;
//!     context.progress(1.0, Some(2.0), Some("received"));
//!     let weather: Value = response.ok()?.json()?;
//!     kv::open("seen")?.set(&city, weather["value"].to_string())?;
//!     log::info!(city, "observed {}", weather["value"]);
//!     Ok(format!("{} {}", weather["value"], unit.unwrap_or_default()))
//! }
//!
//! let host = Host::new()
//!     .config(json!({ "unit": "K" }))
//!     .secret("token", "s3cret")
//!     .kv("seen")
//!     .http(|request| {
//!         assert_eq!(request.url(), "https://api.example.com/now?city=Oslo");
//!         Response::new(200).with_json(&json!({ "value": 280 }))
//!     });
//!
//! let output = host.call::<temperature>(json!({ "city": "Oslo" })).unwrap();
//! assert_eq!(output.first_text(), Some("280 K"));
//! assert_eq!(host.store("seen").get("Oslo").unwrap().unwrap().value, b"280");
//! assert_eq!(host.progress()[0].message.as_deref(), Some("received"));
//! assert_eq!(host.logs()[0].message, "observed 280");
//! ```
//!
//! The mock does not check schemas, decide URLs or limit fuel; `airlock plugin dev --call` runs the
//! built plugin under the real policy. A host belongs to its thread.

pub(crate) mod imports;
mod requested;
mod state;
mod store;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use self::requested::Requested;
use self::state::{CURRENT, CallContext, HttpResponder, Secret, State};
pub use self::state::{Line, Progress};
use self::store::Contents;
use crate::http::{HttpError, Request, Response};
use crate::{Content, Context, Error, Output, Tool, kv, runtime};

/// A host for tests; see the [module](self).
#[derive(Debug)]
#[must_use = "a host does nothing until a tool is called on it"]
pub struct Host(CallContext);

impl Host {
    /// Creates a host that grants nothing.
    pub fn new() -> Self {
        runtime::start();
        let requested = Requested::of_crate();
        Self(CallContext(Rc::new(State { requested, ..State::default() })))
    }

    /// Sets the configuration of the plugin.
    ///
    /// # Panics
    ///
    /// Panics if it is not a JSON object.
    pub fn config(self, config: Value) -> Self {
        let Value::Object(config) = config else {
            panic!("the configuration of a plugin is a JSON object, not {config}");
        };
        if let Some(requested) = &self.state().requested {
            requested.expect_config();
        }
        self.state().config.replace(config);
        self
    }

    /// Grants every destination, and responds to requests with `server`: with a [`Response`], or
    /// with a `Result` whose error is an [`HttpError`].
    pub fn http<R: Into<Result<Response, HttpError>>>(
        self,
        server: impl Fn(&Request) -> R + 'static,
    ) -> Self {
        if let Some(requested) = &self.state().requested {
            requested.expect_http();
        }
        let server: HttpResponder = Rc::new(move |request| {
            let response: Result<Response, HttpError> = server(&request.clone().into()).into();
            response.map(Response::into_host).map_err(HttpError::into_host)
        });
        self.state().server.replace(Some(server));
        self
    }

    /// Grants a store of this name, which is empty and has no quota. Its time stands still.
    pub fn kv(self, name: impl Into<String>) -> Self {
        self.with_store(name.into(), Contents::default())
    }

    /// Grants a store of this name with a quota. An entry counts with its key, its value and 64
    /// bytes.
    pub fn kv_with_quota(self, name: impl Into<String>, bytes: usize) -> Self {
        self.with_store(name.into(), Contents::with_quota(bytes))
    }

    fn with_store(self, name: String, contents: Contents) -> Self {
        if let Some(requested) = &self.state().requested {
            requested.expect("kv", &name, "store");
        }
        self.state().stores.borrow_mut().insert(name, Rc::new(RefCell::new(contents)));
        self
    }

    /// Grants a secret of this name, for requests alone: reading its value is denied.
    pub fn secret(self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.with_secret(name.into(), Secret { value: value.into(), is_revealed: false })
    }

    /// Grants a secret of this name, and its value to [`secrets::reveal`](crate::secrets::reveal).
    pub fn revealed_secret(self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.with_secret(name.into(), Secret { value: value.into(), is_revealed: true })
    }

    fn with_secret(self, name: String, secret: Secret) -> Self {
        if let Some(requested) = &self.state().requested {
            requested.expect("secret", &name, "secret");
        }
        self.state().secrets.borrow_mut().insert(name, secret);
        self
    }

    /// Grants a tool by the name of its slot, or its full name, and responds to its calls with
    /// `function`.
    pub fn tool(
        self,
        name: impl Into<String>,
        function: impl Fn(Value) -> Result<Output, Error> + 'static,
    ) -> Self {
        let name: String = name.into();
        if let Some(requested) = &self.state().requested {
            requested.expect_tool(&name);
        }
        self.state().tools.borrow_mut().insert(name, Rc::new(function));
        self
    }

    /// Sets the time that a call has left. Without it, the time is not limited.
    pub fn remaining(self, time: Duration) -> Self {
        self.state().remaining.replace(Some(time));
        self
    }

    /// Calls a tool with arguments, as a client would. The content of the result, or of the error,
    /// begins with the parts that the call emits.
    pub fn call<T: Tool>(&self, arguments: impl Serialize) -> Result<Output, Error> {
        let arguments = serde_json::to_string(&arguments).map_err(|error| {
            Error::internal(format!("the test's arguments are not JSON: {error}"))
        })?;
        let before = self.state().parts.borrow().len();
        let mut answer = self.run(|context| T::invoke(&arguments, context));
        let emitted = self.state().parts.borrow()[before..].to_vec();
        match &mut answer {
            Ok(output) => drop(output.content.splice(..0, emitted)),
            Err(error) => error.prepend(emitted),
        }
        answer
    }

    /// Runs code that calls functions of the host, such as the function of a tool.
    pub fn run<T>(&self, code: impl FnOnce(&Context<'_>) -> T) -> T {
        let _restored = Restored(CURRENT.replace(Some(Rc::clone(&self.0.0))));
        code(&self.context())
    }

    /// Returns the context of a call. Only its own functions reach the host outside of
    /// [`run`](Self::run).
    pub fn context(&self) -> Context<'_> {
        Context::new(&self.0)
    }

    /// Returns a store, to fill it before a call or to look into it afterwards.
    ///
    /// # Panics
    ///
    /// Panics if [`kv`](Self::kv) has not granted it.
    pub fn store(&self, name: &str) -> kv::Store {
        self.run(|_| kv::open(name)).unwrap_or_else(|_| {
            panic!("the test's host has no store {name:?}; add `.kv({name:?})`")
        })
    }

    /// Returns the reports of progress so far.
    pub fn progress(&self) -> Vec<Progress> {
        self.state().progress.borrow().clone()
    }

    /// Returns the lines of the log so far.
    pub fn logs(&self) -> Vec<Line> {
        self.state().lines.borrow().clone()
    }

    /// Returns the parts that were emitted so far.
    pub fn parts(&self) -> Vec<Content> {
        self.state().parts.borrow().clone()
    }

    fn state(&self) -> &State {
        &self.0.0
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts the previous host back when it is dropped, even if the test's code panics.
struct Restored(Option<Rc<State>>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests;
