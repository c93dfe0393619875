//! Service accounts of Google Cloud: a signed assertion is exchanged for an access token, as RFC 7523
//! and Google's documentation of OAuth for servers describe.

use std::{
    fmt,
    io::Read as _,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Uri, header, request::Parts};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::warn;
use url::Url;

use super::access_token::{AccessToken, TokenCache};
use crate::{
    BadProvider, ModelError, Service, ServiceAccountKey, TokenError,
    http::{HttpClient, SignIn, https_client},
};
use airlock_conversation::Object;
use airlock_core::{
    regular_file,
    secret::{self, Secret},
};
use airlock_egress::https::HttpsClient;
use airlock_strings::cut;

/// Rights that a token has: those of the account at all services of Google Cloud.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Endpoint of tokens, if the key has none.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// Life of an assertion, the longest that Google accepts.
const ASSERTION_LIFE: Duration = Duration::from_hours(1);
/// Life of a token whose response has none.
const TOKEN_LIFE_SECS: u64 = 3_600;
/// Time limit for a token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of the response to a request for a token: it is read into memory before it is parsed. Its token has
/// to fit into a header, for which most servers take some 8 KiB.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Maximum bytes of the endpoint's message.
const SAID_BYTES: usize = 256;

/// Signs requests in with the access token of a service account.
pub(super) struct ServiceAccount {
    key: AccountKey,
    http: HttpsClient,
    cache: TokenCache,
}

/// Key of a service account.
struct AccountKey {
    email: String,
    id: String,
    pair: RsaKeyPair,
    endpoint: Uri,
}

/// The file of a key, as Google writes it.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    client_email: String,
    #[serde(default)]
    private_key_id: String,
    private_key: String,
    token_uri: Option<String>,
}

impl ServiceAccount {
    /// Reads the key of a service account, for the key with this name. Errors do not quote it.
    pub(super) fn new(
        provider: &str,
        service: &Service,
        name: &str,
        source: &ServiceAccountKey,
    ) -> Result<Self, BadProvider> {
        let key =
            read(source).and_then(|text| AccountKey::parse(text.expose()).map_err(str::to_owned));
        let key = key.map_err(|problem| BadProvider::ServiceAccount {
            provider: provider.to_owned(),
            key: name.to_owned(),
            problem,
        })?;
        let is_tls = key.endpoint.scheme_str() == Some("https");
        let http = https_client(provider, service, is_tls, service.timeouts.connect, None)?;
        Ok(Self { key, http, cache: TokenCache::new() })
    }

    async fn token(&self, client: &HttpClient) -> Result<AccessToken, TokenError> {
        let requested = Instant::now();
        let answer = timeout(TOKEN_TIMEOUT, self.exchange());
        let answer = answer.await.unwrap_or(Err(TokenError::Timeout));
        let token = answer.and_then(|answer| {
            let token = answer.get("access_token").and_then(Value::as_str);
            let token = token.ok_or(TokenError::Invalid { what: "no `access_token`" })?;
            let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                TokenError::Invalid { what: "an `access_token` that cannot be sent" }
            })?;
            header.set_sensitive(true);
            client.redact(token);
            let life = answer.get("expires_in").and_then(Value::as_u64).unwrap_or(TOKEN_LIFE_SECS);
            Ok(AccessToken::new(header, requested, Duration::from_secs(life)))
        });
        if let Err(error) = &token {
            let error = airlock_strings::with_causes(error);
            warn!(provider = %client.provider, account = %self.key.email, %error, "no access token for a provider");
        }
        token
    }

    /// Sends an assertion and returns the response.
    async fn exchange(&self) -> Result<Object, TokenError> {
        let assertion = self.key.assertion(SystemTime::now())?;
        // The characters of an assertion need no encoding.
        let body = format!(
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}"
        );
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.key.endpoint.clone();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, form);
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.http.send(request).await.map_err(TokenError::Transport)?;
        let status = response.status();
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(data) = body.data().await.map_err(TokenError::Transport)? {
            if text.len() + data.len() > MAX_RESPONSE_BYTES {
                return Err(TokenError::Invalid { what: "a response that is too large" });
            }
            text.extend_from_slice(&data);
        }
        let answer: Option<Object> = serde_json::from_slice(&text).ok();
        if status.is_success() {
            return answer.ok_or(TokenError::Invalid { what: "a body that is not a JSON object" });
        }
        let answer = answer.unwrap_or_default();
        let mut reasons = ["error_description", "error"].into_iter();
        let message = reasons.find_map(|name| answer.get(name)?.as_str());
        let message = cut(message.unwrap_or_default().to_owned(), SAID_BYTES);
        Err(TokenError::Refused { status, message })
    }
}

