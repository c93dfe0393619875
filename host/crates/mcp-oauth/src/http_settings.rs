//! Settings of a server that is reached over HTTP.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic,
    sync::LazyLock,
    time::Duration,
};

use http::HeaderName;
use reqwest::{Url, redirect::Policy};
use rustls::ClientConfig;
use tokio::task::spawn_blocking;

use super::{
    keyed_permits::KeyedPermits,
    outbound::check_server,
    secrets::Secrets,
    settings::{Oauth, TokenExchange},
};
use airlock_core::secret::Secret;
use airlock_egress::{GuardedResolver, tls};
use airlock_strings::with_causes;
use airlock_tls::{Authorities, BadIdentity, IdentitySource};

/// Time limit for connecting to an HTTP host; the later steps have deadlines of their own.
const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an idle HTTP connection is closed. Node.js and uvicorn close theirs after 5 s,
/// and a request that meets this end is lost.
const HTTP_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Readings of the files of one server at the same time. One that does not end, because its file system does not
/// respond, keeps its thread.
const MAX_READINGS: usize = 2;

/// Permits for readings, by the URLs of the servers.
static READINGS: LazyLock<KeyedPermits<String>> = LazyLock::new(|| KeyedPermits::new(MAX_READINGS));

/// Reason that the settings of a server over HTTP can never work.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(pub(crate) String);

/// Credentials of callers at a server that acts for single users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserCredentials {
    /// A login with OAuth of each user. Needs [`HttpSettings::oauth`].
    Login,
    /// Values of headers with these names, which each user enters.
    Headers(Vec<HeaderName>),
    /// Tokens for which the access tokens of callers are exchanged.
    Exchange(TokenExchange),
}

/// Headers of callers that a server may be passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ExtraHeaders {
    /// None.
    #[default]
    None,
    /// All but those that grant access, concern the connection, or control the gateway.
    All,
    /// These, in lower case. None of them is reserved.
    Named(BTreeSet<String>),
}

/// Settings of a server that is reached over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// The endpoint.
    pub url: String,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Headers of callers that are passed on with their calls. They replace `headers` of the same
    /// name.
    pub extra_headers: ExtraHeaders,
    /// Certificates that are trusted in addition to the system's. Their file is read when the client connects
    /// to the server.
    pub authorities: Authorities,
    /// Certificate of the gateway for the server, if it asks for one. Its files are read when
    /// the client connects to the server; HTTP connections that it opens after that have the same one.
    pub identity: Option<IdentitySource>,
    /// True to permit private addresses although the URL's host is neither one nor `localhost`.
    pub allow_private: bool,
    /// Authorization with OAuth; `None` for a server that needs no more than `headers`.
    pub oauth: Option<Oauth>,
    /// Credentials of callers that calls are made with, over a connection of each caller's own; `None` if
    /// all calls are made with those of the operator, who lists the tools in any case.
    pub users: Option<UserCredentials>,
}

impl HttpSettings {
    /// Creates the settings of an endpoint without headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Builds the HTTP client for the server at `url`, the parsed one, or for its authorization servers.
    /// It takes no proxy from the environment, and reaches private networks only if the settings
    /// permit it. Every server that it reaches gets the certificate of `identity` if it asks for one.
    pub(crate) fn client(
        &self,
        url: &Url,
        redirects: Policy,
        identity: Option<&IdentitySource>,
    ) -> Result<(reqwest::Client, GuardedResolver), InvalidSettings> {
        let invalid = InvalidSettings;
        let host = url.host().ok_or_else(|| invalid("the URL has no host".to_owned()))?;
        let guard = GuardedResolver::new(&host, self.allow_private)
            .map_err(|error| invalid(format!("the URL cannot be used: {error}")))?;
        let config = client_config(&self.authorities, identity)?;
        let client = tls::client_with(config)
            .dns_resolver(guard.clone())
            .no_proxy()
            .connect_timeout(HTTP_CONNECT_TIMEOUT)
            .pool_idle_timeout(HTTP_IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .referer(false)
            .redirect(redirects)
            .build();
        let client =
            client.map_err(|error| invalid(format!("no HTTP client: {}", with_causes(&error))))?;
        Ok((client, guard))
    }

    /// Runs `work`, which reads the files of TLS. If there are any, it runs where it holds up nothing else: a file
    /// system may never respond. The caller bounds the time; dropping the future does not end the work.
    pub(crate) async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        if !matches!(self.authorities, Authorities::File(_)) && self.identity.is_none() {
            return work(self);
        }
        let turn = READINGS.take(&self.url).await;
        let settings = self.clone();
        let working = spawn_blocking(move || {
            let _turn = turn;
            work(&settings)
        });
        working.await.unwrap_or_else(|lost| panic::resume_unwind(lost.into_panic()))
    }

