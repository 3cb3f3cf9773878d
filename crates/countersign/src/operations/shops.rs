//! The workshops of a shift: one for each repository and base branch, furnished when a ticket of it
//! comes up, and anew when its base has moved.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::shift::Shops;
use engine::workshop::Workshop;
use flow::Ticket;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Office;
use super::project::{Asked, furnish};

/// For so long a base branch's rules are taken as read.
const FRESH: Duration = Duration::from_secs(5);
/// More repositories than this are furnished again each time.
const SHOPS_MAX: usize = 1000;

type Key = (String, Option<String>);

#[derive(Debug)]
pub struct Furnisher {
    office: Office,
    asked: Asked,
    shops: Mutex<BTreeMap<Key, (Instant, Arc<Workshop>)>>,
}

impl Furnisher {
    pub fn new(office: Office, asked: Asked) -> Self {
        Self {
            office,
            asked,
            shops: Mutex::default(),
        }
    }
}

impl Shops for Furnisher {
    async fn of(&self, ticket: &Ticket) -> Option<Arc<Workshop>> {
        let context = &ticket.spec.context;
        let place = context.repository.clone()?;
        let key = (place.clone(), context.base_branch.clone());
        let mut shops = self.shops.lock().await;
        if let Some((since, shop)) = shops.get(&key)
            && since.elapsed() < FRESH
        {
            return Some(Arc::clone(shop));
        }
        let asked = Asked {
            base: context.base_branch.clone(),
            ..self.asked.clone()
        };
        // A repository that cannot be opened here may be another machine's.
        let furnished = furnish(&self.office, Path::new(&place), &asked)
            .await
            .ok()?;
        if shops.len() >= SHOPS_MAX {
            shops.clear();
        }
        shops.insert(key, (Instant::now(), Arc::clone(&furnished.shop)));
        Some(furnished.shop)
    }
}
