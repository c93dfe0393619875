//! The first half of a login: the authorization server, the client, the scopes, and the URL for the
//! browser.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::Mutex;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    OAuthClientConfig, StateStore, StoredAuthorizationState,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{LoginError, PreparedLogin};
use crate::{
    challenge,
    clients::{RegisteredClients, RegistrationKey},
    exchange::AuthorizationRequest,
    http_settings::{HttpSettings, request_secrets},
    limits::MAX_REASON_BYTES,
    logins::StoredLogin,
    outbound::Outbound,
    secrets::Redactor,
    server::LoginServer,
    server_client::{BrokenExchange, ServerClient},
    settings::{Oauth, TokenAuthentication},
    token_endpoint::basic_pair,
    tokens::scopes,
};
use airlock_core::{secret::Scrubber, tool::ClientName};
use airlock_store::login::{LoginHolder, UpstreamLogin};
use airlock_strings::{MAX_WORD_BYTES, cut, with_causes};
use airlock_wire::{id::RpcId, message, method};

/// Time for finding the authorization server and for registering the client.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum length of the identifier and of the secret of a registered client, in bytes. The identifier
/// is a parameter of a URL for the browser, which has room for 8 KiB, half of it for the scopes. Each
/// login is stored with both, and redaction has room for a secret of this length.
const MAX_CLIENT_BYTES: usize = 4 << 10;
/// Parameters of the authorization endpoint that the client sets, and their prefixes.
const CLIENT_PARAMETERS: [&str; 6] =
    ["client_id", "redirect_uri", "resource", "response_type", "scope", "state"];
const CLIENT_PREFIXES: [&str; 2] = ["code_challenge", "request"];
const DISCOVERY: &str = "finding the authorization server";
const REGISTRATION: &str = "registering the client";
const REQUEST: &str = "preparing the request for a login";

/// A login that is to be prepared.
pub(crate) struct Preparation<'a> {
    pub(crate) stored: StoredLogin,
    /// The holder; `None` for the operator's login.
    pub(crate) holder: Option<LoginHolder>,
    /// URL to which the browser is to be redirected.
    pub(crate) redirect: String,
    /// Clients that were registered before, for the same redirect; `None` if it is a new one each time.
    pub(crate) clients: Option<&'a RegisteredClients>,
}

/// Prepares a login at a server.
pub(crate) async fn prepare(
    server: LoginServer<'_>,
    preparation: Preparation<'_>,
) -> Result<PreparedLogin, LoginError> {
    let LoginServer { client, http } = server;
    let oauth = http.oauth.as_ref().ok_or(LoginError::NotConfigured)?;
    let redactor = Redactor::new(request_secrets(http)).map_err(|error| invalid(&error))?;
    let outbound = Arc::new(Outbound::open(http).await.map_err(|error| invalid(&error))?);
    let manager = AuthorizationManager::new_with_oauth_http_client(&*http.url, outbound.clone());
    let manager = manager.await.map_err(|error| invalid(&error))?;
    let scrubber = redactor.scrubber();
    let Preparation { stored, holder, redirect, clients } = preparation;
    let preparing =
        Preparing { client, http, oauth, outbound, manager, scrubber, redirect, clients };
    Box::pin(preparing.run(stored, holder, redactor)).await
}

fn invalid(error: &dyn std::error::Error) -> LoginError {
    LoginError::InvalidSettings(error.to_string())
}

/// Returns the error of a step, without secrets.
fn failed(step: &'static str, error: &AuthError, scrubber: &Scrubber) -> LoginError {
    LoginError::Failed { step, reason: scrubber.line(&with_causes(error), MAX_REASON_BYTES) }
}

/// Takes the proof of possession that `rmcp` makes for the URL of a login.
#[derive(Clone, Default)]
struct Verifier(Arc<Mutex<Option<String>>>);