    /// Fails if there are credentials of users, and they may not be sent to the URL: over plain HTTP, they go
    /// to `localhost` and private addresses alone. Reads no files.
    pub fn check_users(&self) -> Result<(), InvalidSettings> {
        if self.users.is_some() {
            check_server(self)?;
        }
        Ok(())
    }

    /// Returns the settings of the exchange of callers' tokens; `None` if users have other credentials.
    pub fn token_exchange(&self) -> Option<&TokenExchange> {
        match &self.users {
            Some(UserCredentials::Exchange(exchange)) => Some(exchange),
            _ => None,
        }
    }

    /// Returns the headers whose values each user enters; `None` if users have other credentials.
    pub fn user_headers(&self) -> Option<&[HeaderName]> {
        match &self.users {
            Some(UserCredentials::Headers(names)) => Some(names),
            _ => None,
        }
    }
}

/// Returns the files of TLS that cannot be used, each as the key below `tls_config` and the reason.
pub fn unusable_files(settings: &HttpSettings) -> Vec<(&'static str, String)> {
    let authorities = settings.authorities.read().err();
    let authorities =
        authorities.map(|error| (authorities_key(&settings.authorities), with_causes(&error)));
    let identity = settings.identity.as_ref().and_then(|source| source.read().err());
    let identity = identity.map(|error| (identity_key(&error), with_causes(&error)));
    authorities.into_iter().chain(identity).collect()
}

/// Returns the secrets of the requests to a server with these settings.
pub fn request_secrets(settings: &HttpSettings) -> Secrets {
    let mut secrets = Secrets::in_requests(&settings.url, &settings.headers);
    let secret = settings.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
    secrets.add("oauth_config.client_secret", secret.map_or("", Secret::expose));
    let secret = settings.token_exchange().and_then(|exchange| exchange.client_secret.as_ref());
    secrets.add("token_exchange.client_secret", secret.map_or("", Secret::expose));
    secrets
}

/// Returns the settings of TLS. Fails if a file of them cannot be used.
fn client_config(
    authorities: &Authorities,
    identity: Option<&IdentitySource>,
) -> Result<ClientConfig, InvalidSettings> {
    let key = authorities_key(authorities);
    let authorities = authorities.read().map_err(|error| unusable(key, &error))?;
    let config = tls::client_config(authorities).map_err(|error| {
        InvalidSettings(format!("the certificates cannot be used: {}", with_causes(&error)))
    })?;
    let identity = identity.map(IdentitySource::read).transpose();
    let identity = identity.map_err(|error| unusable(identity_key(&error), &error))?;
    Ok(match identity {
        Some(identity) => tls::identified(&config, &identity),
        None => config,
    })
}

/// Returns the key of the authorities below `tls_config`.
fn authorities_key(authorities: &Authorities) -> &'static str {
    match authorities {
        Authorities::Pem(_) => "ca_cert_pem",
        Authorities::System | Authorities::File(_) => "ca_file",
    }
}

/// Returns the key below `tls_config` that an error is about.
fn identity_key(error: &BadIdentity) -> &'static str {
    match error {
        BadIdentity::Certificate(_) => "client_certificate",
        BadIdentity::Key(_) => "client_key",
    }
}

fn unusable(key: &str, error: &(dyn std::error::Error + 'static)) -> InvalidSettings {
    InvalidSettings(format!("`tls_config.{key}` cannot be used: {}", with_causes(error)))
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc};

    use futures_util::FutureExt as _;

    use super::*;

    fn settings(url: &str) -> HttpSettings {
        let authorities = Authorities::File("ca.pem".into());
        HttpSettings { authorities, ..HttpSettings::new(url) }
    }

    #[tokio::test]
    async fn files_that_are_not_read_to_the_end_hold_up_no_other_server() {
        let hanging = settings("https://hanging.example.com/mcp");
        let mut hung = Vec::new();
        for _ in 0..MAX_READINGS {
            let (end, ended) = mpsc::channel::<()>();
            let mut reading = Box::pin(hanging.with_files(move |_| ended.recv().is_ok()));
            assert!(reading.as_mut().now_or_never().is_none());
            hung.push((end, reading));
        }
        let mut next = pin!(hanging.with_files(|_| ()));
        assert!(next.as_mut().now_or_never().is_none(), "no thread is left for it");
        settings("https://other.example.com/mcp").with_files(|_| ()).await;
        for (end, reading) in hung {
            end.send(()).expect("it reads");
            assert!(reading.await);
        }
        next.await;
    }
}
