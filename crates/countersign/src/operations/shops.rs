//! The workshops of a worker: one for each repository and base branch, furnished when a ticket of it
//! comes up, and anew when its base may have moved.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::post::Post;
use engine::shift::Shops;
use engine::workshop::Workshop;
use flow::Ticket;
use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::Office;
use super::project::{Asked, furnish_for};
use crate::failure::Failure;

/// For so long a base branch's rules are taken as read.
const FRESH: Duration = Duration::from_secs(5);
/// More repositories than this are furnished again each time.
const SHOPS_MAX: usize = 1000;

type Key = (String, Option<String>);

#[derive(Debug)]
pub struct Furnisher {
    office: Office,
    asked: Asked,
    post: Post,
    /// Where it is said why a ticket cannot be worked on here, where somebody listens.
    complaints: Option<Sender<String>>,
    shops: Mutex<BTreeMap<Key, (Instant, Arc<Workshop>)>>,
    told: Mutex<BTreeMap<Key, String>>,
}

impl Furnisher {
    pub fn new(office: Office, asked: Asked, post: Post) -> Self {
        Self {
            office,
            asked,
            post,
            complaints: None,
            shops: Mutex::default(),
            told: Mutex::default(),
        }
    }

    #[must_use]
    pub fn complaining_to(mut self, complaints: Sender<String>) -> Self {
        self.complaints = Some(complaints);
        self
    }

    async fn furnish(&self, key: &Key) -> Result<Arc<Workshop>, Failure> {
        let asked = Asked {
            base: key.1.clone(),
            ..self.asked.clone()
        };
        let post = self.post.clone();
        let furnished = furnish_for(&self.office, Path::new(&key.0), &asked, post).await?;
        Ok(furnished.shop)
    }

    /// Once for each repository and reason.
    async fn complain(&self, key: Key, failure: &Failure) {
        let Some(complaints) = &self.complaints else {
            return;
        };
        let said = format!("{} is not worked on here: {failure}", key.0);
        let mut told = self.told.lock().await;
        if told.get(&key) != Some(&said) && told.len() < SHOPS_MAX {
            // Nobody may be listening any more.
            let _ = complaints.try_send(said.clone());
            told.insert(key, said);
        }
    }
}

impl Shops for Furnisher {
    async fn of(&self, ticket: &Ticket) -> Option<Arc<Workshop>> {
        let context = &ticket.spec.context;
        let Some(repository) = context.repository.clone() else {
            let nowhere = Failure::usage("it belongs to no repository; add it in one");
            self.complain((ticket.id.to_string(), None), &nowhere).await;
            return None;
        };
        let key = (repository, context.base_branch.clone());
        let mut shops = self.shops.lock().await;
        if let Some((since, shop)) = shops.get(&key)
            && since.elapsed() < FRESH
        {
            return Some(Arc::clone(shop));
        }
        let shop = match self.furnish(&key).await {
            Ok(shop) => shop,
            Err(failure) => {
                self.complain(key, &failure).await;
                return None;
            }
        };
        if shops.len() >= SHOPS_MAX {
            shops.clear();
        }
        shops.insert(key, (Instant::now(), Arc::clone(&shop)));
        Some(shop)
    }
}
