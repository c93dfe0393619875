//! `wasi:http`, the interface that the standard libraries of most languages use: the same rules,
//! bounds and clients as for `airlock:host/http`.
//!
//! wasmtime's implementation holds the headers and bodies of the guest's resources. It passes on
//! one request, which is collected, sent as a whole and answered with a whole response. Redirects
//! are returned to the guest: its HTTP stack follows them itself, and each is a separate request. A
//! guest cannot name credentials here.

mod link;

use std::{future::Future, sync::Arc, time::Duration};

use airlock_core::tenant::{Pool, Reservation, Tenant};
use airlock_egress::{self, EgressErrorKind, EgressRequest, Redirects, RequestSlot, Session};
use bytes::{Bytes, BytesMut};
use http::{HeaderName, header};
use http_body_util::{BodyExt as _, Full};
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{
    Error as HttpError, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx,
    WasiHttpCtxView, WasiHttpHooks,
};

pub(crate) use self::link::link;
use super::http_cost::{SEND_FUEL, request_bytes, response_bytes};
use crate::plugin::late_fuel::LateFuel;

/// Bytes of one set of headers that a guest builds, as held in memory: half of what the egress
/// accepts in a request. The engine checks it at each header, before any limit of the egress
/// applies.
const MAX_FIELD_BYTES: usize = 32 << 10;
/// Bytes that a guest may write to a body at once. Two such chunks wait there until they are collected.
const CHUNK_BYTES: usize = 64 << 10;

/// State of one store for `wasi:http`.
pub(crate) struct WasiHttp {
    context: WasiHttpCtx,
    hooks: OutgoingHooks,
    /// Guest memory that the messages take which the guest has a handle of.
    messages: Reservation,
}

struct OutgoingHooks {
    session: Option<Session>,
    /// True if a request was refused because there is no session.
    was_denied: bool,
    has_sent: bool,
    /// Fuel for requests and responses, which are sent on separate tasks.
    late_fuel: LateFuel,
    /// Memory for the bodies of requests, and its tenant.
    memory: Pool,
    tenant: Tenant,
}

type Io = Box<dyn Future<Output = Result<(), HttpError>> + Send>;
type Sent = Result<(http::Response<WasiBody>, Io), HttpError>;

impl WasiHttp {
    /// Creates the state of a call of `tenant`. Without a session every request is denied. What the host
    /// holds for the guest takes its part of `memory`.
    pub(crate) fn new(session: Option<Session>, tenant: &Tenant, memory: &Pool) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(MAX_FIELD_BYTES);
        Self {
            context,
            hooks: OutgoingHooks {
                session,
                was_denied: false,
                has_sent: false,
                late_fuel: LateFuel::default(),
                memory: memory.clone(),
                tenant: tenant.clone(),
            },
            messages: memory.reservation(tenant.clone()),
        }
    }

    /// Sets the guest memory that messages take, in bytes. Returns false, and changes nothing, if there
    /// is not as much for the tenant.
    fn hold(&mut self, bytes: usize) -> bool {
        let held = self.messages.amount();
        self.messages.shrink(held.saturating_sub(bytes));
        self.messages.grow(bytes.saturating_sub(held))
    }

    /// Returns the state as wasmtime's implementation takes it, with the `table` of its store.
    fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.hooks, table, ctx: &mut self.context }
    }

    /// Returns the session that sends the guest's requests; `None` if all are denied.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.hooks.session.as_ref()
    }

    /// Returns whether a request was refused because no request is permitted at all.
    pub(crate) fn was_denied(&self) -> bool {
        self.hooks.was_denied
    }

    /// Returns whether the guest has sent a request, or begun to.
    pub(crate) fn has_sent(&self) -> bool {
        self.hooks.has_sent
    }

    /// Returns the fuel that requests and responses cost.
    pub(crate) fn late_fuel(&self) -> &LateFuel {
        &self.hooks.late_fuel
    }
}

impl WasiHttpHooks for OutgoingHooks {
    /// Headers that only the host sets. The guest may set the length: it is compared with the body
    /// here, and not passed on.
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name: &HeaderName| {
            name != header::CONTENT_LENGTH && airlock_egress::is_reserved_header(name.as_str())
        })
    }

    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), HttpError>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        self.late_fuel.add(SEND_FUEL);
        self.was_denied |= self.session.is_none();
        self.has_sent |= self.session.is_some();
        let session = self.session.clone();
        let late_fuel = self.late_fuel.clone();
        let memory = self.memory.reservation(self.tenant.clone());
        Box::new(async move {
            let session = session.ok_or(HttpError::HttpRequestDenied)?;
            send(session, request, options, memory, &late_fuel).await
        })
    }
}

