//! The statements, each from a file of its own, for one table.

use std::sync::Arc;

use super::options::PostgresStoreOptions;

/// The statements of a store.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) server: Arc<str>,
    pub(super) exists: Arc<str>,
    pub(super) migrate: Arc<str>,
    pub(super) claim_first: Arc<str>,
    pub(super) claim: Arc<str>,
    pub(super) renew: Arc<str>,
    pub(super) complete_first: Arc<str>,
    pub(super) complete: Arc<str>,
    pub(super) release: Arc<str>,
    pub(super) inspect: Arc<str>,
    pub(super) resolve: Arc<str>,
    pub(super) forget: Arc<str>,
    pub(super) runs: Arc<str>,
    pub(super) purge: Arc<str>,
    /// The table as a statement names it.
    pub(super) table: Arc<str>,
    /// The index that its purge needs, likewise.
    pub(super) index: Arc<str>,
}

impl Statements {
    /// The options were checked: a name needs no escape.
    pub(super) fn new(options: &PostgresStoreOptions) -> Self {
        let table = &options.table;
        let qualified = |name: &str| match &options.schema {
            Some(schema) => format!("\"{schema}\".\"{name}\""),
            None => format!("\"{name}\""),
        };
        let (whole, prefix) = (qualified(table), format!("\"{table}_"));
        let of = |sql: &str| -> Arc<str> {
            // The driver looks a statement up by its whole text.
            let lines = sql.lines().map(str::trim_start);
            let code = lines.filter(|line| !line.starts_with("--"));
            let sql = code.collect::<Vec<_>>().join("\n");
            // A constraint or an index is in the schema of its table, which is not said again.
            sql.replace("\"idem_", &prefix)
                .replace("\"idem\"", &whole)
                .into()
        };
        Self {
            server: of(include_str!("server.sql")),
            exists: of(include_str!("exists.sql")),
            migrate: of(include_str!("../../../migrations/0001_idem.sql")),
            claim_first: of(include_str!("claim_first.sql")),
            claim: of(include_str!("claim.sql")),
            renew: of(include_str!("renew.sql")),
            complete_first: of(include_str!("complete_first.sql")),
            complete: of(include_str!("complete.sql")),
            release: of(include_str!("release.sql")),
            inspect: of(include_str!("inspect.sql")),
            resolve: of(include_str!("resolve.sql")),
            forget: of(include_str!("forget.sql")),
            runs: of(include_str!("runs.sql")),
            purge: of(include_str!("purge.sql")),
            index: qualified(&format!("{table}_purge")).into(),
            table: whole.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_names_the_table_that_was_set() {
        let options = PostgresStoreOptions::default()
            .with_schema("shop")
            .with_table("keys");
        let statements = Statements::new(&options);
        let all = [
            &statements.migrate,
            &statements.claim_first,
            &statements.claim,
            &statements.renew,
            &statements.complete_first,
            &statements.complete,
            &statements.release,
            &statements.inspect,
            &statements.resolve,
            &statements.forget,
            &statements.runs,
            &statements.purge,
        ];
        for sql in all {
            let code: String = sql.lines().filter(|line| !line.starts_with("--")).collect();
            assert!(code.contains("\"shop\".\"keys\""), "{code}");
            assert!(!code.contains("idem"), "{code}");
        }
        assert!(
            statements
                .migrate
                .contains("INDEX IF NOT EXISTS \"keys_purge\" ON \"shop\".\"keys\"")
        );
        assert_eq!(&*statements.index, "\"shop\".\"keys_purge\"");
    }
}
