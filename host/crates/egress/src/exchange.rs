//! One request with its redirects: each is checked against the policy and sent, and the response is
//! read within its bounds.

use std::sync::atomic::{AtomicBool, Ordering};

use airlock_core::tenant::Reservation;
use airlock_strings::{MAX_NAME_BYTES, cut, visible_line};
use http::{HeaderName, HeaderValue, header};
use tracing::{debug, warn};

use super::{
    address::Reach,
    client,
    credential::Credentials,
    error::{EgressError, EgressErrorKind},
    headers,
    hop::{self, Hop},
    message::{EgressRequest, EgressResponse, Redirects},
    policy::{MissingRule, Permit},
    resolve,
    rule::Rule,
    session::{Outlet, OutletObserver, SessionState},
    target::Host,
};

/// Maximum capacity reserved for a body before any of it has arrived. The bytes that a server
/// announces have not arrived yet.
const FIRST_BYTES: usize = 64 << 10;

/// One request with its redirects.
pub(super) struct SessionExchange<'a> {
    session: &'a SessionState,
    sent: AtomicBool,
}

impl<'a> SessionExchange<'a> {
    pub(super) fn new(session: &'a SessionState) -> Self {
        Self { session, sent: AtomicBool::new(false) }
    }

    /// Returns whether a request may have reached a server.
    pub(super) fn has_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) async fn run(&self, request: EgressRequest) -> Result<EgressResponse, EgressError> {
        let Outlet { caller, policy, credentials, .. } = &self.session.outlet;
        let redirects = request.redirects;
        let wanted = request.max_response_bytes;
        self.session.count()?;
        self.report_unknown(&request.credentials);
        let mut hop = Hop::first(request, policy.bounds(), credentials)?;
        let mut permit = self.decide(&hop)?;
        self.require_audience(&hop)?;
        let mut followed = 0;
        loop {
            self.report(&hop);
            let response = self.dispatch(&hop, permit).await?;
            let status = response.status();
            debug!(%caller, host = %self.host(&hop), method = %hop.method, status = status.as_u16(), "outbound request");
            let location =
                response.headers().get(header::LOCATION).filter(|_| hop::is_redirect(status));
            let (Some(location), Redirects::Follow) = (location, redirects) else {
                return self.take_in(&hop, response, wanted).await;
            };
            if followed == policy.bounds().redirects {
                return Err(EgressError::new(
                    EgressErrorKind::TooManyRedirects,
                    format!("more than {followed} redirects"),
                ));
            }
            followed += 1;
            self.session.count()?;
            let location = location.to_str().map_err(|_| {
                EgressError::new(
                    EgressErrorKind::Protocol,
                    "the server redirects to a location that is not text",
                )
            })?;
            hop = hop.redirected(status, location, credentials, self.session.tenant()).await?;
            permit = self.decide(&hop)?;
            let target = &hop.target;
            let method = &hop.method;
            hop.credentials.retain(|credential| {
                credential.is_for(target, method)
                    && policy.check_audience(credential.destinations(), target, method).is_ok()
            });
        }
    }

    /// Checks a request against the policy. Logs a refusal for the operator.
    fn decide(&self, hop: &Hop<'_>) -> Result<Permit, EgressError> {
        let policy = &self.session.outlet.policy;
        policy.decide(&hop.target, &hop.method).map_err(|missing| {
            self.log_refused(hop, &missing);
            refusal(&missing)
        })
    }

    /// Logs a refused request. Only where a grant would help, its rule is called a missing one.
    fn log_refused(&self, hop: &Hop<'_>, missing: &MissingRule) {
        let Outlet { caller, credentials, .. } = &self.session.outlet;
        let host = self.host(hop);
        // The path is the guest's own text: a guest that knows a secret could write it there.
        let is_secret = credentials.occur_in(hop.target.url().path().as_bytes());
        let rule = Rule::needed(&hop.target, &hop.method, is_secret);
        let rule = credentials.blotted(&rule);
        match missing {
            MissingRule::Grant => {
                warn!(%caller, %host, reason = %missing, missing_rule = %rule, "outbound request refused");
            }
            MissingRule::Request | MissingRule::Part { .. } => {
                warn!(%caller, %host, reason = %missing, request = %rule, "outbound request refused");
            }
            MissingRule::Declaration(_) => {
                warn!(%caller, %host, reason = %missing, "outbound request refused");
            }
        }
    }

    /// Reports a permitted request to the observer, if there is one.
    fn report(&self, hop: &Hop<'_>) {
        let Outlet { policy, observed, .. } = &self.session.outlet;
        let Some(OutletObserver { observer, destinations }) = observed else { return };
        let destinations = policy.destinations_of(destinations, &hop.target, &hop.method);
        let credentials: Vec<_> =
            hop.credentials.iter().map(|credential| credential.name()).collect();
        observer.permitted(&destinations, &credentials);
    }

    /// Logs the first credential that the guest names and does not have. The guest learns nothing of
    /// it: its request is refused like every other.
    fn report_unknown(&self, names: &[String]) {
        let Outlet { caller, credentials, .. } = &self.session.outlet;
        let Some(name) = names.iter().find(|name| !credentials.has(name)) else { return };
        let credential = credentials.blotted(&cut(visible_line(name), MAX_NAME_BYTES));
        let granted = credentials.names();
        let reason = "the plugin has no credential of this name that is attached to requests";
        warn!(%caller, %credential, %granted, reason, "outbound request refused");
    }

    /// Fails if the request is outside the audience of one of its credentials. On redirects such a
    /// credential is dropped instead, because the server chose the target.
    fn require_audience(&self, hop: &Hop<'_>) -> Result<(), EgressError> {
        let Outlet { caller, policy, .. } = &self.session.outlet;
        let Hop { target, method, .. } = hop;
        for credential in &hop.credentials {
            let (reason, error) = if credential.is_for(target, method) {
                match policy.check_audience(credential.destinations(), target, method) {
                    Ok(()) => continue,
                    Err(missing) => (missing.to_string(), refusal(&missing)),
                }
            } else {
                let reason = "the credential's audience does not include this request";
                (reason.to_owned(), EgressError::denied())
            };
            warn!(%caller, host = %self.host(hop), credential = credential.name(), reason, "outbound request refused");
            return Err(error);
        }
        Ok(())
    }

    /// Returns the host for the operator's log, with credentials redacted: a guest can write a
    /// secret that it knows into a name.
    fn host(&self, hop: &Hop<'_>) -> String {
        self.session.outlet.credentials.blotted(&hop.target.host().to_string())
    }

    /// Sends a permitted request and receives the head of the response.
    async fn dispatch(
        &self,
        hop: &Hop<'_>,
        permit: Permit,
    ) -> Result<reqwest::Response, EgressError> {
        let Outlet { shared, caller, credentials, .. } = &self.session.outlet;
        let farthest = if permit.private { Reach::Private } else { Reach::Public };
        // Names are checked when they are resolved. An address is never resolved, so it is checked
        // here.
        if let Host::Address(address) = hop.target.host() {
            resolve::check(&address.to_string(), &[*address], farthest)
                .map_err(|bad| client::explain_unresolved(&bad, caller, credentials))?;
        }
        let mut url = hop.target.url().clone();
        let mut headers = hop.headers.clone();
        for credential in &hop.credentials {
            credential.attach(&mut url, &mut headers);
        }
        // Idle connections are bounded per host, but a pattern matches an unlimited number of hosts.
        if permit.any_host || hop.ends_connection() {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let client = shared
            .clients
            .reaching(caller, self.session.tenant(), farthest)
            .map_err(|error| client::explain(error, caller, credentials))?;
        let mut request = reqwest::Request::new(hop.method.clone(), url);
        *request.headers_mut() = headers;
        *request.body_mut() = hop.body.clone().map(Into::into);
        let sent_before = self.sent.swap(true, Ordering::Relaxed);
        let response = client.execute(request).await;
        response.map_err(|error| {
            let error = client::explain(error, caller, credentials);
            self.sent.store(sent_before || error.request_sent, Ordering::Relaxed);
            error
        })
    }

    /// Reads a response within its bounds and redacts credentials from it.
    async fn take_in(
        &self,
        hop: &Hop<'_>,
        mut response: reqwest::Response,
        wanted: Option<u64>,
    ) -> Result<EgressResponse, EgressError> {
        let Outlet { caller, policy, credentials, .. } = &self.session.outlet;
        let bounds = policy.bounds();
        if response.status().is_informational() {
            return Err(EgressError::new(
                EgressErrorKind::Protocol,
                "the server sent no final response",
            ));
        }
        if headers::size(response.headers()) > bounds.response_header_bytes {
            let limit = bounds.response_header_bytes;
            return Err(EgressError::new(
                EgressErrorKind::TooLarge,
                format!("the response's headers have more than {limit} bytes"),
            ));
        }
        let wanted =
            wanted.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut memory = self.session.memory();
        let limit = wanted.min(bounds.response_bytes);
        let body = read(&mut response, limit, &mut memory, caller, credentials).await?;
        let body = credentials.blot_body(self.session.tenant(), body).await;
        let headers = response.headers().iter().map(|(name, value)| {
            let mut value = shown(hop, name, value);
            credentials.blot(&mut value);
            (name.as_str().to_owned(), value)
        });
        let mut final_url = hop.target.url().to_string().into_bytes();
        credentials.blot(&mut final_url);
        Ok(EgressResponse {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body,
            final_url: String::from_utf8_lossy(&final_url).into_owned(),
            memory,
        })
    }
}

