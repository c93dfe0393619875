//! Authorization at servers with OAuth 2.1 (RFC 9728, RFC 8414, RFC 7636, RFC 7591, RFC 8707,
//! RFC 9207, RFC 8693), with the gateway as the client.
//!
//! The operator logs in with `airlock upstream login`, which stores the tokens. At a server that acts for
//! single users, each of them logs in by a link of the gateway. The gateway adds the
//! access token to every request, and refreshes it before it expires. It never logs in by itself: a
//! server that asks for more than the login permits fails with a message that names the command.
//!
//! | module | purpose |
//! |---|---|
//! | `settings` | `oauth_config` and `token_exchange` of one server |
//! | `http_settings`, `server` | the settings of a server over HTTP; a server at which there are logins |
//! | `login` | a login of the operator, up to the stored tokens; the preparation of any login |
//! | `callback` | receives the redirect of the operator's browser |
//! | `links`, `clients` | the links by which users log in; the OAuth clients that are registered for them |
//! | `keyed_permits` | bounds what runs at once for each key |
//! | `exchange`, `token_endpoint` | exchanges a code for tokens; requests to a token endpoint |
//! | `tokens` | the response of a token endpoint, and the login that is made of it |
//! | `logins` | the stored logins |
//! | `authority` | the credentials of each request |
//! | `authorizer`, `backoff` | the access token of each request; backoff of its renewal |
//! | `refresh` | exchanges a refresh token for new tokens |
//! | `user_headers` | the headers that users enter where no one logs in |
//! | `token_exchange` | exchanges the access tokens of callers for those of a server |
//! | `challenge` | what a server that refuses a request asks for |
//! | `outbound` | the HTTP client for authorization servers: permitted addresses, sizes and times |
//! | `server_client`, `reserved` | the HTTP client for the server itself; headers that no setting has |
//! | `secrets` | the secrets that a server has, which are redacted in what it sends |
//! | `limits` | bounds on texts of servers |
//!
//! `rmcp` discovers the authorization server, registers the client, and makes the URL for the browser.
//! All its requests pass `outbound`. It requests no tokens here: it keeps what a code needs in the
//! process that began the login; for a refresh, it would discover the endpoints again, from a server
//! that may have been taken over since the login; it loses the spelling of the resource; and it does not
//! tell a refused client from a failure that passes.

mod authority;
mod authorizer;
mod backoff;
mod callback;
mod challenge;
mod clients;
mod exchange;
mod http_settings;
mod keyed_permits;
mod limits;
mod links;
mod login;
mod logins;
mod outbound;
mod refresh;
mod reserved;
mod secrets;
mod server;
mod server_client;
mod settings;
mod token_endpoint;
mod token_exchange;
mod tokens;
mod user_headers;

pub use self::{
    authority::Authority,
    authorizer::{AuthorizationError, Authorizer, Bearer},
    callback::{Callback, CallbackError, Redirected},
    challenge::Challenge,
    http_settings::{
        ExtraHeaders, HttpSettings, InvalidSettings, UserCredentials, request_secrets,
        unusable_files,
    },
    limits::{MAX_REASON_BYTES, MAX_URL_BYTES},
    links::{FollowError, LinkError, LoginLinks, OpenLink, is_secret, new_secret},
    login::{LoginError, PendingLogin},
    logins::{Logins, LoginsUnavailable, login_id},
    reserved::is_reserved_header,
    secrets::{Redactor, Secrets},
    server::LoginServer,
    server_client::{BrokenExchange, ServerClient},
    settings::{Oauth, SubjectTokenType, TokenAuthentication, TokenExchange},
    token_exchange::{ExchangeError, ExchangedToken, ExchangedTokens, TokenExchanger},
    tokens::{LoggedIn, MAX_SCOPES_BYTES},
    user_headers::{BadUserHeaders, MAX_USER_HEADER_BYTES, MAX_USER_HEADERS, UserHeaders},
};
