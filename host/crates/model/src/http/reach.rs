//! Whether a service can be reached, for an operator who looks for what is wrong. No credential is sent.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::time::timeout;

use super::{
    base_url::{base_url, below},
    connection::https_client,
};
use crate::{BadProvider, Service};
use airlock_egress::https::HttpsError;

/// Reason that a service is not reached.
#[derive(Debug, thiserror::Error)]
pub enum Unreached {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] BadProvider),
    /// There is no connection or no response.
    #[error("it does not respond")]
    Failed(#[source] HttpsError),
}

/// Connects to a service as its client does, through its proxy and with its certificates, and sends a request without
/// a key and without the configured headers. Returns the status of the response, which may be that of any refusal.
/// Fails if the head of a response has not arrived after `limit`.
pub async fn reach(
    provider: &str,
    service: &Service,
    limit: Duration,
) -> Result<StatusCode, Unreached> {
    let base = base_url(provider, &service.base_url)?;
    let is_tls = base.scheme() == "https";
    let identity = service.identity.as_ref();
    let client = https_client(provider, service, is_tls, limit, identity)?;
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = below(&base, "models");
    match timeout(limit, client.send(request)).await {
        Ok(Ok(response)) => Ok(response.status()),
        Ok(Err(error)) => Err(Unreached::Failed(error)),
        Err(_) => Err(Unreached::Failed(HttpsError::Timeout)),
    }
}

#[cfg(test)]
mod tests {
    use airlock_test_http::{Server, says};

    use super::*;
    use crate::{Api, Key};
    use airlock_core::secret::Secret;

    #[tokio::test]
    async fn a_service_that_refuses_is_reached_and_gets_no_key() {
        let server = Server::start_by_request(|request| {
            let has_key = request.to_lowercase().contains("hunter2");
            says(if has_key { "500 Internal Server Error" } else { "401 Unauthorized" }, "", "")
        })
        .await;
        let mut service = Service::new(Api::OpenAi, server.url("127.0.0.1", "/v1"));
        service.keys = vec![Key::new("k", Secret::new("hunter2"))];
        service.headers = [("x-api-key".to_owned(), Secret::new("hunter2"))].into();
        let limit = Duration::from_secs(20);
        let status = reach("p", &service, limit).await.expect("it responds");
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        // Nothing listens on this port.
        let absent = Service::new(Api::OpenAi, "http://127.0.0.1:1/v1");
        let refused = reach("p", &absent, limit).await.expect_err("nothing listens there");
        assert!(matches!(refused, Unreached::Failed(HttpsError::Connect(_))), "{refused:?}");
    }
}
