//! The row of one login. Operators' logins and those of holders have tables of their own, with the same
//! columns but for the holder.

use super::{LoginHolder, LoginId, UpstreamLogin};
use airlock_database::{
    revision::ChangeKind,
    seal::{SealError, Sealer, SecretPlace},
    sql::{Param, Row, Sql, SqlResult, Subject, numbered},
};
use airlock_strings::hex;

/// Columns of both tables, in the order in which a login is read and written.
const COLUMNS: [&str; 13] = [
    "issuer",
    "client_id",
    "client_secret",
    "authentication",
    "token_endpoint",
    "resource",
    "scopes",
    "wanted",
    "access_token",
    "refresh_token",
    "obtained_ms",
    "expires_ms",
    "refreshing_until_ms",
];
/// Further columns of the logins of holders.
const HOLDER_COLUMNS: [&str; 4] = ["session", "key_name", "user_issuer", "user_subject"];

/// Key of a login.
pub(super) struct LoginKey {
    client: String,
    server: String,
    /// In hexadecimal, as it is stored.
    holder: Option<String>,
    sealer: Sealer,
}

impl LoginKey {
    pub(super) fn new(id: &LoginId, sealer: Sealer) -> Self {
        let LoginId { client, server, holder } = id.clone();
        Self { client, server, holder: holder.map(|holder| hex(&holder)), sealer }
    }

    pub(super) fn subject(&self) -> Subject {
        Subject::login(&self.client)
    }

    /// Returns the login and the end of the claim on it; `None` if it has no tokens.
    pub(super) fn read(&self, sql: &Sql<'_>) -> SqlResult<Option<(UpstreamLogin, i64)>> {
        let mut columns = COLUMNS.to_vec();
        if self.holder.is_some() {
            columns.extend(HOLDER_COLUMNS);
        }
        let columns = columns.join(", ");
        let select = format!("SELECT {columns} FROM {} WHERE {}", self.table(), self.condition(1));
        let found = sql.find(&select, &self.values(), |row| self.login(row))?;
        Ok(found.filter(|(login, _)| !login.access_token.is_empty()))
    }

    /// Reads a login, and the end of the claim on it.
    fn login(&self, row: &Row<'_>) -> SqlResult<(UpstreamLogin, i64)> {
        let client_secret: Option<&[u8]> = row.get(2)?;
        let refresh_token: Option<&[u8]> = row.get(9)?;
        let login = UpstreamLogin {
            holder: self.holder.as_ref().map(|_| holder(row, COLUMNS.len())).transpose()?,
            issuer: row.get(0)?,
            client_id: row.get(1)?,
            client_secret: client_secret
                .map(|secret| self.open("client_secret", secret))
                .transpose()?,
            authentication: row.get(3)?,
            token_endpoint: row.get(4)?,
            resource: row.get(5)?,
            scopes: row.get(6)?,
            wanted: row.get(7)?,
            access_token: self.open("access_token", row.get(8)?)?,
            refresh_token: refresh_token
                .map(|token| self.open("refresh_token", token))
                .transpose()?,
            obtained_ms: row.get(10)?,
            expires_ms: row.get(11)?,
        };
        Ok((login, row.get(12)?))
    }

    /// Returns whether the login has the version of `access_token`.
    pub(super) fn has_version(&self, sql: &Sql<'_>, access_token: &str) -> SqlResult<bool> {
        let condition = self.condition(1);
        let select = format!("SELECT access_token FROM {} WHERE {condition}", self.table());
        let present =
            sql.find(&select, &self.values(), |row| Ok(self.open("access_token", row.get(0)?)?))?;
        Ok(present.is_some_and(|present| present == access_token))
    }

