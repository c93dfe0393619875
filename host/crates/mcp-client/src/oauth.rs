//! Authorization at servers with OAuth 2.1 (RFC 9728, RFC 8414, RFC 7636, RFC 7591, RFC 8707,
//! RFC 9207), with the gateway as the client.
//!
//! The operator logs in with `airlock upstream login`, which stores the tokens. At a server that acts for
//! single users, each of them logs in by a link of the gateway. The gateway adds the
//! access token to every request, and refreshes it before it expires. It never logs in by itself: a
//! server that asks for more than the login permits fails with a message that names the command.
//!
//! | module | purpose |
//! |---|---|
//! | `settings` | `oauth_config` of one server |
//! | `login` | a login of the operator, up to the stored tokens; the preparation of any login |
//! | `callback` | receives the redirect of the operator's browser |
//! | `links`, `clients` | the links by which users log in; the OAuth clients that are registered for them |
//! | `turns` | bounds what runs at once for each key |
//! | `exchange`, `token_endpoint` | exchanges a code for tokens; requests to a token endpoint |
//! | `tokens` | the response of a token endpoint, and the login that is made of it |
//! | `logins` | the stored logins |
//! | `authorizer` | the access token of each request |
//! | `refresh` | exchanges a refresh token for new tokens |
//! | `challenge` | what a server that refuses a request asks for |
//! | `outbound` | the HTTP client: permitted addresses, sizes and times |
//!
//! `rmcp` discovers the authorization server, registers the client, and makes the URL for the browser.
//! All its requests pass `outbound`. It requests no tokens here: it keeps what a code needs in the
//! process that began the login; for a refresh, it would discover the endpoints again, from a server
//! that may have been taken over since the login; it loses the spelling of the resource; and it does not
//! tell a refused client from a failure that passes.

mod authorizer;
mod callback;
mod challenge;
mod clients;
mod exchange;
mod links;
mod login;
mod logins;
mod outbound;
mod refresh;
mod settings;
mod token_endpoint;
mod tokens;
mod turns;

pub(super) use self::{
    authorizer::{AuthorizationError, Authorizer, Bearer},
    challenge::Challenge,
    logins::login_id,
};
pub use self::{
    callback::{Callback, CallbackError},
    links::{FollowError, LinkError, LoginLinks, OpenLink, is_secret, new_secret},
    login::{LoginError, PendingLogin},
    logins::{Logins, LoginsUnavailable},
    settings::{Oauth, TokenAuthentication},
    tokens::LoggedIn,
};
