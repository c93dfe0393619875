//! What one call sends: each request counted, decided on, bounded in time and size, and so is each redirect.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Instant,
};

use http::{HeaderValue, header};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use tracing::{debug, warn};

use super::{
    address::Reach,
    client::{self, Clients},
    credential::Credentials,
    error::{Error, ErrorKind},
    headers,
    hop::{self, Hop},
    message::{Redirects, Request, Response},
    policy::{Bounds, Permit, Policy},
    resolve,
    rule::Rule,
    target::Host,
};

/// What the sessions of a process share.
pub(super) struct Shared {
    pub(super) clients: Clients,
    pub(super) in_flight: Semaphore,
}

/// What one caller may send, call by call. Cheap to clone.
#[derive(Clone)]
pub struct Outlet {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Arc<str>,
    pub(super) policy: Arc<Policy>,
    pub(super) credentials: Arc<Credentials>,
}

/// What one call sends. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// A place among the requests of one call that are on their way. Dropping it gives it back.
pub struct Place {
    session: Arc<Inner>,
    _permit: OwnedSemaphorePermit,
}

struct Inner {
    outlet: Outlet,
    deadline: Instant,
    requests_left: AtomicU32,
    in_flight: Arc<Semaphore>,
}

/// One request with its redirects.
struct Exchange<'a> {
    session: &'a Inner,
    /// Whether something may have reached a server.
    sent: AtomicBool,
}

impl Outlet {
    /// Opens what one call may send until `deadline`.
    pub fn session(&self, deadline: Instant) -> Session {
        let bounds = self.policy.bounds();
        Session(Arc::new(Inner {
            deadline,
            requests_left: AtomicU32::new(bounds.requests),
            in_flight: Arc::new(Semaphore::new(bounds.in_flight.min(Semaphore::MAX_PERMITS))),
            outlet: self.clone(),
        }))
    }
}

impl Session {
    /// Bounds on what is sent and taken in.
    pub fn bounds(&self) -> &Bounds {
        self.0.outlet.policy.bounds()
    }

    /// Takes a place among the requests of the call, for whoever has work to do around a request that counts with it.
    pub fn enter(&self) -> Result<Place, Error> {
        let message = "too many requests of this call are on their way";
        let permit = self.0.in_flight.clone().try_acquire_owned().map_err(|_| Error::new(ErrorKind::Unavailable, message))?;
        Ok(Place { session: self.0.clone(), _permit: permit })
    }

    /// Sends a request and takes in the whole response. The future borrows nothing, so that it can run on a task of its own;
    /// dropping it drops the connection and leaves open whether the request has arrived.
    pub fn send(&self, request: Request) -> impl Future<Output = Result<Response, Error>> + Send + 'static + use<> {
        let session = self.clone();
        async move { session.enter()?.send(request).await }
    }
}

impl Place {
    /// Sends a request and takes in the whole response. One place is for one request at a time.
    pub async fn send(&mut self, request: Request) -> Result<Response, Error> {
        self.session.send(request).await
    }
}

impl Inner {
    async fn send(&self, request: Request) -> Result<Response, Error> {
        let Outlet { shared, caller, policy, .. } = &self.outlet;
        let _place = shared.in_flight.try_acquire().map_err(|_| {
            warn!(%caller, "outbound request refused: too many are on their way");
            Error::new(ErrorKind::Unavailable, "too many requests are on their way")
        })?;
        let now = Instant::now();
        let time = request.timeout.map_or(policy.bounds().timeout, |asked| asked.min(policy.bounds().timeout));
        let until = now.checked_add(time).map_or(self.deadline, |until| until.min(self.deadline));
        if until <= now {
            return Err(Error::timeout());
        }
        let exchange = Exchange { session: self, sent: AtomicBool::new(false) };
        let result = timeout_at(until.into(), exchange.run(request)).await.unwrap_or_else(|_| Err(Error::timeout()));
        result.map_err(|error| error.having_sent(exchange.sent.load(Ordering::Relaxed)))
    }

    fn count(&self) -> Result<(), Error> {
        let left = self.requests_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| Error::new(ErrorKind::Unavailable, "the requests of this call are used up"))
    }

    /// Decides on a request, and tells the operator what would have let it out.
    fn decide(&self, hop: &Hop<'_>) -> Result<Permit, Error> {
        let Outlet { caller, policy, .. } = &self.outlet;
        policy.decide(&hop.target, &hop.method).map_err(|missing| {
            let mut rule = Rule::needed(&hop.target, &hop.method).to_string();
            rule.truncate(MAX_LOGGED_RULE);
            warn!(%caller, host = %hop.target.host(), reason = %missing, missing_rule = %rule, "outbound request refused");
            Error::denied()
        })
    }
}

/// Bytes of a rule in the log. It is ASCII.
const MAX_LOGGED_RULE: usize = 256;

