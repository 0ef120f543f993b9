//! `PgBouncer`, in front of a Postgres.

use std::{fmt::Write, ops::Deref};

use sqlx::{Connection, Executor, PgConnection};

use crate::{
    postgres::Postgres,
    server::{Server, program, unprivileged},
};

/// A pool of connections that clients share.
#[derive(Debug)]
pub struct PgBouncer(Server);

/// For how long a client has a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as it is connected.
    Session,
    /// Until its transaction ends.
    Transaction,
}

impl PoolMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
        }
    }
}

impl PgBouncer {
    /// Starts one in front of this server, for all of its databases; these settings win over ours.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn start(postgres: &Postgres, mode: PoolMode, settings: &[(&str, &str)]) -> Self {
        let sbin = ["/usr/sbin".into(), "/usr/local/sbin".into()];
        let program = program("pgbouncer", &sbin, "pgbouncer");
        let command = [program.into(), "pgbouncer.ini".into()];
        let server = Server::new("pgbouncer", unprivileged(), &command);
        let port = server.port().to_string();
        let ours = [
            ("listen_addr", "127.0.0.1"),
            ("listen_port", &port),
            ("unix_socket_dir", ""),
            ("auth_type", "trust"),
            ("auth_file", "users.txt"),
            ("pool_mode", mode.as_str()),
            ("max_client_conn", "200"),
            // Sent by sqlx, and refused by default.
            ("ignore_startup_parameters", "extra_float_digits"),
        ];
        let target = postgres.port();
        let mut file = format!("[databases]\n* = host=127.0.0.1 port={target}\n[pgbouncer]\n");
        for (name, value) in ours.iter().chain(settings) {
            let _ = writeln!(file, "{name} = {value}");
        }
        server.write("pgbouncer.ini", &file);
        server.write("users.txt", "\"postgres\" \"\"\n");
        server.run();
        let pgbouncer = Self(server);
        pgbouncer.until_ready().await;
        pgbouncer
    }

    /// The URL of the database `postgres` by way of the pool, for the superuser of that name.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The URL of another database.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.addr())
    }

    /// Starts it again with the same port and settings, after an end by SIGKILL if it runs.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn restart(&self) {
        self.0.run();
        self.until_ready().await;
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
}

impl Deref for PgBouncer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
