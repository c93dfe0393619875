//! Operators: the people and programs that manage a gateway, and what each may do.

use std::{fmt, str::FromStr};

/// Prefix of operators' tokens, by which scanners of secrets and the gateway recognise them.
pub const TOKEN_PREFIX: &str = "alop_";

/// An operator whose credential was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// Name for people, which the record of changes has; safe to log.
    pub name: String,
    /// Role, which says what the operator may do.
    pub role: Role,
    /// True if the operator may read arguments and results of calls that are not its own.
    pub sees_payloads: bool,
}

airlock_strings::named_enum! {
    /// Rights of an operator under one name, the least powerful first. Every role includes [`Right::Read`]. The names are
    /// those in requests, files and the database.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Role {
        /// Reads settings and states.
        Viewer = "viewer",
        /// Decides about calls that wait for an approval.
        Approver = "approver",
        /// Changes clients and keys, reconnects servers and reloads plugins; decides about no call.
        Operator = "operator",
        /// Everything.
        Admin = "admin",
    }
}

/// One kind of act. Each route of the management API needs one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Read settings, states and the record of changes, without secrets.
    Read,
    /// Decide about calls that wait for an approval.
    Approve,
    /// Reconnect servers, refresh lists, reload plugins, and read what servers wrote to stderr.
    Operate,
    /// Change clients, virtual keys and other settings.
    Change,
    /// Change operators, and add clients that run programs or reach private networks.
    Administer,
}

impl Role {
    /// Returns whether the role includes a right.
    pub fn has(self, right: Right) -> bool {
        match right {
            Right::Read => true,
            Right::Approve => matches!(self, Self::Approver | Self::Admin),
            Right::Operate | Right::Change => matches!(self, Self::Operator | Self::Admin),
            Right::Administer => self == Self::Admin,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a role; valid are \"viewer\", \"approver\", \"operator\" and \"admin\"")]
pub struct NoSuchRole;

impl FromStr for Role {
    type Err = NoSuchRole;

    fn from_str(text: &str) -> Result<Self, NoSuchRole> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or(NoSuchRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_rights_and_no_other() {
        let rights =
            [Right::Read, Right::Approve, Right::Operate, Right::Change, Right::Administer];
        for (role, expected) in [
            (Role::Viewer, [true, false, false, false, false]),
            (Role::Approver, [true, true, false, false, false]),
            (Role::Operator, [true, false, true, true, false]),
            (Role::Admin, [true; 5]),
        ] {
            assert_eq!(rights.map(|right| role.has(right)), expected, "{role}");
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert_eq!("Admin".parse::<Role>(), Err(NoSuchRole));
    }
}
