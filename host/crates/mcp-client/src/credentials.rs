//! The credentials of one server: the secrets of its settings, which are redacted, and its login.

use std::{future::pending, sync::Arc};

use super::{connector::OpenError, settings::Settings};
use airlock_core::secret::Scrubber;
use airlock_mcp_oauth::{
    Authority, Authorizer, ExchangedToken, HttpSettings, LoginServer, Logins, Redactor,
    UserCredentials, UserHeaders, login_id,
};
use airlock_store::{OwnerId, login::LoginId};
use airlock_strings::with_causes;

/// The credentials of one server, for all its connections.
#[derive(Default)]
pub struct Credentials {
    redactor: Arc<Redactor>,
    authority: Option<Arc<Authority>>,
}

/// Credentials of a user, with which a connection is opened.
#[derive(Clone)]
pub enum UserGrant {
    /// The credentials that the store has of this holder: a login, or the headers that it has entered.
    Stored(OwnerId),
    /// The token for which that of a caller was exchanged.
    Exchanged(ExchangedToken),
}

impl Credentials {
    /// Creates the credentials, with the operator's login. Fails if the secrets cannot be redacted, or if
    /// the settings of the login can never work.
    pub fn new(settings: &Settings, logins: &Logins) -> Result<Self, OpenError> {
        let redactor = redactor(settings)?;
        let http = settings.transport.http().filter(|http| http.oauth.is_some());
        let authority = http.map(|http| {
            let stored = logins.stored(login_id(&settings.name, http));
            Authorizer::new(&settings.name, http, stored, redactor.clone()).map(Authority::Login)
        });
        Ok(Self { redactor, authority: authority.transpose()?.map(Arc::new) })
    }

    /// Creates the credentials of a user. Fails as [`Self::new`] does, if the server acts for the operator
    /// alone, and if credentials of users may not be sent to it.
    pub fn of_user(
        settings: &Settings,
        logins: &Logins,
        grant: UserGrant,
    ) -> Result<Self, OpenError> {
        let redactor = redactor(settings)?;
        let http = settings.transport.http();
        http.map(HttpSettings::check_users).transpose()?;
        let users = http.and_then(|http| Some((http, http.users.as_ref()?)));
        let authority = match (grant, users) {
            (UserGrant::Stored(holder), Some((http, UserCredentials::Headers(names)))) => {
                let stored = logins.stored(login_id(&settings.name, http).of_holder(holder));
                let headers = UserHeaders::new(stored, names, redactor.clone());
                Authority::Headers(Box::new(headers))
            }
            (UserGrant::Stored(holder), Some((http, UserCredentials::Login))) => {
                let stored = logins.stored(login_id(&settings.name, http).of_holder(holder));
                let authorizer = Authorizer::new(&settings.name, http, stored, redactor.clone())?;
                Authority::Login(authorizer)
            }
            (UserGrant::Exchanged(token), Some((_, UserCredentials::Exchange(_)))) => {
                redactor.add_tokens([("access token", token.text().to_owned())]);
                Authority::Exchanged(token)
            }
            _ => return Err(OpenError::Invalid("it does not act for single users".to_owned())),
        };
        Ok(Self { redactor, authority: Some(Arc::new(authority)) })
    }

    /// Returns the scrubber for all present secrets.
    pub fn scrubber(&self) -> Arc<Scrubber> {
        self.redactor.scrubber()
    }

    /// Returns the redactor, whose scrubber is replaced when the tokens of the login change.
    pub(super) fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Names the login of a holder at the server of these settings; `None` if the store has none of users.
    pub fn login_of(settings: &Settings, holder: OwnerId) -> Option<LoginId> {
        let http = settings.transport.http()?;
        match http.users {
            Some(UserCredentials::Login | UserCredentials::Headers(_)) => {}
            Some(UserCredentials::Exchange(_)) | None => return None,
        }
        Some(login_id(&settings.name, http).of_holder(holder))
    }

    /// Returns the source of the credentials of requests; `None` if they have those of the settings alone.
    pub(super) fn authority(&self) -> Option<&Arc<Authority>> {
        self.authority.as_ref()
    }

    /// Waits until the operator has logged in at the server again.
    pub async fn login_changed(&self) {
        match self.authority.as_deref() {
            Some(Authority::Login(authorizer)) => authorizer.changed().await,
            _ => pending().await,
        }
    }
}

/// Returns the server of these settings, as its logins know it; `None` for a server that is not reached over HTTP.
pub fn login_server(settings: &Settings) -> Option<LoginServer<'_>> {
    let http = settings.transport.http()?;
    Some(LoginServer { client: &settings.name, http })
}

fn redactor(settings: &Settings) -> Result<Arc<Redactor>, OpenError> {
    let redactor = Redactor::new(settings.transport.secrets());
    redactor.map(Arc::new).map_err(|error| OpenError::Invalid(with_causes(&error)))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;
    use crate::{HttpServer, HttpTransport};
    use airlock_core::tool::ClientName;

    #[test]
    fn headers_of_users_are_not_sent_over_plain_http_to_a_public_server() {
        let logins = Logins::new(airlock_store::Settings::new("/nonexistent/a.db").into());
        for (url, is_good) in [
            ("https://mcp.example.com/mcp", true),
            ("http://127.0.0.1/mcp", true),
            ("http://mcp.example.com/mcp", false),
        ] {
            let users = UserCredentials::Headers(vec![HeaderName::from_static("x-api-key")]);
            let http = HttpSettings { users: Some(users), ..HttpSettings::new(url) };
            let server = HttpServer { transport: HttpTransport::Streamable, settings: http };
            let settings = Settings::new(ClientName::parse("up").expect("a good name"), server);
            let made = Credentials::of_user(&settings, &logins, UserGrant::Stored([1; 32]));
            assert_eq!(made.is_ok(), is_good, "{url}");
        }
    }
}
