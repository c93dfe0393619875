//! Servers over HTTP, whichever of the two transports they speak.

use std::any::Any;

use futures_util::future::BoxFuture;

use super::{
    connector::{Connector, OpenError, Opened, Opening},
    http::{self, HttpConnection},
    sse,
};
use airlock_mcp_oauth::{HttpSettings, Secrets, ServerClient, request_secrets};

/// Parts of the errors of a server that speaks the other transport. Those of streamable HTTP are the
/// first two.
const OTHER_TRANSPORT: [&str; 5] =
    ["HTTP 404", "HTTP 405", "HTTP 400", "HTTP 406", "with the content type"];

/// A server over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpServer {
    /// The transport that it speaks.
    pub transport: HttpTransport,
    /// Address, headers and certificates of its connection.
    pub settings: HttpSettings,
}

/// A transport over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpTransport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl Connector for HttpServer {
    fn connection_type(&self) -> &'static str {
        match self.transport {
            HttpTransport::Streamable => "http",
            HttpTransport::Sse => "sse",
        }
    }

    fn is_same(&self, other: &dyn Connector) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>> {
        Box::pin(async move {
            let Opening { inbox, authority, .. } = opening;
            let client = ServerClient::open(&self.settings).await?;
            let extra = self.settings.extra_headers.clone();
            let connection = HttpConnection::new(client, extra, inbox, authority);
            let transport = match self.transport {
                HttpTransport::Streamable => http::transport(connection),
                HttpTransport::Sse => sse::transport(connection),
            };
            Ok(Opened { transport, process: None })
        })
    }

    fn secrets(&self) -> Secrets {
        request_secrets(&self.settings)
    }

    fn http(&self) -> Option<&HttpSettings> {
        Some(&self.settings)
    }

    fn advice(&self, error: &str) -> Option<&'static str> {
        let (parts, advice) = match self.transport {
            HttpTransport::Streamable => (
                &OTHER_TRANSPORT[..2],
                "if the server speaks HTTP+SSE, the transport of 2024-11-05, set `connection_type` to \"sse\"",
            ),
            HttpTransport::Sse => (
                &OTHER_TRANSPORT[..],
                "if the server speaks streamable HTTP, set `connection_type` to \"http\"",
            ),
        };
        parts.iter().any(|part| error.contains(part)).then_some(advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_the_other_transport_is_recognized_by_its_status() {
        for status in ["400 Bad Request: No valid session ID provided", "404 Not Found", "405 x"] {
            assert!(sse(&refused(status)).contains("\"http\""), "{status}");
        }
        assert!(sse("HTTP 200 OK with the content type \"application/json\"").contains("\"http\""));
        for status in ["404 Not Found: Cannot POST /sse", "405 Method Not Allowed"] {
            assert!(http(&refused(status)).contains("\"sse\""), "{status}");
        }
        for error in ["the server refuses the credentials: HTTP 401 Unauthorized: no", "HTTP 503"] {
            assert_eq!((sse(error), http(error)), ("", ""), "{error}");
        }
        assert_eq!(http(&refused("400 Bad Request: x")), "");
    }

    fn sse(error: &str) -> &'static str {
        advice(HttpTransport::Sse, error)
    }

    fn http(error: &str) -> &'static str {
        advice(HttpTransport::Streamable, error)
    }

    fn advice(transport: HttpTransport, error: &str) -> &'static str {
        let server = HttpServer { transport, settings: HttpSettings::default() };
        server.advice(error).unwrap_or_default()
    }

    fn refused(status: &str) -> String {
        format!("the handshake failed: HTTP {status}")
    }
}