impl StateStore for Verifier {
    fn save<'s, 't, 'f>(
        &'s self,
        _: &'t str,
        state: StoredAuthorizationState,
    ) -> BoxFuture<'f, Result<(), AuthError>>
    where
        's: 'f,
        't: 'f,
        Self: 'f,
    {
        *self.0.lock() = Some(state.pkce_verifier);
        Box::pin(async { Ok(()) })
    }

    fn load<'s, 't, 'f>(
        &'s self,
        _: &'t str,
    ) -> BoxFuture<'f, Result<Option<StoredAuthorizationState>, AuthError>>
    where
        's: 'f,
        't: 'f,
        Self: 'f,
    {
        Box::pin(async { Ok(None) })
    }

    fn delete<'s, 't, 'f>(&'s self, _: &'t str) -> BoxFuture<'f, Result<(), AuthError>>
    where
        's: 'f,
        't: 'f,
        Self: 'f,
    {
        Box::pin(async { Ok(()) })
    }
}

struct Preparing<'a> {
    client: &'a ClientName,
    http: &'a HttpSettings,
    oauth: &'a Oauth,
    outbound: Arc<Outbound>,
    manager: AuthorizationManager,
    scrubber: Arc<Scrubber>,
    redirect: String,
    clients: Option<&'a RegisteredClients>,
}

