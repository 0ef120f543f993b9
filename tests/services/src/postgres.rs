//! A Postgres server.

use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    ops::Deref,
    path::{Path, PathBuf},
};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::sync::OnceCell;

use crate::server::{Server, program, unprivileged};

const PACKAGE: &str = "postgresql";

/// What is set unless the test sets it otherwise.
const DEFAULTS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("log_statement", "none"),
    ("max_connections", "200"),
    ("shared_buffers", "32MB"),
];

/// A server of its own, with its databases.
#[derive(Debug)]
pub struct Postgres(Server);

impl Postgres {
    /// Starts one. It does not wait for its disk, unless the settings say `fsync = on`; they win
    /// over ours.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        let template = template().await.directory().join("data");
        let postgres = postgres();
        let preloaded = statistics(&postgres).then_some(("shared_preload_libraries", STATISTICS));
        let copy = r#"[ -d data ] || cp -R "$1" data; shift; exec "$@""#;
        let mut command: Vec<OsString> = ["sh", "-c", copy, "sh"].map(Into::into).into();
        command.extend([template.into(), postgres.into()]);
        command.extend(["-D", "data", "-c", "config_file=postgresql.conf"].map(Into::into));
        let server = Server::new("postgres", unprivileged(), &command);
        let port = server.port().to_string();
        let ours = [
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", ""),
            // In the directory, and so removed with it.
            ("dynamic_shared_memory_type", "mmap"),
        ];
        let mut file = String::new();
        for (name, value) in ours
            .iter()
            .chain(&preloaded)
            .chain(DEFAULTS)
            .chain(settings)
        {
            let _ = writeln!(file, "{name} = {}", quoted(value));
        }
        server.write("postgresql.conf", &file);
        server.run();
        let postgres = Self(server);
        postgres.until_ready().await;
        postgres
    }

    /// The one that the tests of this process share, each with a database of its own. Nobody may
    /// pause or kill it.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(&[])).await
    }

    async fn until_ready(&self) {
        self.until(async || {
            let mut connection = PgConnection::connect(&self.url()).await?;
            connection.execute("SELECT 1").await?;
            connection.close().await?;
            Ok(())
        })
        .await;
    }

    /// The URL of its database `postgres`, for the superuser of that name.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The URL of another database.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.addr())
    }

    /// Makes a database with these settings for all who connect to it, such as
    /// `default_transaction_isolation`, and gives its URL.
    ///
    /// # Panics
    /// If there is one of this name.
    pub async fn create_database(&self, name: &str, settings: &[(&str, &str)]) -> String {
        let mut statements = vec![format!("CREATE DATABASE \"{name}\"")];
        statements.extend(settings.iter().map(|(setting, value)| {
            let value = quoted(value);
            format!("ALTER DATABASE \"{name}\" SET {setting} = {value}")
        }));
        let mut connection = self.connect().await;
        for statement in statements {
            let done = connection.execute(AssertSqlSafe(statement)).await;
            done.unwrap_or_else(|error| panic!("database `{name}` cannot be made: {error}"));
        }
        self.url_of(name)
    }

    /// Starts it again with the same port, settings and data, after an end by SIGKILL if it runs.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn restart(&self) {
        self.0.run();
        self.until_ready().await;
    }

    /// A connection of the test's own to the database `postgres`.
    ///
    /// # Panics
    /// If there is none to be had.
    pub async fn connect(&self) -> PgConnection {
        let connected = PgConnection::connect(&self.url()).await;
        connected.unwrap_or_else(|error| panic!("no connection to {}: {error}", self.url()))
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

/// An empty data directory, which takes seconds to make, for copies of it.
async fn template() -> &'static Server {
    static TEMPLATE: OnceCell<Server> = OnceCell::const_new();
    let make = async || {
        let initdb = postgres().with_file_name("initdb");
        let arguments = "-D data -A trust -U postgres -E UTF8 --no-locale --no-sync";
        let mut command = vec![initdb.into()];
        command.extend(arguments.split(' ').map(Into::into));
        let server = Server::new("initdb", unprivileged(), &command);
        server.run();
        assert!(server.finished().await, "{}", server.last_words());
        server
    };
    TEMPLATE.get_or_init(make).await
}

/// The program, beside which the others of its version are.
fn postgres() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<PathBuf> = versions.flatten().map(|entry| entry.path()).collect();
    let number = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.parse::<u32>().unwrap_or_default()
    };
    versions.sort_by_key(number);
    let newest_first: Vec<PathBuf> = versions.iter().rev().map(|path| path.join("bin")).collect();
    program("postgres", &newest_first, PACKAGE)
}

const STATISTICS: &str = "pg_stat_statements";

/// Whether this installation can count its statements.
fn statistics(postgres: &Path) -> bool {
    let real = fs::canonicalize(postgres).unwrap_or_default();
    let root = real.ancestors().nth(2).unwrap_or(Path::new("/"));
    let library = format!("{STATISTICS}.so");
    ["lib", "lib/postgresql"]
        .iter()
        .any(|lib| root.join(lib).join(&library).exists())
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}
