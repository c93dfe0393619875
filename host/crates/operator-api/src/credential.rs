//! The credential of an operator, which is checked again while a request arrives or a stream lasts.

use super::{OperatorHooks, SessionLookup};
use airlock_core::{operator::Operator, secret::Secret};

/// The credential with which an operator has sent a request.
#[derive(Clone)]
pub(super) enum OperatorCredential {
    /// That of the gateway's own user, which is valid as long as the gateway runs.
    Socket,
    Token(Secret),
    Session {
        credential: Secret,
        peer: String,
    },
}

impl OperatorCredential {
    /// Returns whether the credential is still that of the operator; `None` if the store cannot be asked. It is no
    /// use of a session: a stream is checked as long as its page is open.
    pub(super) async fn is_of(&self, operator: &Operator, hooks: &OperatorHooks) -> Option<bool> {
        let management = hooks.management.as_ref();
        match self {
            Self::Socket => Some(true),
            Self::Token(token) => {
                let found = management.and_then(|management| management.operator(token.expose()));
                Some(found.is_some_and(|found| *found == *operator))
            }
            Self::Session { credential, peer } => {
                let logins = management.and_then(|management| management.logins());
                let Some(logins) = logins else { return Some(false) };
                let found = logins.session(credential.expose(), peer, SessionLookup::Check);
                let found = found.await.ok()?;
                Some(found.is_some_and(|session| *session.operator == *operator))
            }
        }
    }
}
