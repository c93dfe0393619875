//! The gateway as a service of another HTTP server in the same process.
//!
//! A request goes through the same checks, limits and routes as one of the gateway's own sockets. What belongs to
//! connections is the other server's: their number, the size and the time of a head, the time in which a client
//! must read a response, TLS. The gateway knows the client by [`PeerAddress`](airlock_ingress::PeerAddress) and
//! [`PeerCertificate`](airlock_ingress::PeerCertificate), if the other server adds them to the extensions of a request.

use std::{
    any::Any,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use hyper::body::{Body, Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower_service::Service;

use super::LiveApp;
use airlock_http::respond::ApiError;
use airlock_ingress::{Activity, BodyError, Ingress, RequestBody, ResponseBody, send};

/// The gateway as a service that another HTTP server calls. Cheap to clone. It is always ready, and returns
/// no errors: a failure is a response.
#[derive(Clone)]
pub struct GatewayService {
    live: Arc<LiveApp>,
    /// Keeps the gateway running.
    _gateway: Arc<dyn Any + Send + Sync>,
}

impl LiveApp {
    /// Returns the gateway as a service. The gateway runs for as long as `gateway` is not dropped.
    pub fn service(self: &Arc<Self>, gateway: Arc<dyn Any + Send + Sync>) -> GatewayService {
        GatewayService { live: self.clone(), _gateway: gateway }
    }
}

airlock_strings::debug_fields!(GatewayService {});

impl<B> Service<Request<B>> for GatewayService
where
    B: Body + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Response = Response<GatewayBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let live = self.live.clone();
        // Nothing closes the connection for what its client does: that is for the other server.
        let running = Activity::new().begin();
        let request = request.map(RequestBody::passed_on);
        Box::pin(async move {
            let Some(entered) = live.enter() else {
                let refused = (stopping().into_reply(), None);
                return Ok(GatewayBody::within(send(refused, running, None), None));
            };
            let ingress = Ingress::passed_on(request.extensions());
            let app = live.current();
            let answer = app.respond(request, ingress).await;
            Ok(GatewayBody::within(send(answer, running, None), Some(entered)))
        })
    }
}

/// Returns the refusal of a request that comes while the gateway stops.
fn stopping() -> ApiError {
    let error = ApiError::unavailable("gateway_stopping", "the gateway stops");
    error.with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Body of a response of a [`GatewayService`].
pub struct GatewayBody {
    body: ResponseBody,
    /// Counts the request until the body is dropped.
    _entered: Option<TaskTrackerToken>,
}

impl GatewayBody {
    fn within(
        response: Response<ResponseBody>,
        entered: Option<TaskTrackerToken>,
    ) -> Response<Self> {
        response.map(|body| Self { body, _entered: entered })
    }
}

airlock_strings::debug_fields!(GatewayBody {});

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
