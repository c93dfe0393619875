//! Pinned definitions of the tools of MCP servers. The definitions are JSON, which this module does
//! not parse.

use crate::database::Database;
use airlock_database::{
    error::Unavailable,
    revision::ChangeKind,
    sql::{Sql, SqlResult, Subject, params},
};

/// A pinned definition of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamPin {
    /// Name of the tool at its server.
    pub tool: String,
    /// True if the definition was in the first list of the server; false if it came later.
    pub is_trusted: bool,
    /// The definition, as JSON.
    pub definition: String,
}

impl Database {
    /// Returns the pins of a client, sorted by the names of the tools.
    pub async fn upstream_pins(&self, client: &str) -> Result<Vec<UpstreamPin>, Unavailable> {
        let client = client.to_owned();
        self.read(move |sql| all(sql, &client)).await
    }

    /// Pins the first list of a client, unless the client has a trusted pin already. Returns the
    /// pins that it has then: of two processes, the first one decides.
    pub async fn pin_first_list(
        &self,
        client: &str,
        tools: Vec<(String, String)>,
    ) -> Result<Vec<UpstreamPin>, Unavailable> {
        let client = client.to_owned();
        self.write(Subject::pins(&client), move |sql| {
            let is_known = all(sql, &client)?.iter().any(|pin| pin.is_trusted);
            if !is_known {
                sql.run("DELETE FROM upstream_pin WHERE client = ?1", params![&client])?;
                add(sql, &client, &tools, true)?;
            }
            let pins = all(sql, &client)?;
            if !is_known {
                sql.announce(ChangeKind::Pins)?;
            }
            Ok(pins)
        })
        .await
    }

    /// Pins tools that came later, and forgets others that did. Trusted pins and present pins stay as
    /// they are. Returns the pins that the client has then.
    pub async fn pin_later_tools(
        &self,
        client: &str,
        tools: Vec<(String, String)>,
        forget: Vec<String>,
    ) -> Result<Vec<UpstreamPin>, Unavailable> {
        let client = client.to_owned();
        self.write(Subject::pins(&client), move |sql| {
            let delete = "DELETE FROM upstream_pin WHERE client = ?1 AND tool = ?2 AND trusted = 0";
            let rows = forget.iter().map(|tool| params![&client, tool].to_vec());
            let removed = sql.run_all(delete, &rows.collect::<Vec<_>>())?;
            let changed = removed + add(sql, &client, &tools, false)?;
            let pins = all(sql, &client)?;
            if changed > 0 {
                sql.announce(ChangeKind::Pins)?;
            }
            Ok(pins)
        })
        .await
    }
}

/// Adds pins of tools that have none. Returns their number.
fn add(
    sql: &Sql<'_>,
    client: &str,
    tools: &[(String, String)],
    is_trusted: bool,
) -> SqlResult<u64> {
    let insert = "INSERT INTO upstream_pin (client, tool, trusted, definition) \
                  VALUES (?1, ?2, ?3, ?4) ON CONFLICT (client, tool) DO NOTHING";
    let rows = tools.iter();
    let rows =
        rows.map(|(tool, definition)| params![client, tool, is_trusted, definition].to_vec());
    sql.run_all(insert, &rows.collect::<Vec<_>>())
}

fn all(sql: &Sql<'_>, client: &str) -> SqlResult<Vec<UpstreamPin>> {
    let select =
        "SELECT tool, trusted, definition FROM upstream_pin WHERE client = ?1 ORDER BY tool";
    sql.all(select, params![client], |row| {
        Ok(UpstreamPin { tool: row.get(0)?, is_trusted: row.get(1)?, definition: row.get(2)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::home::{TestHome, on_both};

    fn named(pins: &[UpstreamPin]) -> Vec<(&str, bool, &str)> {
        pins.iter().map(|pin| (&*pin.tool, pin.is_trusted, &*pin.definition)).collect()
    }

    fn tool(name: &str, definition: &str) -> (String, String) {
        (name.to_owned(), definition.to_owned())
    }

    on_both! {
        the_first_list_of_a_client_is_pinned_once,
        later_tools_replace_no_pin_and_only_they_are_forgotten,
    }

    async fn the_first_list_of_a_client_is_pinned_once(home: TestHome) {
        let database = home.open().await;
        assert!(database.upstream_pins("up").await.expect("read").is_empty());
        for definition in ["1", "2"] {
            let pins = database.pin_first_list("up", vec![tool("b", definition)]).await;
            assert_eq!(named(&pins.expect("written")), [("b", true, "1")]);
        }
        assert!(database.upstream_pins("other").await.expect("read").is_empty());
    }

    async fn later_tools_replace_no_pin_and_only_they_are_forgotten(home: TestHome) {
        let database = home.open().await;
        database.pin_first_list("up", vec![tool("a", "1")]).await.expect("written");
        let later = vec![tool("a", "2"), tool("b", "2")];
        let pins = database.pin_later_tools("up", later, Vec::new()).await.expect("written");
        assert_eq!(named(&pins), [("a", true, "1"), ("b", false, "2")]);
        let pins = database.pin_later_tools("up", vec![tool("b", "3")], Vec::new()).await;
        assert_eq!(named(&pins.expect("written"))[1], ("b", false, "2"));
        let forget = vec!["a".to_owned(), "b".to_owned()];
        let pins = database.pin_later_tools("up", Vec::new(), forget).await.expect("written");
        assert_eq!(named(&pins), [("a", true, "1")]);
    }
}
