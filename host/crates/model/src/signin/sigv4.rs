//! Signatures of requests to AWS: version 4, in the header `authorization`.
//!
//! The host, the type of the body, the time and a session token are signed beside the method, the path,
//! the query and the body. Other headers are not: AWS does not require it, and proxies may change them.

use std::{fmt, fmt::Write as _, time::SystemTime};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use http::{HeaderName, HeaderValue, Uri, header, request::Parts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::{
    digest::{SHA256, digest},
    hmac,
};

use crate::{
    ModelError,
    http::{HttpClient, SignIn},
};
use airlock_core::secret::Secret;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SESSION_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
/// Name of Bedrock in signatures.
const BEDROCK: &str = "bedrock";
/// Characters that a canonical path encodes, also those that the path itself has encoded already.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Signs requests to Bedrock with an access key.
pub(super) struct AccessKey {
    signer: RequestSigner,
    session_token: Option<HeaderValue>,
}

/// An access key, and the part of AWS for which it signs.
struct RequestSigner {
    access_key: String,
    secret_key: Secret,
    region: String,
    service: &'static str,
}

/// The parts of a request that are signed.
struct SignedParts<'r> {
    method: &'r str,
    path: &'r str,
    query: &'r str,
    /// Names in lower case, in their order.
    headers: &'r [(&'r str, &'r str)],
    body: &'r [u8],
}

impl AccessKey {
    /// `None` if a part of the key cannot be sent.
    pub(super) fn new(
        region: &str,
        access_key: &Secret,
        secret_key: &Secret,
        session_token: Option<&Secret>,
    ) -> Option<Self> {
        let access_key = access_key.expose();
        let session_token = match session_token {
            Some(token) => {
                let mut token = HeaderValue::from_str(token.expose()).ok()?;
                token.to_str().ok()?;
                token.set_sensitive(true);
                Some(token)
            }
            None => None,
        };
        let signer = RequestSigner {
            access_key: access_key.to_owned(),
            secret_key: secret_key.clone(),
            region: region.to_owned(),
            service: BEDROCK,
        };
        let is_fit = is_part_of_header(access_key) && is_part_of_header(region);
        is_fit.then_some(Self { signer, session_token })
    }

    /// Signs a request at a time.
    fn sign_at(&self, time: SystemTime, head: &mut Parts, body: &[u8]) {
        let stamp = stamp(time);
        let host = host(&head.uri);
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = self.session_token.as_ref().and_then(|token| token.to_str().ok());
        let mut headers =
            vec![("content-type", content_type), ("host", &host), ("x-amz-date", &stamp)];
        headers.extend(token.map(|token| ("x-amz-security-token", token)));
        let authorization = self.signer.authorization(
            &stamp,
            &SignedParts {
                method: head.method.as_str(),
                path: head.uri.path(),
                query: head.uri.query().unwrap_or_default(),
                headers: &headers,
                body,
            },
        );
        let texts = [(header::AUTHORIZATION, authorization), (DATE, stamp), (header::HOST, host)];
        for (name, text) in texts {
            let mut value = HeaderValue::try_from(text).expect("its parts are those of headers");
            value.set_sensitive(name == header::AUTHORIZATION);
            head.headers.insert(name, value);
        }
        if let Some(token) = &self.session_token {
            head.headers.insert(SESSION_TOKEN, token.clone());
        }
    }
}

impl SignIn for AccessKey {
    /// Digests the whole body on the calling thread.
    fn sign<'a>(
        &'a self,
        _: &'a HttpClient,
        head: &'a mut Parts,
        body: &'a Bytes,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        self.sign_at(SystemTime::now(), head, body);
        future::ready(Ok(())).boxed()
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey")
            .field("access_key", &self.signer.access_key)
            .finish_non_exhaustive()
    }
}

impl RequestSigner {
    /// Returns the value of the header `authorization` for a request at the time `stamp`.
    fn authorization(&self, stamp: &str, request: &SignedParts<'_>) -> String {
        let day = stamp.split('T').next().unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let canonical = hex(digest(&SHA256, request.canonical().as_bytes()).as_ref());
        let text = format!("{ALGORITHM}\n{stamp}\n{scope}\n{canonical}");
        let secret = format!("AWS4{}", self.secret_key.expose());
        let parts = [day, &self.region, self.service, "aws4_request"];
        let key = parts.iter().fold(secret.into_bytes(), |key, part| hmac(&key, part));
        let signature = hex(&hmac(&key, &text));
        let access_key = &self.access_key;
        let signed = request.signed_headers();
        format!(
            "{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={signed}, Signature={signature}"
        )
    }
}

impl SignedParts<'_> {
    /// Returns the canonical form of the request.
    fn canonical(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { self.path };
        let path = utf8_percent_encode(path, ENCODED);
        let mut query: Vec<_> = self.query.split('&').filter(|part| !part.is_empty()).collect();
        query.sort_unstable();
        let mut canonical = format!("{}\n{path}\n{}\n", self.method, query.join("&"));
        for (name, value) in self.headers {
            let words: Vec<_> = value.split_whitespace().collect();
            let _ = writeln!(canonical, "{name}:{}", words.join(" "));
        }
        let body = hex(digest(&SHA256, self.body).as_ref());
        let _ = write!(canonical, "\n{}\n{body}", self.signed_headers());
        canonical
    }

    fn signed_headers(&self) -> String {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        names.join(";")
    }
}

/// Returns whether a text can be a part of a header.
fn is_part_of_header(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic())
}

/// Returns the host of a URI as HTTP clients send it.
fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    match uri.port_u16().filter(|port| *port != default) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Returns a time as `20150830T123600Z`.
fn stamp(time: SystemTime) -> String {
    let mut text = humantime::format_rfc3339_seconds(time).to_string();
    text.retain(|c| !matches!(c, '-' | ':'));
    text
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
