//! Messages. Concurrent writes and reads are batched.

use std::sync::Arc;

use deadpool_postgres::Pool;
use flow::Time;
use tokio_postgres::Row;

use crate::batched::UnreadMessages;
use crate::batcher::BatchRequest;
use crate::error::Error;
use crate::record::{Message, NewMessage};
use crate::rows::{self, clean, time};

use super::Postgres;
use super::pipeline::{self, index, values};

/// Request to store a message; the answer is its number.
#[derive(Clone)]
pub(super) struct MessageInsert(pub(super) NewMessage);

impl BatchRequest<Pool> for MessageInsert {
    type Answer = i64;
    const MOST: usize = 128;
    const WRITES: bool = true;

    async fn put(pool: &Pool, requests: Arc<[Self]>) -> Result<Vec<i64>, Error> {
        let sql = "INSERT INTO messages (at, sender, recipient, kind, ticket, content)
            SELECT at, sender, recipient, kind, ticket, content
            FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
                WITH ORDINALITY AS posted (at, sender, recipient, kind, ticket, content, place)
            ORDER BY place RETURNING id";
        let texts = |field: fn(&NewMessage) -> &str| -> Vec<String> {
            requests
                .iter()
                .map(|request| clean(field(&request.0)))
                .collect()
        };
        let tickets: Vec<Option<String>> = requests
            .iter()
            .map(|request| request.0.ticket.as_ref().map(ToString::to_string))
            .collect();
        let values = values![
            requests
                .iter()
                .map(|request| request.0.at.0)
                .collect::<Vec<_>>(),
            texts(|message| &message.from),
            texts(|message| &message.to),
            texts(|message| &message.kind),
            tickets,
            texts(|message| &message.content),
        ];
        let rows = pipeline::change(pool, sql, values).await?;
        let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        // Ids grow in the order of insertion, but RETURNING guarantees no order.
        ids.sort_unstable();
        Ok(ids)
    }
}

impl BatchRequest<Pool> for UnreadMessages {
    type Answer = Vec<Message>;
    /// Answers with many messages are large, so the batch is smaller.
    const MOST: usize = 64;

    async fn put(pool: &Pool, requests: Arc<[Self]>) -> Result<Vec<Vec<Message>>, Error> {
        let sql = "SELECT open.*, place
            FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS box (recipient, most, place)
            CROSS JOIN LATERAL
                (SELECT id, at, sender, recipient, kind, ticket, content, processed_at
                FROM messages WHERE messages.recipient = box.recipient AND processed_at IS NULL
                ORDER BY id LIMIT box.most) AS open
            ORDER BY place, id";
        let (to, most): (Vec<String>, Vec<i64>) = requests
            .iter()
            .map(|request| (request.to.clone(), i64::from(request.most)))
            .unzip();
        let mut mailboxes: Vec<Vec<Message>> = requests.iter().map(|_| Vec::new()).collect();
        for row in pipeline::read(pool, sql, values![to, most]).await? {
            if let Some(mailbox) = mailboxes.get_mut(index(row.get(8))) {
                mailbox.push(message(&row)?);
            }
        }
        Ok(mailboxes)
    }
}

impl Postgres {
    pub(super) async fn process_message(&self, message: i64, at: Time) -> Result<bool, Error> {
        let sql = "UPDATE messages SET processed_at = $2
            WHERE id = $1 AND processed_at IS NULL RETURNING 1";
        let marked = self.change(sql, values![message, at.0]).await?;
        Ok(!marked.is_empty())
    }
}

fn message(row: &Row) -> Result<Message, Error> {
    let ticket: Option<String> = row.get(5);
    Ok(Message {
        id: row.get(0),
        message: NewMessage {
            at: time(row.get(1)),
            from: row.get(2),
            to: row.get(3),
            kind: row.get(4),
            ticket: ticket.map(rows::ticket_id).transpose()?,
            content: row.get(6),
        },
        processed_at: row.get::<_, Option<i64>>(7).map(time),
    })
}