impl Preparing<'_> {
    async fn run(
        mut self,
        stored: StoredLogin,
        holder: Option<LoginHolder>,
        redactor: Redactor,
    ) -> Result<PreparedLogin, LoginError> {
        let previous = stored.read().await?;
        let discovering = timeout(TIMEOUT, self.metadata()).await;
        let mut metadata = discovering.map_err(|_| LoginError::TimedOut(DISCOVERY))??;
        let query = own_query(&mut metadata)?;
        self.manager.set_metadata(metadata.clone());
        let scopes = self.scopes(previous.as_ref()).await;
        let scopes: Vec<&str> = scopes.split_ascii_whitespace().collect();
        let registering = timeout(TIMEOUT, self.client(&metadata, &scopes)).await;
        let client = registering.map_err(|_| LoginError::TimedOut(REGISTRATION)).flatten();
        let widened = previous.filter(|previous| !previous.wanted.is_empty());
        let widened = widened.map(|previous| previous.access_token);
        if let (Err(_), Some(token)) = (&client, &widened) {
            // The scopes that the server has asked for may be the reason. The login fails anyway.
            let _ = stored.want(token, "").await;
        }
        let client = client?;
        if let Some(secret) = &client.client_secret {
            let pair = basic_pair(&client.client_id, secret);
            redactor.add_tokens([("client secret", secret.clone()), ("client secret", pair)]);
        }
        let verifier = Verifier::default();
        self.manager.set_state_store(verifier.clone());
        let url = self.manager.get_authorization_url(&scopes).await;
        let url = url.map_err(|error| failed(REQUEST, &error, &self.scrubber))?;
        let verifier = verifier.0.lock().take().ok_or(LoginError::NoPkce)?;
        // None of its parameters is the server's.
        let state = parameter(&url, "state");
        let resource = parameter(&url, "resource");
        let login = UpstreamLogin {
            holder,
            issuer: metadata.issuer.clone().unwrap_or_default(),
            authentication: authentication(&client, &metadata).name().to_owned(),
            client_id: client.client_id,
            client_secret: client.client_secret,
            token_endpoint: metadata.token_endpoint.clone(),
            resource: resource.unwrap_or_default(),
            scopes: scopes.join(" "),
            wanted: String::new(),
            access_token: String::new(),
            refresh_token: None,
            obtained_ms: 0,
            expires_ms: None,
        };
        let request = AuthorizationRequest {
            state: state.ok_or(LoginError::Stranger)?,
            verifier,
            redirect: self.redirect,
            requires_issuer: is_set(&metadata, "authorization_response_iss_parameter_supported"),
            login,
        };
        Ok(PreparedLogin {
            request,
            url: with_query(url, query.as_deref()),
            outbound: self.outbound,
            stored,
            widened,
            redactor,
        })
    }

    /// Returns the endpoints: those of the settings, and the discovered ones.
    async fn metadata(&mut self) -> Result<AuthorizationMetadata, LoginError> {
        let oauth = self.oauth;
        let mut metadata = if oauth.authorize_url.is_some() && oauth.token_url.is_some() {
            let mut metadata = AuthorizationMetadata::default();
            metadata.issuer.clone_from(&oauth.issuer);
            metadata
        } else {
            self.discover().await?
        };
        if let Some(expected) = oauth.issuer.as_ref()
            && metadata.issuer.as_ref() != Some(expected)
        {
            let found = metadata.issuer.unwrap_or_default();
            let found = self.scrubber.line(&found, MAX_REASON_BYTES);
            return Err(LoginError::OtherIssuer { expected: expected.clone(), found });
        }
        if let Some(url) = &oauth.authorize_url {
            metadata.authorization_endpoint.clone_from(url);
        }
        if let Some(url) = &oauth.token_url {
            metadata.token_endpoint.clone_from(url);
        }
        if oauth.registration_url.is_some() {
            metadata.registration_endpoint.clone_from(&oauth.registration_url);
        }
        for (name, url) in [
            ("authorization", Some(&metadata.authorization_endpoint)),
            ("token", Some(&metadata.token_endpoint)),
            ("registration", metadata.registration_endpoint.as_ref()),
        ] {
            let checked = url.map(|url| self.outbound.check(url)).transpose();
            checked.map_err(|cause| LoginError::Endpoint { name, cause })?;
        }
        Ok(metadata)
    }

    /// Discovers the authorization server, beginning with what the server asks for. Fails if it does
    /// not support PKCE; one of the revision 2025-03-26 need not publish metadata.
    async fn discover(&self) -> Result<AuthorizationMetadata, LoginError> {
        let headers = self.refusal().await?;
        let challenge = challenge::first(&headers);
        let found = self.manager.resolve_metadata_from_challenge(challenge).await;
        let mut found = found.map_err(|error| failed(DISCOVERY, &error, &self.scrubber))?;
        let methods = found.metadata.code_challenge_methods_supported.as_ref();
        let has_pkce = methods.is_some_and(|methods| methods.iter().any(|method| method == "S256"));
        let is_guessed = found.source == AuthorizationMetadataSource::LegacyEndpointFallback;
        if is_guessed {
            // The endpoints are the server's own, so no other issuer can have sent a redirect.
            let origin = Url::parse(&self.http.url).map(|url| url.origin().ascii_serialization());
            found.metadata.issuer = origin.ok();
        } else if !has_pkce {
            return Err(LoginError::NoPkce);
        }
        Ok(found.metadata)
    }

    /// Returns the headers with which the server refuses a request without a token; empty if it does
    /// not.
    async fn refusal(&self) -> Result<HeaderMap, LoginError> {
        let server = ServerClient::open(self.http).await.map_err(|error| invalid(&error))?;
        let mut own = HeaderMap::new();
        own.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = message::request(&RpcId::from(1), method::TOOLS_LIST, &json!({}));
        match server.send(Method::POST, server.url(), own, body).await {
            Ok(response) if response.status() == http::StatusCode::UNAUTHORIZED => {
                Ok(response.headers().clone())
            }
            Ok(_) => Ok(HeaderMap::new()),
            Err(BrokenExchange { error, .. }) => {
                let reason = self.scrubber.line(&with_causes(&error.without_url()), 600);
                Err(LoginError::Failed { step: "asking the server", reason })
            }
        }
    }

    /// Returns the scopes to ask for: those of the settings and no others, else those that the
    /// server names. If the server has asked for more than an earlier login has, they are asked for
    /// too.
    async fn scopes(&self, previous: Option<&UpstreamLogin>) -> String {
        if !self.oauth.scopes.is_empty() {
            return scopes(self.oauth.scopes.iter().map(String::as_str));
        }
        let own = self.manager.select_initial_scopes(&[]).await;
        let wider = previous.filter(|previous| !previous.wanted.is_empty());
        let earlier = wider.map(|login| [login.scopes.as_str(), login.wanted.as_str()]);
        scopes(own.iter().map(String::as_str).chain(earlier.into_iter().flatten()))
    }

    /// Returns the client of the settings, one that its document describes, one that was registered
    /// before for the same redirect, or one that is registered now.
    async fn client(
        &mut self,
        metadata: &AuthorizationMetadata,
        scopes: &[&str],
    ) -> Result<OAuthClientConfig, LoginError> {
        let known = self.oauth.client_id.as_ref().or_else(|| {
            let takes_urls = is_set(metadata, "client_id_metadata_document_supported");
            self.oauth.client_metadata_url.as_ref().filter(|_| takes_urls)
        });
        let registration = metadata.registration_endpoint.as_deref().unwrap_or_default();
        let key = RegistrationKey::new(self.client, registration, &self.redirect, scopes);
        let registered = self.clients.and_then(|clients| clients.get(&key));
        let client = match (known, registered) {
            (Some(id), _) => self.known_client(id),
            (None, Some(registered)) => registered,
            (None, None) => {
                let client = self.register(metadata, scopes).await?;
                if let Some(clients) = self.clients {
                    clients.add(key, client.clone());
                }
                return Ok(client);
            }
        };
        let configured = self.manager.configure_client(client.clone());
        configured.map_err(|error| failed(REQUEST, &error, &self.scrubber))?;
        Ok(client)
    }

    fn known_client(&self, id: &str) -> OAuthClientConfig {
        let mut client = OAuthClientConfig::new(id, &self.redirect);
        if self.oauth.client_id.is_some() {
            client.client_secret =
                self.oauth.client_secret.as_ref().map(|secret| secret.expose().to_owned());
        }
        client
    }

    async fn register(
        &mut self,
        metadata: &AuthorizationMetadata,
        scopes: &[&str],
    ) -> Result<OAuthClientConfig, LoginError> {
        if metadata.registration_endpoint.is_none() {
            return Err(LoginError::NoRegistration(self.redirect.clone()));
        }
        if self.redirect.starts_with("https://") {
            // A native client has redirects to loopback addresses only.
            let web = OAuthClientConfig::new("", &self.redirect).with_application_type("web");
            let configured = self.manager.configure_client(web);
            configured.map_err(|error| failed(REQUEST, &error, &self.scrubber))?;
        }
        let name = format!("Airlock ({})", self.client);
        let registered = self.manager.register_client(&name, &self.redirect, scopes).await;
        let registered =
            registered.map_err(|error| failed(REGISTRATION, &error, &self.scrubber))?;
        check_registered(&registered)?;
        Ok(registered)
    }
}

