//! Seals the secrets at rest with another key.
//!
//! Rows are read page by page, in the order of their keys. Each page is one change, under the locks of
//! those who change its rows, so gateways that have both keys may run. Values that have the current
//! key already are left as they are. So an interrupted change to a new key is completed by the next one.

use std::convert::Infallible;

use crate::database::Database;
use airlock_database::{
    error::{OpenError, Unavailable},
    seal::{Sealer, SecretPlace},
    settings::Settings,
    sql::{ColumnValue, FromColumn, Param, Sql, SqlResult, Subject, numbered},
};

/// Rows of one change. Each has at most two documents of 1 MiB.
const ROWS_AT_ONCE: u32 = 16;

/// Reason that not all secrets have the current key. Some may have it by now.
#[derive(Debug, thiserror::Error)]
pub enum RekeyError {
    /// The settings have no key.
    #[error("there is no key to seal the secrets with")]
    NoKey,
    /// The database is a file that does not exist.
    #[error("there is no database {store}")]
    Missing {
        /// The file.
        store: String,
    },
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database cannot be used, or has a secret whose key the settings do not have.
    #[error("not all secrets were sealed with the current key")]
    Unavailable(#[from] Unavailable),
}

/// Seals every secret that is plain, or has an older key, with the current key of the settings. Returns
/// the number of these values. May be repeated, also after it was interrupted or has failed.
///
/// Gateways that have both keys may run meanwhile. One that still seals with the older key makes it
/// necessary to repeat this before the older key is removed.
pub async fn rekey(settings: Settings) -> Result<u64, RekeyError> {
    if settings.seal.is_none() {
        return Err(RekeyError::NoKey);
    }
    if settings.location.is_missing_file() {
        return Err(RekeyError::Missing { store: settings.location.to_string() });
    }
    let database = Database::open(settings).await?;
    let mut sealed = 0;
    for table in &TABLES {
        sealed += table.rekey(&database).await?;
    }
    // The log has plain values until it is copied into the file. A reader may prevent that.
    let _ = database.truncate_log().await;
    Ok(sealed)
}

/// A table with secrets.
struct SecretTable {
    name: &'static str,
    /// Columns of the key, as in the places of its secrets.
    key: &'static [&'static str],
    secrets: &'static [&'static str],
    /// Returns the subject of the changes of a row.
    subject: fn(&[KeyValue]) -> Subject,
}

static TABLES: [SecretTable; 7] = [
    secret_table(
        "upstream_login",
        &["client", "server"],
        &["client_secret", "access_token", "refresh_token"],
        login_subject,
    ),
    secret_table(
        "user_login",
        &["client", "server", "holder"],
        &["client_secret", "access_token", "refresh_token"],
        login_subject,
    ),
    secret_table("login_link", &["id"], &["document"], links_subject),
    secret_table("operator_login", &["id"], &["document"], sessions_subject),
    secret_table("setting_entry", &["kind", "name"], &["document"], settings_subject),
    secret_table(
        "setting_change",
        &["id"],
        &["before_document", "after_document"],
        settings_subject,
    ),
    secret_table("tool_log_content", &["id"], &["arguments", "result"], call_log_subject),
];

const fn secret_table(
    name: &'static str,
    key: &'static [&'static str],
    secrets: &'static [&'static str],
    subject: fn(&[KeyValue]) -> Subject,
) -> SecretTable {
    SecretTable { name, key, secrets, subject }
}

fn login_subject(key: &[KeyValue]) -> Subject {
    match key {
        [KeyValue::Text(client), ..] => Subject::login(client),
        _ => Subject::login(""),
    }
}

fn links_subject(_key: &[KeyValue]) -> Subject {
    Subject::LOGIN_LINKS
}

fn sessions_subject(_key: &[KeyValue]) -> Subject {
    Subject::OPERATOR_SESSIONS
}

fn settings_subject(_key: &[KeyValue]) -> Subject {
    Subject::SETTINGS
}

/// Returns the subject of no writer: a row of contents is inserted once, and is otherwise only removed.
fn call_log_subject(_key: &[KeyValue]) -> Subject {
    Subject::call_log("")
}

/// A value of a key column.
#[derive(Clone)]
enum KeyValue {
    Number(i64),
    Text(String),
}

impl KeyValue {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Number(number) => Param::Number(*number),
            Self::Text(text) => Param::Text(text),
        }
    }

    /// Returns the value as part of a place.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_be_bytes().to_vec(),
            Self::Text(text) => text.as_bytes().to_vec(),
        }
    }
}

impl FromColumn<'_> for KeyValue {
    fn from_value(value: ColumnValue<'_>) -> Option<Self> {
        match value {
            ColumnValue::Null => None,
            ColumnValue::Number(number) => Some(Self::Number(number)),
            ColumnValue::Bytes(_) => String::from_value(value).map(Self::Text),
        }
    }
}

