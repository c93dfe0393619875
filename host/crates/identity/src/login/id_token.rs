//! The claims of an ID token (OIDC Core 1.0, section 3.1.3.7).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::LoginError;
use crate::{
    claims::{check_times, date, name, text, texts},
    json::{self, Object},
    jws::{DeclaredType, Jws},
    refusal::InvalidToken,
    view,
};

/// Maximum bytes of an ID token. Those of people in many groups are larger than access tokens, and they are
/// in no header. The identifier of a group takes 39 bytes as JSON, and 52 in base64: there is room for 1,200.
pub(super) const MAX_ID_TOKEN_BYTES: usize = 64 << 10;
/// Maximum memory of the claims, in bytes. Parsed, a token of [`MAX_ID_TOKEN_BYTES`] could take a
/// hundred times its size. The issuer has signed it.
const MAX_CLAIMS_MEMORY: usize = 8 << 20;
/// Maximum age of an ID token that has just been requested: as long as a login may take.
const MAX_AGE: Duration = Duration::from_mins(10);
/// The claim whose value counts only beside `email_verified`.
const EMAIL: &str = "email";

/// Conditions for an ID token.
pub(super) struct ExpectedClaims<'e> {
    pub(super) issuer: &'e str,
    pub(super) client_id: &'e str,
    pub(super) nonce: &'e str,
    pub(super) clock_skew: Duration,
}

/// Verified claims of a person who has logged in.
#[derive(Clone)]
pub struct IdClaims {
    subject: String,
    issuer: String,
    claims: Object,
}

/// Checks the claims of an ID token with a valid signature.
pub(super) fn check(
    jws: &Jws<'_>,
    expected: &ExpectedClaims<'_>,
    now: SystemTime,
) -> Result<IdClaims, LoginError> {
    if jws.header.declared == DeclaredType::AccessToken {
        return Err(LoginError::OtherType);
    }
    let claims = json::object(&jws.payload, MAX_CLAIMS_MEMORY).ok_or(InvalidToken::Malformed)?;
    let issuer = text(&claims, "iss")?.ok_or(InvalidToken::Claim("iss"))?;
    if issuer != expected.issuer {
        return Err(InvalidToken::Issuer.into());
    }
    check_audience(&claims, expected.client_id)?;
    check_times(&claims, expected.clock_skew, now)?;
    check_age(&claims, expected.clock_skew, now)?;
    // Compares a secret of this login with a text that its issuer has signed.
    if text(&claims, "nonce")? != Some(expected.nonce) {
        return Err(LoginError::Nonce);
    }
    // Security events have the form of an ID token otherwise.
    if claims.contains_key("events") {
        return Err(LoginError::OtherType);
    }
    let subject = name(&claims, "sub")?.ok_or(InvalidToken::Claim("sub"))?;
    Ok(IdClaims { subject, issuer: issuer.to_owned(), claims })
}

/// Checks that the token is for this client, and that no other one has asked for it.
fn check_audience(claims: &Object, client_id: &str) -> Result<(), LoginError> {
    let audiences = texts(claims, "aud")?.ok_or(InvalidToken::Claim("aud"))?;
    if !audiences.contains(&client_id) {
        return Err(InvalidToken::Audience.into());
    }
    match text(claims, "azp")? {
        Some(party) if party == client_id => Ok(()),
        None if audiences.len() == 1 => Ok(()),
        _ => Err(LoginError::OtherClient),
    }
}

fn check_age(claims: &Object, skew: Duration, now: SystemTime) -> Result<(), LoginError> {
    let issued = date(claims, "iat")?.ok_or(LoginError::Old)?;
    let now = now.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let oldest = now - MAX_AGE.as_secs_f64() - skew.as_secs_f64();
    if issued < oldest { Err(LoginError::Old) } else { Ok(()) }
}

impl IdClaims {
    /// `sub`: 1 to 255 bytes without control characters. Unique only within the issuer.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// `iss`.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the email address that the issuer has verified; `None` if there is none.
    pub fn verified_email(&self) -> Option<&str> {
        let is_verified = match self.claims.get("email_verified") {
            Some(Value::Bool(is_verified)) => *is_verified,
            // Amazon Cognito sends texts.
            Some(Value::String(text)) => text == "true",
            _ => false,
        };
        self.claims.get(EMAIL).filter(|_| is_verified).and_then(Value::as_str)
    }

    /// Returns whether a claim has a value: as its text, or as one of its texts if it is a list. A claim is
    /// named as in a [`ViewRule`](crate::ViewRule). `email` has a value only if the issuer has verified it.
    pub fn has(&self, claim: &str, value: &str) -> bool {
        if claim == EMAIL {
            return self.verified_email() == Some(value);
        }
        view::texts(&self.claims, claim).any(|text| text == value)
    }
}

// Leaves the other claims out, which are about a person.
airlock_strings::debug_fields!(IdClaims { issuer, subject });