    /// Writes a login in the place of an earlier one, and ends the claim on it.
    pub(super) fn write(&self, sql: &Sql<'_>, login: &UpstreamLogin) -> SqlResult<()> {
        let client_secret = login.client_secret.as_ref();
        let client_secret =
            client_secret.map(|secret| self.seal("client_secret", secret)).transpose()?;
        let refresh_token = login.refresh_token.as_ref();
        let refresh_token =
            refresh_token.map(|token| self.seal("refresh_token", token)).transpose()?;
        let access_token = self.seal("access_token", &login.access_token)?;
        sql.overwrite_deleted()?;
        let table = self.table();
        sql.run(&format!("DELETE FROM {table} WHERE {}", self.condition(1)), &self.values())?;
        let mut columns = COLUMNS.to_vec();
        let mut values = vec![
            Param::from(&login.issuer),
            Param::from(&login.client_id),
            Param::from(client_secret.as_ref()),
            Param::from(&login.authentication),
            Param::from(&login.token_endpoint),
            Param::from(&login.resource),
            Param::from(&login.scopes),
            Param::from(&login.wanted),
            Param::from(&access_token),
            Param::from(refresh_token.as_ref()),
            Param::from(login.obtained_ms),
            Param::from(login.expires_ms),
            Param::Number(0),
        ];
        if let Some(holder) = login.holder.as_ref().filter(|_| self.holder.is_some()) {
            let LoginHolder { session, key_name, issuer, subject } = holder;
            columns.extend(HOLDER_COLUMNS);
            values.extend([session, key_name, issuer, subject].map(Param::from));
        }
        columns.extend(self.columns());
        values.extend(self.values());
        let insert = format!(
            "INSERT INTO {table} ({}) VALUES ({})",
            columns.join(", "),
            numbered(1, columns.len())
        );
        sql.run(&insert, &values)?;
        sql.announce(ChangeKind::Logins)
    }

    /// Sets one column.
    pub(super) fn set(
        &self,
        sql: &Sql<'_>,
        column: &'static str,
        value: Param<'_>,
    ) -> SqlResult<()> {
        let condition = self.condition(2);
        let update = format!("UPDATE {} SET {column} = ?1 WHERE {condition}", self.table());
        let values: Vec<_> = [value].into_iter().chain(self.values()).collect();
        sql.run(&update, &values).map(drop)
    }

    fn table(&self) -> &'static str {
        if self.holder.is_some() { "user_login" } else { "upstream_login" }
    }

    fn columns(&self) -> Vec<&'static str> {
        ["client", "server"].into_iter().chain(self.holder.as_ref().map(|_| "holder")).collect()
    }

    /// Returns the comparison of the key with the parameters from `?first` on.
    fn condition(&self, first: usize) -> String {
        let columns = self.columns();
        let pairs = columns.iter().zip(first..).map(|(name, place)| format!("{name} = ?{place}"));
        pairs.collect::<Vec<_>>().join(" AND ")
    }

    fn values(&self) -> Vec<Param<'_>> {
        let key = [&self.client, &self.server].into_iter().chain(&self.holder);
        key.map(Param::from).collect()
    }

    fn open(&self, column: &str, stored: &[u8]) -> Result<String, SealError> {
        self.sealer.open(&self.place(column), stored)
    }

    fn seal(&self, column: &str, secret: &str) -> Result<Vec<u8>, SealError> {
        self.sealer.seal(&self.place(column), secret)
    }

    fn place(&self, column: &str) -> SecretPlace {
        let row = [&self.client, &self.server].into_iter().chain(&self.holder);
        let row: Vec<&[u8]> = row.map(String::as_bytes).collect();
        SecretPlace::new(self.table(), column, &row)
    }
}

/// Reads the holder of a login from the columns from `first` on.
pub(super) fn holder(row: &Row<'_>, first: usize) -> SqlResult<LoginHolder> {
    Ok(LoginHolder {
        session: row.get(first)?,
        key_name: row.get(first + 1)?,
        issuer: row.get(first + 2)?,
        subject: row.get(first + 3)?,
    })
}
