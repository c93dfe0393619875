//! A response whose body arrives, within a limit on the whole of it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};

use crate::observer::ExchangeObserver;
use airlock_core::timer::StreamTimer;
use airlock_egress::https::{HttpsBody, HttpsError};

/// A response whose head has arrived. Dropping it closes the connection, unless all of it has. Boxed, because it is
/// moved through the futures of all steps that read it.
pub(crate) struct ServiceResponse(Box<ArrivingResponse>);

struct ArrivingResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: BodySource,
    uri: Uri,
    /// End of the time for the whole response.
    deadline: StreamTimer,
    /// Receives the body too; `None` if nothing does.
    observer: Option<Arc<dyn ExchangeObserver>>,
}

enum BodySource {
    Received(HttpsBody),
    #[cfg(test)]
    Made(std::pin::Pin<Box<dyn futures_util::Stream<Item = Bytes> + Send + Sync>>),
}

impl ServiceResponse {
    /// Waits for the head of a response. Fails if the whole response has not arrived after `limit`, here
    /// or in [`chunk`](Self::chunk).
    pub(super) async fn begin(
        sending: impl Future<Output = Result<http::Response<HttpsBody>, HttpsError>>,
        uri: &Uri,
        limit: Duration,
    ) -> Result<Self, HttpsError> {
        let mut deadline = StreamTimer::new(limit);
        let (head, body) = within(&mut deadline, sending).await?.into_parts();
        let http::response::Parts { status, headers, .. } = head;
        let body = BodySource::Received(body);
        let uri = uri.clone();
        let arriving = ArrivingResponse { status, headers, body, uri, deadline, observer: None };
        Ok(Self(Box::new(arriving)))
    }

    /// Lets `observer` receive the body too.
    pub(super) fn observed_by(mut self, observer: Arc<dyn ExchangeObserver>) -> Self {
        observer.answered(self.status());
        self.0.observer = Some(observer);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Drops the headers. Their texts are parts of the buffer in which the connection has received them, which
    /// would be kept for as long as the body arrives, beside another one for the body.
    pub(super) fn drop_headers(&mut self) {
        self.0.headers = HeaderMap::new();
    }

    /// Returns the type of the body, without parameters.
    pub(super) fn content_type(&self) -> Option<&str> {
        let text = self.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
        Some(text.split(';').next().unwrap_or_default().trim())
    }

    /// Returns the address of the request.
    pub(super) fn uri(&self) -> &Uri {
        &self.0.uri
    }

    /// Waits for more of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpsError> {
        let ArrivingResponse { body, deadline, observer, .. } = &mut *self.0;
        let part = match body {
            BodySource::Received(body) => within(deadline, pin!(body.data())).await?,
            #[cfg(test)]
            BodySource::Made(pieces) => futures_util::StreamExt::next(pieces).await,
        };
        if let (Some(observer), Some(part)) = (observer, &part) {
            observer.received(part);
        }
        Ok(part)
    }
}

/// Waits for `work` until the deadline.
async fn within<T>(
    deadline: &mut StreamTimer,
    work: impl Future<Output = Result<T, HttpsError>>,
) -> Result<T, HttpsError> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(done),
        Poll::Pending => deadline.poll(context).map(|()| Err(HttpsError::Timeout)),
    })
    .await
}

#[cfg(test)]
impl ServiceResponse {
    /// Creates a response with status 200 from the pieces of its body.
    pub(crate) fn of_pieces(
        pieces: impl futures_util::Stream<Item = Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(ArrivingResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: BodySource::Made(Box::pin(pieces)),
            uri: Uri::default(),
            deadline: StreamTimer::new(Duration::from_hours(24)),
            observer: None,
        }))
    }

    /// Adds a header.
    pub(crate) fn with_header(
        mut self,
        name: header::HeaderName,
        value: header::HeaderValue,
    ) -> Self {
        self.0.headers.insert(name, value);
        self
    }
}
