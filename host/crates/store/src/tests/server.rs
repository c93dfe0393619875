//! Databases on a server: how they are made, opened, refused, and whose clock they have.

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;

use crate::{Database, OpenError, Settings, login::LoginId, tests::home::TestHome};
use airlock_database::{
    schema::VERSION,
    sql::{Subject, first, params},
};

/// Opens the database as a gateway does.
async fn open(home: &TestHome) -> Result<Database, OpenError> {
    Database::open(Settings { clock: Settings::new("").clock, ..home.settings() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_open_an_empty_database_one_makes_its_tables() {
    let Some(home) = TestHome::postgres() else { return };
    let opened = join_all((0..8).map(|_| open(&home))).await;
    let mut opened = opened.into_iter().map(|opened| opened.expect("it is opened"));
    let database = opened.next().expect("there are eight");
    let migrations = database.read(|sql| {
        let select = "SELECT version FROM airlock_schema ORDER BY version";
        sql.all(select, &[], first::<i64>)
    });
    assert_eq!(migrations.await.expect("read").last(), Some(&i64::from(VERSION)));
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_unchanged() {
    let Some(home) = TestHome::postgres() else { return };
    let server = home.server.as_ref().expect("a server");
    server.execute("CREATE TABLE cookies (jar TEXT)");
    let refused = open(&home).await.expect_err("refused");
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused:?}");
    assert!(refused.to_string().contains(server.name()), "{refused}");
    // Fails if there is a table of Airlock's.
    server.execute("DROP TABLE cookies; CREATE TABLE airlock_schema ()");
}

#[tokio::test]
async fn a_newer_schema_is_accepted_only_if_it_says_that_this_version_can_use_it() {
    let Some(home) = TestHome::postgres() else { return };
    open(&home).await.expect("it is made");
    let server = home.server.as_ref().expect("a server");
    server.execute(&newer(VERSION));
    open(&home).await.expect("it may be used");
    server.execute(&newer(VERSION + 1));
    let refused = open(&home).await.expect_err("refused");
    assert!(matches!(refused, OpenError::Newer { found: 99, known: VERSION, .. }), "{refused:?}");
}

/// Returns the statements that make a schema of a later version.
fn newer(compatible_from: i32) -> String {
    format!(
        "DELETE FROM airlock_schema WHERE version = 99; \
         INSERT INTO airlock_schema VALUES (99, {compatible_from}, 1, 'x')"
    )
}

#[tokio::test]
async fn a_schema_of_version_10_is_migrated_and_gateways_of_version_10_can_use_it() {
    let Some(home) = TestHome::postgres() else { return };
    let database = open(&home).await.expect("it is made");
    let login = "INSERT INTO upstream_login VALUES ('c', 's', '', '', NULL, '', '', '', '', '', 't', \
                 NULL, 1, NULL, 0)";
    let server = home.server.as_ref().expect("a server");
    server.execute(&format!(
        "{login}; DROP TABLE operator, operator_login, operator_session, setting_entry, \
         setting_change, replica, user_login, login_link, component_use, component_part, component, \
         tool_log, tool_log_content, model_log, limit_count, limit_reservation; \
         DROP INDEX run_call_pending; ALTER TABLE approval DROP COLUMN decided_by, DROP COLUMN reason; \
         ALTER TABLE run DROP COLUMN trace, DROP COLUMN sources; \
         ALTER TABLE run_call DROP COLUMN sources, DROP COLUMN written, DROP COLUMN asked_by; \
         DELETE FROM airlock_schema WHERE version > 10"
    ));
    drop(database);
    let database = open(&home).await.expect("it is migrated");
    assert_eq!(database.entries().await.expect("read").revision, 0);
    let login = database.upstream_login(&LoginId::of_operator("c", "s")).await.expect("read");
    assert_eq!(login.map(|login| login.access_token).as_deref(), Some("t"));
    let compatible = database.read(|sql| {
        let select = "SELECT max(compatible_from) FROM airlock_schema";
        sql.one(select, &[], first::<i64>)
    });
    assert_eq!(compatible.await.expect("read"), 10);
}

#[tokio::test]
async fn a_migration_that_another_build_made_with_another_text_is_refused() {
    let Some(home) = TestHome::postgres() else { return };
    open(&home).await.expect("it is made");
    let server = home.server.as_ref().expect("a server");
    server.execute("UPDATE airlock_schema SET digest = 'other'");
    let refused = open(&home).await.expect_err("refused");
    assert!(matches!(refused, OpenError::Unusable { .. }), "{refused:?}");
}

#[tokio::test]
async fn an_unknown_role_is_named_in_the_error_and_its_password_is_not() {
    let Some(home) = TestHome::postgres() else { return };
    let server = home.server.as_ref().expect("a server");
    let url = server.url().replace("user=airlock", "user=nobody_there&password=hunter2");
    let settings = Settings::at(url.parse().expect("a URL"));
    let refused = Database::open(settings).await.expect_err("there is no such role");
    let shown = airlock_strings::with_causes(&refused);
    assert!(shown.contains("nobody_there") && !shown.contains("hunter2"), "{shown}");
    assert!(!format!("{refused:?}").contains("hunter2"));
}

#[tokio::test]
async fn the_time_is_that_of_the_server_unless_a_test_has_another_clock() {
    let Some(home) = TestHome::postgres() else { return };
    let database = open(&home).await.expect("it is opened");
    let select = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)";
    let written = database
        .write(Subject::APPROVALS, move |sql| Ok((sql.now(), sql.one::<i64>(select, &[], first)?)));
    let (now, clock) = written.await.expect("written");
    assert!((0..1_000).contains(&(clock - now)), "{now} {clock}");
    let read = database.read(move |sql| Ok((sql.now(), sql.one::<i64>(select, &[], first)?)));
    let (now, clock) = read.await.expect("read");
    assert!((-5..1_000).contains(&(clock - now)), "{now} {clock}");
    let wrong = Settings { clock: std::sync::Arc::new(wrong_clock), ..home.settings() };
    let database = Database::open(wrong).await.expect("it is opened");
    let now = database.write(Subject::APPROVALS, |sql| Ok(sql.now())).await.expect("written");
    assert_eq!(now, 1_000);
}

#[tokio::test]
async fn a_connection_has_limits_and_a_name_that_the_server_lists() {
    let Some(home) = TestHome::postgres() else { return };
    let settings = Settings { busy_timeout: Duration::from_millis(1_234), ..home.settings() };
    let database = Database::open(settings).await.expect("it is opened");
    for (name, expected) in [
        ("lock_timeout", "1234ms"),
        ("statement_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("application_name", "airlock"),
    ] {
        let found = database
            .read(move |sql| sql.one("SELECT current_setting(?1)", params![name], first::<String>));
        assert_eq!(found.await.expect("read"), expected, "{name}");
    }
}

#[tokio::test]
async fn a_connection_keeps_a_bounded_number_of_prepared_statements() {
    let Some(home) = TestHome::postgres() else { return };
    let database = open(&home).await.expect("it is opened");
    let count = database.read(|sql| {
        for number in 0..300 {
            let select = format!("SELECT CAST({number} AS BIGINT)");
            assert_eq!(sql.one(&select, &[], first::<i64>)?, number);
        }
        sql.one("SELECT count(*) FROM pg_prepared_statements", &[], first::<i64>)
    });
    let count = count.await.expect("read");
    assert!((1..=256).contains(&count), "{count}");
}

fn wrong_clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1)
}