/// Returns the error for the guest. A tool learns which effect it lacks for what its plugin may do.
fn refusal(missing: &MissingRule) -> EgressError {
    match missing {
        MissingRule::Declaration(name) => EgressError::undeclared(&format!("http.{name}")),
        MissingRule::Request | MissingRule::Part { .. } | MissingRule::Grant => {
            EgressError::denied()
        }
    }
}

/// Returns the value of a response's header. The parameters of the request's credentials are removed
/// from a `location`: servers often repeat the query there.
fn shown(hop: &Hop<'_>, name: &HeaderName, value: &HeaderValue) -> Vec<u8> {
    if *name != header::LOCATION {
        return value.as_bytes().to_vec();
    }
    // A location that is no text cannot be searched for parameters, so it is not shown.
    let Ok(location) = std::str::from_utf8(value.as_bytes()) else { return Vec::new() };
    let mut location = location.to_owned();
    for credential in &hop.credentials {
        if let Some(detached) = credential.detached(&location) {
            location = detached;
        }
    }
    location.into_bytes()
}

/// Reads a body of at most `limit` bytes. `memory` grows before a chunk is kept; fails if the
/// tenant has no memory left.
async fn read(
    response: &mut reqwest::Response,
    limit: usize,
    memory: &mut Reservation,
    caller: &str,
    credentials: &Credentials,
) -> Result<Vec<u8>, EgressError> {
    let announced = response.content_length().unwrap_or(0);
    let announced = usize::try_from(announced)
        .ok()
        .filter(|bytes| *bytes <= limit)
        .ok_or_else(|| too_large(limit))?;
    let mut body = Vec::with_capacity(announced.min(FIRST_BYTES));
    while let Some(chunk) =
        response.chunk().await.map_err(|error| client::explain(error, caller, credentials))?
    {
        if chunk.len() > limit - body.len() {
            return Err(too_large(limit));
        }
        reserve(memory, chunk.len(), caller)?;
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn too_large(limit: usize) -> EgressError {
    EgressError::new(
        EgressErrorKind::TooLarge,
        format!("the response's body has more than {limit} bytes"),
    )
}

/// Grows `memory` by `more` bytes. Fails if the tenant has no memory left.
fn reserve(memory: &mut Reservation, more: usize, caller: &str) -> Result<(), EgressError> {
    if memory.grow(more) {
        return Ok(());
    }
    let bytes = memory.amount() + more;
    warn!(caller, bytes, "outbound response dropped: its tenant has no memory left for it");
    Err(EgressError::new(EgressErrorKind::Unavailable, "there is no memory for the response")
        .having_sent(true))
}