/// Fails if the identifier or the secret of a registered client is longer than [`MAX_CLIENT_BYTES`].
fn check_registered(client: &OAuthClientConfig) -> Result<(), LoginError> {
    let secret_bytes = client.client_secret.as_ref().map_or(0, String::len);
    let bytes = client.client_id.len().max(secret_bytes);
    if bytes <= MAX_CLIENT_BYTES {
        return Ok(());
    }
    let reason =
        format!("the identifier or the secret has {bytes} bytes, more than {MAX_CLIENT_BYTES}");
    Err(LoginError::Failed { step: REGISTRATION, reason })
}

/// Returns the method that `rmcp` uses at the token endpoint: in the body if the server supports
/// only that, else in the header.
fn authentication(
    client: &OAuthClientConfig,
    metadata: &AuthorizationMetadata,
) -> TokenAuthentication {
    if client.client_secret.is_none() {
        return TokenAuthentication::None;
    }
    if supports(metadata, "client_secret_post") && !supports(metadata, "client_secret_basic") {
        TokenAuthentication::Post
    } else {
        TokenAuthentication::Basic
    }
}

/// Returns whether the server lists a method of authentication at the token endpoint.
fn supports(metadata: &AuthorizationMetadata, method: &str) -> bool {
    let supported = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let supported = supported.and_then(Value::as_array);
    supported.is_some_and(|supported| supported.iter().any(|known| known.as_str() == Some(method)))
}

