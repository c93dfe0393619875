//! The login of a link at an authorization server: its beginning, and the redirect that completes it.

use std::time::Duration;

use base64::engine::{Engine as _, general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tracing::{info, warn};
use uuid::Uuid;

use super::{
    super::{
        callback::Redirected,
        exchange::AuthorizationRequest,
        http_settings::request_secrets,
        login::{LoginError, Preparation, prepare},
        logins::{LoginsUnavailable, StoredLogin},
        outbound::Outbound,
        secrets::Redactor,
        server::LoginServer,
    },
    FollowError, LoginLinks, OpenLink, check_settings, digest,
    document::{LinkDocument, LinkHolder, StartedLogin},
    new_secret,
};
use airlock_store::{login::LoginId, login_link::LoginLink};

/// Path to which authorization servers redirect browsers, before the name of the client. Each client has
/// its own, so that a hostile server cannot have the code of another server sent to its own token endpoint
/// (RFC 9700, section 4.4.2.2): not all authorization servers name themselves in a redirect.
const CALLBACK: &str = "oauth/callback/";
/// Time for which the beginning of a login waits for others of its link or its client.
const BEGIN_WAIT: Duration = Duration::from_secs(2);

impl LoginLinks {
    /// Begins the login of a link, which its user has confirmed in the browser with this secret. Returns
    /// the URL of the authorization server. `server` is that of the client. A link may be begun
    /// again; the last time counts. Fails with [`FollowError::Busy`] after a short wait if the link is being
    /// begun already, or too many of its client are.
    pub async fn begin(
        &self,
        link: &str,
        browser: &str,
        server: LoginServer<'_>,
    ) -> Result<String, FollowError> {
        let (found, document) = self.read(link).await?;
        check_settings(&found.id, server)?;
        let base = self.0.base.get().ok_or(FollowError::Gone)?;
        let digest = digest(link);
        let link_turn = timeout(BEGIN_WAIT, self.0.links_beginning.take(&digest)).await;
        let _link_turn = link_turn.map_err(|_| FollowError::Busy)?;
        let client_turn = self.0.clients_beginning.take(&found.id.client);
        let client_turn = timeout(BEGIN_WAIT, client_turn).await;
        let _client_turn = client_turn.map_err(|_| FollowError::Busy)?;
        let redirect = format!("{base}{CALLBACK}{}", server.client);
        let preparation = Preparation {
            stored: self.0.logins.stored(found.id),
            holder: Some(document.holder.to_holder(new_secret())),
            redirect,
            clients: Some(&self.0.clients),
        };
        let prepared = Box::pin(prepare(server, preparation)).await?;
        let state = self::digest(&prepared.request.state);
        let started = StartedLogin::new(&prepared.request, browser_digest(browser));
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        // Keys may have been entered meanwhile: the present document is changed.
        let starting = database.start_login_link(digest, state, |link| {
            Some(LinkDocument::open(link)?.started(started).to_text())
        });
        let is_open = starting.await;
        if !is_open.map_err(LoginsUnavailable::from)? {
            return Err(FollowError::Gone);
        }
        Ok(prepared.url)
    }

    /// Returns the link that a redirect would complete, if its user has to confirm that once more. Over plain
    /// HTTP, any program of the machine can set the secret of the browser (cookies ignore ports), so the
    /// login might be one that another person has begun. `None` over TLS, where no other host can, and if
    /// the authorization server has refused the login. Completes nothing.
    pub async fn unconfirmed(
        &self,
        query: &str,
        browser: &str,
        server: LoginServer<'_>,
    ) -> Result<Option<OpenLink>, FollowError> {
        let redirected = Redirected::parse(query).ok_or(FollowError::Gone)?;
        if self.is_secure() || redirected.error.is_some() {
            return Ok(None);
        }
        let (link, holder, _) = self.started(&redirected, browser, server).await?;
        OpenLink::new(link.id, holder).map(Some)
    }

    /// Returns the login that a redirect belongs to. Fails if the redirect came to the address of another
    /// client, or to another browser.
    async fn started(
        &self,
        redirected: &Redirected,
        browser: &str,
        server: LoginServer<'_>,
    ) -> Result<(LoginLink, LinkHolder, StartedLogin), FollowError> {
        if self.0.logins.is_absent() {
            return Err(FollowError::Gone);
        }
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        let found = database.started_login_link(digest(&redirected.state)).await;
        let link = found.map_err(LoginsUnavailable::from)?.ok_or(FollowError::Gone)?;
        if link.id.client != server.client.as_str() {
            let client = link.id.client;
            warn!(client, to = %server.client, "a redirect came to the address of another client");
            return Err(FollowError::Gone);
        }
        let document = LinkDocument::open(&link).ok_or(FollowError::Gone)?;
        let started = document.started.ok_or(FollowError::Gone)?;
        if started.browser != browser_digest(browser) {
            return Err(FollowError::OtherBrowser);
        }
        check_settings(&link.id, server)?;
        Ok((link, document.holder, started))
    }

    /// Completes a login with the query of the redirect, in the browser with this secret. `server` is
    /// that of the client that the path of the redirect names; the redirect of another client's login
    /// fails. Returns the stored login. Of two redirects of one login, the second fails. All links for the
    /// same login end with a login that is stored; one that fails can be begun again.
    pub async fn complete(
        &self,
        query: &str,
        browser: &str,
        server: LoginServer<'_>,
    ) -> Result<LoginId, FollowError> {
        let redirected = Redirected::parse(query).ok_or(FollowError::Gone)?;
        let state = digest(&redirected.state);
        let (link, holder, started) = self.started(&redirected, browser, server).await?;
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        // Of many that come at once, one goes on.
        if !database.take_login_link(state).await.map_err(LoginsUnavailable::from)? {
            return Err(FollowError::Gone);
        }
        let outbound = Outbound::open(server.http).await;
        let outbound = outbound.map_err(|error| LoginError::InvalidSettings(error.to_string()))?;
        let redactor = Redactor::new(request_secrets(server.http))
            .map_err(|error| LoginError::InvalidSettings(error.to_string()))?;
        let session = Uuid::new_v4().simple().to_string();
        let request = started.into_request(redirected.state.clone(), holder.to_holder(session));
        let stored = self.0.logins.stored(link.id.clone());
        let login = match request.finish(redirected, &outbound, &redactor).await {
            Ok(login) => login,
            Err(error) => {
                self.learn(&error, &request, &stored, server).await;
                return Err(error.into());
            }
        };
        self.store(&link, login).await?;
        info!(client = link.id.client, key = holder.key_name, "a user has logged in");
        self.record_login(&link.id.client, &holder, "oauth");
        Ok(link.id)
    }

    /// Forgets what made a login fail, so that the next one can succeed: the registered client if the token
    /// endpoint does not know it, the scopes that the MCP server has asked for if they are unknown. A
    /// redirect alone, which the user can write, has no client registered anew.
    async fn learn(
        &self,
        error: &LoginError,
        request: &AuthorizationRequest,
        stored: &StoredLogin,
        server: LoginServer<'_>,
    ) {
        let login = &request.login;
        match error {
            LoginError::UnknownClient(_) => {
                let clients = &self.0.clients;
                clients.forget(server.client, &request.redirect, &login.scopes, &login.client_id);
            }
            LoginError::UnknownScope => stored.forget_wanted().await,
            _ => {}
        }
    }
}

fn browser_digest(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::new().chain_update("browser ").chain_update(secret).finalize())
}
