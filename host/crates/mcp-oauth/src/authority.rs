//! The source of the credentials of each request to one server.

use super::{authorizer::Authorizer, token_exchange::ExchangedToken, user_headers::UserHeaders};

/// Source of the credentials of each request to one server.
pub enum Authority {
    /// The access token of a login.
    Login(Authorizer),
    /// The headers that a user has entered.
    Headers(Box<UserHeaders>),
    /// The token for which that of a caller was exchanged.
    Exchanged(ExchangedToken),
}
