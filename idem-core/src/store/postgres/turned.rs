//! For tests: turning the server's time, counting rows, spoiling one.
//!
//! Time is not waited for. Every row is moved instead, which is the same as if the server's clock had
//! gone on.

use std::time::Duration;

use bytes::Bytes;
use sqlx::{AssertSqlSafe, Row};

use super::{
    PostgresStore,
    failure::failed,
    rows::{Columns, millis},
};
use crate::{error::StoreError, key::StorageKey, record::Record};

impl PostgresStore {
    /// Lets the server's time pass for the rows of this table.
    #[doc(hidden)]
    pub async fn advance(&self, by: Duration) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE {table} SET lease_until = lease_until - by, expires_at = expires_at - by,
             purge_at = purge_at - by FROM (SELECT $1::bigint * interval '1 millisecond' AS by) b",
            table = self.statements().table
        );
        let moved = sqlx::query(AssertSqlSafe(sql)).bind(millis(by));
        let moved = moved.execute(self.database.pool()).await;
        moved.map_err(failed)?;
        Ok(())
    }

    /// How many rows there are, with those that have expired and were not dropped yet.
    #[doc(hidden)]
    pub async fn records(&self) -> Result<usize, StoreError> {
        let sql = format!("SELECT count(*) FROM {}", self.statements().table);
        let counted = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql));
        let counted = counted
            .fetch_one(self.database.pool())
            .await
            .map_err(failed)?;
        Ok(usize::try_from(counted).unwrap_or_default())
    }

    /// Puts other bytes in the place of a stored response; gives those that were there.
    ///
    /// They are as in [`Record::encode`](crate::Record::encode). If they are no record, they go into the
    /// columns by the lengths that the parts had before: so one changed byte is one in the column that
    /// it belongs to.
    #[doc(hidden)]
    pub async fn swap_response(
        &self,
        key: &StorageKey,
        bytes: Bytes,
    ) -> Result<Option<Bytes>, StoreError> {
        Ok(self.swap(key, &bytes).await.map_err(failed)?)
    }

    async fn swap(&self, key: &StorageKey, bytes: &Bytes) -> Result<Option<Bytes>, sqlx::Error> {
        let table = &self.statements().table;
        let mut transaction = self.database.pool().begin().await?;
        let select = format!(
            "SELECT format, flags, status, headers, COALESCE(reference, '') AS reference, body
             FROM {table} WHERE id = $1 AND state = 2 FOR UPDATE"
        );
        let row = sqlx::query(AssertSqlSafe(select)).bind(&key.as_bytes()[..]);
        let Some(row) = row.fetch_optional(&mut *transaction).await? else {
            return Ok(None);
        };
        let number = |name| row.try_get::<i16, _>(name);
        let (headers, body): (Vec<u8>, Vec<u8>) = (row.try_get("headers")?, row.try_get("body")?);
        let reference: String = row.try_get("reference")?;
        let [_, format] = number("format")?.to_be_bytes();
        let [_, flags] = number("flags")?.to_be_bytes();
        let there = [
            &[format, flags][..],
            &number("status")?.to_be_bytes(),
            &headers,
            &u16::try_from(reference.len())
                .unwrap_or_default()
                .to_be_bytes(),
            reference.as_bytes(),
            &body,
        ]
        .concat();

        let parts = Parts::of(bytes, headers.len(), reference.len());
        let update = format!(
            "UPDATE {table} SET format = $2, flags = $3, status = $4, headers = $5, body = $6,
             reference = $7 WHERE id = $1"
        );
        let update = sqlx::query(AssertSqlSafe(update))
            .bind(&key.as_bytes()[..])
            .bind(parts.format)
            .bind(parts.flags)
            .bind(parts.status)
            .bind(&parts.headers[..])
            .bind(&parts.body[..])
            .bind(parts.reference);
        update.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some(there.into()))
    }
}

/// What goes into the columns.
struct Parts {
    format: i16,
    flags: i16,
    status: i16,
    headers: Bytes,
    body: Bytes,
    reference: Option<String>,
}

impl Parts {
    fn of(bytes: &Bytes, headers: usize, reference: usize) -> Self {
        let number = |part: Bytes| part.iter().fold(0, |all, byte| all << 8 | i16::from(*byte));
        let mut rest = bytes.clone();
        let mut torn = Self {
            format: number(part(&mut rest, 1)),
            flags: number(part(&mut rest, 1)),
            status: number(part(&mut rest, 2)),
            headers: part(&mut rest, headers),
            reference: None,
            body: rest.slice(rest.len().min(2 + reference)..),
        };
        if let Ok(record) = Record::decode(bytes.clone())
            && let Ok(columns) = Columns::of(&record)
        {
            torn.headers = columns.headers;
            torn.reference = columns.reference;
            torn.body = columns.body;
        }
        torn
    }
}

fn part(rest: &mut Bytes, length: usize) -> Bytes {
    rest.split_to(length.min(rest.len()))
}