async fn send(
    session: Session,
    request: http::Request<WasiBody>,
    options: Option<RequestOptions>,
    mut memory: Reservation,
    late_fuel: &LateFuel,
) -> Sent {
    // Reservation from the first byte of the request's body to the last of the response's, because both
    // are held in memory.
    let mut slot = session.reserve().map_err(for_guest)?;
    let (head, body) = request.into_parts();
    let body = collect(body, session.bounds().request_bytes, &mut memory).await?;
    let own = head.headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH);
    let request = EgressRequest {
        method: head.method.as_str().to_owned(),
        url: head.uri.to_string(),
        headers: own
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect(),
        body: Some(body),
        timeout: options.and_then(timeout),
        redirects: Redirects::Manual,
        ..EgressRequest::default()
    };
    late_fuel.add(request_bytes(&request) as u64);
    let response = slot.send(request).await.map_err(for_guest)?;
    late_fuel.add(response_bytes(&response) as u64);
    let nothing_goes_on: Io = Box::new(async { Ok(()) });
    Ok((into_http(response, slot)?, nothing_goes_on))
}

/// Collects a guest's body, which the guest may still be writing. The end of the call cancels this.
/// `memory` grows before a chunk is kept; fails if the tenant has no memory left.
async fn collect(
    mut body: WasiBody,
    limit: usize,
    memory: &mut Reservation,
) -> Result<Bytes, HttpError> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) if data.len() > limit - collected.len() => {
                return Err(HttpError::HttpRequestBodySize(Some(limit as u64)));
            }
            Ok(data) => {
                if !memory.grow(data.len()) {
                    return Err(HttpError::ConnectionLimitReached);
                }
                collected.extend_from_slice(&data);
            }
            // Leaving the trailers out would change the guest's message.
            Err(rest) if rest.trailers_ref().is_some_and(|trailers| !trailers.is_empty()) => {
                return Err(HttpError::HttpRequestTrailerSectionSize(Some(0)));
            }
            Err(_) => {}
        }
    }
    Ok(collected.freeze())
}

/// Returns the time limit for a response; `None` without a first-byte timeout. A response arrives
/// as a whole, so the time to its first byte is the time to all of it.
fn timeout(options: RequestOptions) -> Option<Duration> {
    options
        .first_byte_timeout
        .map(|first_byte| first_byte.saturating_add(options.connect_timeout.unwrap_or_default()))
}

/// A body that the guest has not read to its end. All of it counts as guest memory until the last
/// of it is dropped.
struct Unread {
    body: Vec<u8>,
    _memory: Reservation,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Converts a response. Its slot among the requests of the call is released when the guest drops
/// the body.
fn into_http(
    response: airlock_egress::EgressResponse,
    slot: RequestSlot,
) -> Result<http::Response<WasiBody>, HttpError> {
    let mut built = http::Response::builder().status(response.status);
    for (name, value) in response.headers {
        built = built.header(name, value);
    }
    let unread = Unread { body: response.body, _memory: response.memory };
    let body = Full::new(Bytes::from_owner(unread)).map_frame(move |frame| {
        let _held = &slot;
        frame
    });
    built.body(body.map_err(Into::into).boxed_unsync()).map_err(|_| HttpError::HttpProtocolError)
}

/// Converts an error. `wasi:http` has more kinds of errors, and no text for most of them.
fn for_guest(error: airlock_egress::EgressError) -> HttpError {
    match error.kind {
        EgressErrorKind::Denied => HttpError::HttpRequestDenied,
        EgressErrorKind::InvalidRequest
        | EgressErrorKind::LimitReached
        | EgressErrorKind::Other => HttpError::InternalError(Some(error.message.into_owned())),
        EgressErrorKind::Dns => HttpError::DnsError { rcode: None, info_code: None },
        EgressErrorKind::Connect => HttpError::DestinationUnavailable,
        EgressErrorKind::Tls => HttpError::TlsProtocolError,
        EgressErrorKind::Timeout => HttpError::HttpResponseTimeout,
        EgressErrorKind::TooLarge => HttpError::HttpResponseBodySize(None),
        EgressErrorKind::TooManyRedirects => HttpError::LoopDetected,
        EgressErrorKind::Protocol => HttpError::HttpProtocolError,
        EgressErrorKind::Unavailable => HttpError::ConnectionLimitReached,
    }
}

#[cfg(test)]
mod tests;