/// Key of a row.
type RowKey = Vec<KeyValue>;

impl SecretTable {
    /// Seals the secrets of all rows. Returns the number of values that did not have the current key.
    async fn rekey(&'static self, database: &Database) -> Result<u64, Unavailable> {
        let mut sealed = 0;
        let mut after: Option<RowKey> = None;
        loop {
            let page = database.read(move |sql| self.page(sql, after.as_ref())).await?;
            let Some(last) = page.last().cloned() else { return Ok(sealed) };
            after = Some(last);
            sealed += self.rekey_page(database, page).await?;
        }
    }

    async fn rekey_page(
        &'static self,
        database: &Database,
        page: Vec<RowKey>,
    ) -> Result<u64, Unavailable> {
        let subjects = page.iter().map(|key| (self.subject)(key)).collect();
        let sealer = database.sealer();
        let done = database.attempt(subjects, move |sql| {
            sql.overwrite_deleted()?;
            let changed = page.iter().map(|key| self.rekey_row(sql, &sealer, key));
            changed.sum::<SqlResult<u64>>().map(Ok::<u64, Infallible>)
        });
        let Ok(changed) = done.await?;
        Ok(changed)
    }

    /// Reads the keys of the rows after `after`.
    fn page(&self, sql: &Sql<'_>, after: Option<&RowKey>) -> SqlResult<Vec<RowKey>> {
        let columns = self.key.join(", ");
        let mut values: Vec<_> = after.into_iter().flatten().map(KeyValue::param).collect();
        let condition = match values.len() {
            0 => String::new(),
            count => format!("WHERE ({columns}) > ({})", numbered(1, count)),
        };
        values.push(ROWS_AT_ONCE.into());
        let count = values.len();
        let name = self.name;
        let select =
            format!("SELECT {columns} FROM {name} {condition} ORDER BY {columns} LIMIT ?{count}");
        sql.all(&select, &values, |row| (0..self.key.len()).map(|index| row.get(index)).collect())
    }

    /// Seals the secrets of a row.
    fn rekey_row(&self, sql: &Sql<'_>, sealer: &Sealer, key: &RowKey) -> SqlResult<u64> {
        let mut secrets = self.read(sql, key)?;
        let mut changed = 0;
        for (column, value) in self.secrets.iter().zip(&mut secrets) {
            // An empty one stands for tokens that were removed.
            let Some(value) = value.as_mut().filter(|value| !value.is_empty()) else { continue };
            if !sealer.is_current(value)? {
                let place = self.place(column, key);
                *value = sealer.seal(&place, &sealer.open(&place, value)?)?;
                changed += 1;
            }
        }
        if changed > 0 {
            self.write(sql, key, &secrets)?;
        }
        Ok(changed)
    }

    /// Reads the stored secrets of a row; none if it was removed meanwhile.
    fn read(&self, sql: &Sql<'_>, key: &RowKey) -> SqlResult<Vec<Option<Vec<u8>>>> {
        let secrets = self.secrets.join(", ");
        let condition = equal(self.key, 1, " AND ");
        let select = format!("SELECT {secrets} FROM {} WHERE {condition}", self.name);
        let values: Vec<_> = key.iter().map(KeyValue::param).collect();
        let found = sql.find(&select, &values, |row| {
            (0..self.secrets.len()).map(|index| row.get(index)).collect()
        });
        Ok(found?.unwrap_or_default())
    }

    fn write(&self, sql: &Sql<'_>, key: &RowKey, secrets: &[Option<Vec<u8>>]) -> SqlResult<()> {
        let assignments = equal(self.secrets, 1, ", ");
        let condition = equal(self.key, 1 + secrets.len(), " AND ");
        let update = format!("UPDATE {} SET {assignments} WHERE {condition}", self.name);
        let secrets = secrets.iter().map(|value| Param::from(value.as_ref()));
        let values: Vec<_> = secrets.chain(key.iter().map(KeyValue::param)).collect();
        sql.run(&update, &values).map(drop)
    }

    fn place(&self, column: &str, key: &RowKey) -> SecretPlace {
        let row: Vec<_> = key.iter().map(KeyValue::bytes).collect();
        let row: Vec<_> = row.iter().map(Vec::as_slice).collect();
        SecretPlace::new(self.name, column, &row)
    }
}

/// Returns comparisons of columns with the parameters from `?first` on, or assignments of them.
fn equal(columns: &[&str], first: usize, separator: &str) -> String {
    let pairs = columns.iter().zip(first..).map(|(column, place)| format!("{column} = ?{place}"));
    pairs.collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests;
