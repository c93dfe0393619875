//! Reasons to refuse a request, and their form in HTTP.

use std::time::Duration;

use http::StatusCode;

use crate::jws::MAX_TOKEN_BYTES;

/// Reason that a token does not admit its sender. No text of the token is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// The token is not valid here; another one may be.
    #[error("the access token is not valid: {0}")]
    Invalid(#[from] InvalidToken),
    /// The token is valid, but it lacks a scope.
    #[error("the access token lacks a required scope")]
    Scope {
        /// All scopes that a token needs.
        required: Vec<String>,
    },
    /// The token is valid, but no row of the table of views matches its claims. Another token of
    /// the same user would not help, so it is not an error of OAuth.
    #[error("the access token is valid, but its claims grant no tools here")]
    View,
    /// No keys of the issuer are known and none can be fetched now.
    #[error("access tokens cannot be verified now: the keys of their issuer are not available")]
    Unavailable {
        /// Time until the next attempt to fetch them.
        retry_after: Duration,
    },
}

/// Reason that a token is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// It is longer than [`MAX_TOKEN_BYTES`].
    #[error("it is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// It is not a compact JWS, or its JSON is malformed or has duplicate members.
    #[error("it is not a signed JSON Web Token in compact form")]
    Malformed,
    /// The algorithm is symmetric, `none` or unknown.
    #[error("its signature algorithm is not accepted")]
    Algorithm,
    /// The header has `crit`.
    #[error("its header has critical extensions")]
    Critical,
    /// It is an ID token, a logout token or of another type than an access token.
    #[error("it is not an access token")]
    Type,
    /// Not exactly one key fits.
    #[error("no single key of the issuer fits it")]
    Key,
    /// The signature is not one of the key that fits.
    #[error("its signature is wrong")]
    Signature,
    /// A claim is missing, has the wrong type or is too long.
    #[error("its claim `{0}` is missing or malformed")]
    Claim(&'static str),
    /// It is from another issuer.
    #[error("it is from another issuer")]
    Issuer,
    /// It is meant for another resource.
    #[error("it is for another audience")]
    Audience,
    /// Its time has passed.
    #[error("it has expired")]
    Expired,
    /// `nbf` or `iat` is in the future.
    #[error("it is not valid yet")]
    Early,
    /// The claim `cnf` binds it to a key, for example by RFC 9449.
    #[error("it is bound to a key, and only bearer tokens are accepted")]
    Bound,
}

impl TokenRefusal {
    /// Status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::UNAUTHORIZED,
            Self::Scope { .. } | Self::View => StatusCode::FORBIDDEN,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Error code of RFC 6750, section 3.1. `None` if no other token would help.
    pub fn error(&self) -> Option<&'static str> {
        match self {
            Self::Invalid(_) => Some("invalid_token"),
            Self::Scope { .. } => Some("insufficient_scope"),
            Self::View | Self::Unavailable { .. } => None,
        }
    }

    /// Returns whether anyone can cause it, without a token that the issuer has signed. The log of a gateway must not have a
    /// line for each of these.
    pub fn is_by_anyone(&self) -> bool {
        match self {
            Self::Scope { .. } | Self::View => false,
            Self::Unavailable { .. } => true,
            Self::Invalid(invalid) => invalid.precedes_signature(),
        }
    }

    /// Value of `Retry-After`, in seconds, at least 1. `None` if waiting would not help.
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::Unavailable { retry_after } => {
                Some(retry_after.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX).max(1))
            }
            _ => None,
        }
    }
}

impl InvalidToken {
    /// Returns whether a token may be refused for this reason before its signature is verified.
    fn precedes_signature(self) -> bool {
        match self {
            Self::TooLong
            | Self::Malformed
            | Self::Algorithm
            | Self::Critical
            | Self::Type
            | Self::Key
            | Self::Signature => true,
            Self::Claim(_)
            | Self::Issuer
            | Self::Audience
            | Self::Expired
            | Self::Early
            | Self::Bound => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_needs_no_token_of_the_issuer_is_by_anyone() {
        let unavailable = TokenRefusal::Unavailable { retry_after: Duration::ZERO };
        for refusal in [
            unavailable,
            InvalidToken::TooLong.into(),
            InvalidToken::Malformed.into(),
            InvalidToken::Key.into(),
            InvalidToken::Signature.into(),
        ] {
            assert!(refusal.is_by_anyone(), "{refusal}");
        }
        for refusal in [
            TokenRefusal::View,
            TokenRefusal::Scope { required: Vec::new() },
            InvalidToken::Expired.into(),
            InvalidToken::Audience.into(),
        ] {
            assert!(!refusal.is_by_anyone(), "{refusal}");
        }
    }
}
