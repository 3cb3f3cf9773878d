//! Messages to people.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Items, Method, Question};
use crate::failure::Failure;
use crate::operations::App;
use crate::operations::messages::{self, PersonMessage};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListMessages {}

#[async_trait]
impl Question for ListMessages {
    type Answer = Items<PersonMessage>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/messages";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let items = messages::person_inbox(app).await?;
        Ok(Items { items })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkMessageRead {
    /// Number of the message in the inbox.
    pub message: String,
}

#[async_trait]
impl Question for MarkMessageRead {
    type Answer = PersonMessage;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/messages/{message}/read";

    async fn answer(self, app: &App) -> Result<PersonMessage, Failure> {
        let number = self.message.parse().map_err(|_| {
            Failure::usage(format!("{:?} is not the number of a message", self.message))
        })?;
        messages::mark_read(app, number).await
    }
}