/// Returns the text of a key. Fails with a problem, to be read after "the service account".
fn read(source: &ServiceAccountKey) -> Result<Secret, String> {
    match source {
        ServiceAccountKey::Text(text) => Ok(text.clone()),
        ServiceAccountKey::File(path) => read_file(path)
            .map_err(|problem| format!("is the file {}, which {problem}", path.display())),
    }
}

/// Returns the text of a file. Fails with a problem, to be read after "the file".
fn read_file(path: &Path) -> Result<Secret, String> {
    let mut text = String::new();
    let read = regular_file::open(path)
        .and_then(|file| file.take(secret::MAX_BYTES as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() > secret::MAX_BYTES {
        return Err("is too large".to_owned());
    }
    Ok(Secret::new(text))
}

impl AccountKey {
    /// Returns the problem of a text that is no key, to be read after "the service account".
    fn parse(text: &str) -> Result<Self, &'static str> {
        let file: KeyFile = serde_json::from_str(text)
            .map_err(|_| "must be the JSON file of a key, as Google Cloud writes it")?;
        if file.kind != "service_account" {
            return Err("must have the `type` \"service_account\"");
        }
        let der = PrivatePkcs8KeyDer::from_pem_slice(file.private_key.as_bytes())
            .map_err(|_| "has a `private_key` that is not a PKCS #8 key in PEM format")?;
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der())
            .map_err(|_| "has a `private_key` that is not a valid RSA key")?;
        let endpoint = file.token_uri.as_deref().unwrap_or(TOKEN_URI);
        let url = Url::parse(endpoint).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let endpoint = url.and_then(|url| url.as_str().parse().ok());
        let endpoint = endpoint.ok_or("has a `token_uri` that is not an HTTP URL")?;
        Ok(Self { email: file.client_email, id: file.private_key_id, pair, endpoint })
    }

    /// Returns a signed assertion that is valid from `now`.
    fn assertion(&self, now: SystemTime) -> Result<String, TokenError> {
        let issued = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.id});
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.endpoint.to_string(),
            "iat": issued.as_secs(),
            "exp": (issued + ASSERTION_LIFE).as_secs(),
        });
        self.sign(format!("{}.{}", encode_part(&header), encode_part(&claims)))
    }

    /// Adds the signature to the text of a token.
    fn sign(&self, mut text: String) -> Result<String, TokenError> {
        let mut signature = vec![0; self.pair.public().modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| TokenError::Unsigned)?;
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut text);
        Ok(text)
    }
}

/// Encodes the header or the claims of a token.
fn encode_part(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

impl SignIn for ServiceAccount {
    fn sign<'a>(
        &'a self,
        client: &'a HttpClient,
        head: &'a mut Parts,
        _: &'a Bytes,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let token = self.cache.get(|| self.token(client)).await;
            let token = token.map_err(|cause: Arc<TokenError>| ModelError::Token {
                provider: client.provider.clone(),
                cause,
            })?;
            head.headers.insert(header::AUTHORIZATION, token);
            Ok(())
        })
    }
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("email", &self.key.email).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
