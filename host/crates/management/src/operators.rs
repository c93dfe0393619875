//! Operators: those of the configuration file and those of the store, and the table by which their
//! tokens are found.

mod live;

use std::time::SystemTime;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};
use uuid::Uuid;

pub(crate) use self::live::LiveOperators;
use crate::{
    body,
    refusal::{Result, conflict, invalid, not_found, refusal},
    service::Service,
    timestamp::{future, rfc3339},
    token::{self, NoRandomness},
};
use airlock_core::{
    act::Actor,
    operator::{Operator, Right, Role, TOKEN_PREFIX},
    secret::Secret,
    unix_time::unix_milliseconds,
};
use airlock_operator_api::{ManagementRefusal, ManagementRequest};
use airlock_store::{
    Unavailable,
    operators::{OperatorAdded, StoredOperator},
};

/// Longest name of an operator, in bytes: each record of a change repeats it.
const MAX_NAME_BYTES: usize = 128;
/// Name of the first operator, unless the request has one.
const FIRST: &str = "admin";

/// An operator that a request wants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOperator {
    name: String,
    role: String,
    #[serde(default)]
    sees_payloads: bool,
    /// RFC 3339; the token is not valid from then on.
    expires_at: Option<String>,
}

/// The set-up of the first operator.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstOperator {
    setup_token: Option<String>,
    name: Option<String>,
}

impl Service {
    /// Makes the first operator, an administrator, for who has the setup token.
    pub(crate) async fn set_up(&self, request: ManagementRequest) -> Result<Value> {
        let wanted: FirstOperator = body::read(request.body)?;
        let sent = request.setup_token.or_else(|| wanted.setup_token.map(Secret::new));
        if !self.setup.is_active() {
            return Err(conflict("there is an operator already, so no setup token is valid"));
        }
        if !sent.is_some_and(|sent| self.setup.accepts(sent.expose())) {
            let message =
                "invalid setup token; this gateway prints its own on stderr when it starts";
            return Err(refusal(StatusCode::FORBIDDEN, "setup_token_invalid", message));
        }
        let name = wanted.name.unwrap_or_else(|| FIRST.to_owned());
        let first = Operator { name, role: Role::Admin, sees_payloads: true };
        let shown = self.store_operator(&first, None, true, &Actor::Setup).await?;
        self.setup.end();
        Ok(shown)
    }

    /// Adds an operator.
    pub(crate) async fn add_operator(
        &self,
        actor: &Operator,
        body: Option<Value>,
    ) -> Result<Value> {
        let wanted: NewOperator = body::read(body)?;
        if wanted.sees_payloads && !actor.sees_payloads {
            let message = "this operator does not see the arguments of calls, so it gives that right to nobody: `sees_payloads` is a right of its own";
            return Err(refusal(StatusCode::FORBIDDEN, "payloads_hidden", message));
        }
        let role = wanted.role.parse().map_err(|reason| invalid(format!("`role` {reason}")))?;
        let expires =
            wanted.expires_at.as_deref().map(|text| future("expires_at", text)).transpose()?;
        let new = Operator { name: wanted.name, role, sees_payloads: wanted.sees_payloads };
        self.store_operator(&new, expires, false, &actor.into()).await
    }

    /// Removes an operator of the store. Its token is refused at once.
    pub(crate) async fn remove_operator(&self, actor: &Operator, name: &str) -> Result<Value> {
        // The file may have one with the same name, which was added to it later.
        if !self.remove_stored(actor, name).await? {
            return Err(if self.operators.in_file().iter().any(|own| own.name == name) {
                conflict(format!(
                    "the operator {name:?} is one of the configuration file; remove it there"
                ))
            } else {
                not_found(format!("no operator is named {name:?}"))
            });
        }
        info!(actor = actor.name, operator = name, "an operator was removed");
        self.refresh_operators().await?;
        Ok(json!({"message": "Operator removed successfully"}))
    }

    /// Removes an operator of the store. Returns false if there is none. A store that does not exist is not
    /// made.
    async fn remove_stored(&self, actor: &Operator, name: &str) -> Result<bool, Unavailable> {
        let Some(database) = self.settings.database.existing().await? else { return Ok(false) };
        database.remove_operator(name, &Actor::from(actor).to_string()).await
    }