fn is_set(metadata: &AuthorizationMetadata, name: &str) -> bool {
    metadata.additional_fields.get(name).and_then(Value::as_bool) == Some(true)
}

/// Takes the query out of the authorization endpoint, so that no parameter of it can be taken for one
/// of the client. Fails if it has such a one.
fn own_query(metadata: &mut AuthorizationMetadata) -> Result<Option<String>, LoginError> {
    let Ok(mut url) = Url::parse(&metadata.authorization_endpoint) else { return Ok(None) };
    let query = url.query().filter(|query| !query.is_empty()).map(str::to_owned);
    let taken = url.query_pairs().find(|(name, _)| is_clients(name));
    if let Some((name, _)) = taken {
        return Err(LoginError::Parameter(cut(name.into_owned(), MAX_WORD_BYTES)));
    }
    url.set_query(None);
    url.set_fragment(None);
    metadata.authorization_endpoint = url.into();
    Ok(query)
}

/// Returns whether a parameter is one that the client sets.
fn is_clients(name: &str) -> bool {
    CLIENT_PARAMETERS.contains(&name)
        || CLIENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Puts the query of an endpoint before the parameters of a URL.
fn with_query(url: String, query: Option<&str>) -> String {
    match (query, url.split_once('?')) {
        (Some(query), Some((endpoint, parameters))) => format!("{endpoint}?{query}&{parameters}"),
        _ => url,
    }
}

/// Returns a parameter of a URL.
fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(endpoint: &str) -> Result<(String, Option<String>), String> {
        let mut metadata = AuthorizationMetadata::default();
        metadata.authorization_endpoint = endpoint.to_owned();
        let query = own_query(&mut metadata).map_err(|error| error.to_string())?;
        Ok((metadata.authorization_endpoint, query))
    }

    #[test]
    fn a_registered_client_with_a_long_identifier_or_secret_is_refused() {
        let fits = "x".repeat(MAX_CLIENT_BYTES);
        let long = "x".repeat(MAX_CLIENT_BYTES + 1);
        for (id, secret, is_refused) in
            [(&fits, &fits, false), (&long, &fits, true), (&fits, &long, true)]
        {
            let client = OAuthClientConfig::new(id, "https://a/").with_client_secret(secret);
            assert_eq!(check_registered(&client).is_err(), is_refused);
        }
    }

    #[test]
    fn the_query_of_an_endpoint_is_kept_apart_and_sets_no_parameter_of_the_client() {
        let endpoint = "https://as.example.com/a".to_owned();
        let found = split("https://as.example.com/a?tenant=t%26x#f").expect("permitted");
        assert_eq!(found, (endpoint.clone(), Some("tenant=t%26x".to_owned())));
        let url = format!("{endpoint}?state=s&resource=r");
        let whole = with_query(url.clone(), found.1.as_deref());
        assert_eq!(whole, format!("{endpoint}?tenant=t%26x&state=s&resource=r"));
        assert_eq!(with_query(url.clone(), None), url);
        for name in [
            "resource",
            "state",
            "scope",
            "client_id",
            "redirect_uri",
            "response_type",
            "code_challenge",
            "code_challenge_method",
            "request",
            "request_uri",
            "%72esource",
        ] {
            let refused = split(&format!("https://as.example.com/a?x=y&{name}=z"));
            assert!(refused.is_err_and(|error| error.contains("its query sets")), "{name}");
        }
    }
}