impl Exchange<'_> {
    async fn run(&self, request: Request) -> Result<Response, Error> {
        let Outlet { caller, policy, credentials, .. } = &self.session.outlet;
        let (redirects, wanted) = (request.redirects, request.max_response_bytes);
        self.session.count()?;
        let mut hop = Hop::first(request, policy.bounds(), credentials)?;
        let mut permit = self.session.decide(&hop)?;
        self.require_audience(&hop)?;
        let mut followed = 0;
        loop {
            let response = self.dispatch(&hop, permit).await?;
            let status = response.status();
            debug!(%caller, host = %hop.target.host(), method = %hop.method, status = status.as_u16(), "outbound request");
            let location = response.headers().get(header::LOCATION).filter(|_| hop::is_redirect(status));
            let (Some(location), Redirects::Follow) = (location, redirects) else {
                return self.take_in(&hop, response, wanted).await;
            };
            if followed == policy.bounds().redirects {
                return Err(Error::new(ErrorKind::TooManyRedirects, format!("more than {followed} redirects")));
            }
            followed += 1;
            self.session.count()?;
            let unreadable = |_| Error::new(ErrorKind::Protocol, "the server redirects to what is no text");
            hop = hop.redirected(status, location.to_str().map_err(unreadable)?, credentials)?;
            permit = self.session.decide(&hop)?;
            hop.credential = hop.credential.filter(|credential| credential.is_for(&hop.target, &hop.method));
        }
    }

    /// Refuses to attach a credential outside its audience. On redirects it is left behind instead: it was the server's idea.
    fn require_audience(&self, hop: &Hop<'_>) -> Result<(), Error> {
        if hop.credential.is_none_or(|credential| credential.is_for(&hop.target, &hop.method)) {
            return Ok(());
        }
        let reason = "the credential's audience does not include this";
        warn!(caller = %self.session.outlet.caller, host = %hop.target.host(), reason, "outbound request refused");
        Err(Error::denied())
    }

    /// Sends a request that was decided on and takes in the head of the answer.
    async fn dispatch(&self, hop: &Hop<'_>, permit: Permit) -> Result<reqwest::Response, Error> {
        let Outlet { shared, caller, .. } = &self.session.outlet;
        let farthest = if permit.private { Reach::Private } else { Reach::Public };
        // Names are checked as they are resolved; an address is never resolved.
        if let Host::Address(address) = hop.target.host() {
            resolve::check(&address.to_string(), &[*address], farthest)
                .map_err(|bad| client::explain_unresolved(&bad, caller))?;
        }
        let mut request = reqwest::Request::new(hop.method.clone(), hop.target.url().clone());
        *request.headers_mut() = hop.headers.clone();
        *request.body_mut() = hop.body.clone().map(Into::into);
        if let Some(credential) = hop.credential {
            let mut url = hop.target.url().clone();
            credential.attach(&mut url, request.headers_mut());
            *request.url_mut() = url;
        }
        if permit.any_host {
            // Idle connections are bounded for each host, and nobody bounds how many hosts a pattern stands for.
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let sent_before = self.sent.swap(true, Ordering::Relaxed);
        let response = shared.clients.reaching(farthest).execute(request).await;
        response.map_err(|error| {
            let error = client::explain(error, caller);
            self.sent.store(sent_before || error.request_sent, Ordering::Relaxed);
            error
        })
    }

    /// Takes in what a server answered, as much as may be.
    async fn take_in(&self, hop: &Hop<'_>, mut response: reqwest::Response, wanted: Option<u64>) -> Result<Response, Error> {
        let Outlet { caller, policy, credentials, .. } = &self.session.outlet;
        let bounds = policy.bounds();
        if response.status().is_informational() {
            return Err(Error::new(ErrorKind::Protocol, "the server answered with something else than a response"));
        }
        if headers::size(response.headers()) > bounds.response_header_bytes {
            let limit = bounds.response_header_bytes;
            return Err(Error::new(ErrorKind::TooLarge, format!("the response's headers have more than {limit} bytes")));
        }
        let wanted = wanted.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut body = read(&mut response, wanted.min(bounds.response_bytes), caller).await?;
        credentials.blot(&mut body);
        let headers = response.headers().iter().map(|(name, value)| {
            let mut value = value.as_bytes().to_vec();
            credentials.blot(&mut value);
            (name.as_str().to_owned(), value)
        });
        let mut final_url = hop.target.url().to_string().into_bytes();
        credentials.blot(&mut final_url);
        Ok(Response {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body,
            final_url: String::from_utf8_lossy(&final_url).into_owned(),
        })
    }
}

/// Reads a body of at most `limit` bytes.
async fn read(response: &mut reqwest::Response, limit: usize, caller: &str) -> Result<Vec<u8>, Error> {
    let too_large = || Error::new(ErrorKind::TooLarge, format!("the response's body has more than {limit} bytes"));
    let announced = response.content_length().unwrap_or(0);
    let announced = usize::try_from(announced).ok().filter(|bytes| *bytes <= limit).ok_or_else(too_large)?;
    let mut body = Vec::with_capacity(announced);
    while let Some(chunk) = response.chunk().await.map_err(|error| client::explain(error, caller))? {
        if chunk.len() > limit - body.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