    /// Lists the operators, without anything of their tokens.
    pub(crate) async fn list_operators(&self) -> Result<Value> {
        let stored = self.stored_operators().await?;
        let in_file = self.operators.in_file();
        let in_file = in_file.iter().map(|own| {
            let mut shown = describe(own);
            shown["source"] = "file".into();
            shown
        });
        let stored = stored.iter().map(|stored| {
            json!({
                "id": stored.id,
                "name": stored.name,
                "role": stored.role,
                "sees_payloads": stored.sees_payloads,
                "source": "store",
                "created_at": rfc3339(stored.created_ms),
                "expires_at": stored.expires_ms.map(rfc3339),
            })
        });
        let all: Vec<_> = in_file.chain(stored).collect();
        Ok(json!({"count": all.len(), "operators": all}))
    }

    async fn store_operator(
        &self,
        new: &Operator,
        expires: Option<SystemTime>,
        first_only: bool,
        actor: &Actor,
    ) -> Result<Value> {
        check_name(&new.name)?;
        if self.operators.in_file().iter().any(|own| own.name == new.name) {
            return Err(name_taken(&new.name));
        }
        let token = token::generate(TOKEN_PREFIX).map_err(|error| no_randomness(&error))?;
        let stored = StoredOperator {
            id: Uuid::new_v4().to_string(),
            name: new.name.clone(),
            role: new.role.name().to_owned(),
            sees_payloads: new.sees_payloads,
            digest: token::digest(token.expose()),
            created_ms: unix_milliseconds(SystemTime::now()),
            expires_ms: expires.map(unix_milliseconds),
        };
        let database = self.database().await?;
        match database.add_operator(stored, first_only, &actor.to_string()).await? {
            OperatorAdded::Done => {}
            OperatorAdded::NameTaken => return Err(name_taken(&new.name)),
            OperatorAdded::NotFirst => {
                self.setup.end();
                return Err(conflict("there is an operator already, so no setup token is valid"));
            }
            OperatorAdded::Full => return Err(conflict("there are as many operators as may be")),
        }
        info!(%actor, operator = new.name, role = new.role.name(), "an operator was added");
        if let Err(error) = self.refresh_operators().await {
            // The token is shown only now. The gateway learns of it with the next change of operators.
            warn!(%error, "the operators cannot be read again after a change");
        }
        Ok(json!({
            "message": "Operator created successfully; the token is shown only now",
            "operator": describe(new),
            "token": token.expose(),
        }))
    }
}

/// Describes an operator.
pub(crate) fn describe(operator: &Operator) -> Value {
    json!({
        "name": operator.name,
        "role": operator.role.name(),
        "sees_payloads": operator.sees_payloads,
    })
}

/// Returns the names of the rights of a role.
pub(crate) fn rights(role: Role) -> Vec<&'static str> {
    let all = [
        (Right::Read, "read"),
        (Right::Approve, "approve"),
        (Right::Operate, "operate"),
        (Right::Change, "change"),
        (Right::Administer, "administer"),
    ];
    all.into_iter().filter(|(right, _)| role.has(*right)).map(|(_, name)| name).collect()
}

pub(crate) fn no_randomness(error: &NoRandomness) -> ManagementRefusal {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", error.to_string())
}

fn name_taken(name: &str) -> ManagementRefusal {
    conflict(format!("an operator is named {name:?} already"))
}

fn check_name(name: &str) -> Result<()> {
    let is_valid = !name.trim().is_empty()
        && name.len() <= MAX_NAME_BYTES
        && airlock_strings::visible_line(name) == name;
    if is_valid {
        return Ok(());
    }
    Err(invalid(format!(
        "`name` must have 1 to {MAX_NAME_BYTES} bytes, without hidden characters and line breaks"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_visible_line() {
        for name in ["", " ", "a\nb", "a\u{202e}b", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name("ann@example.com").is_ok() && check_name(&"x".repeat(128)).is_ok());
    }
}
