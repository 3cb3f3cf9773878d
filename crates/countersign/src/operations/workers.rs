//! A worker: several pairs of hands in one program, on any machine that reaches the server or the
//! database. It takes up what is ready in its queues, keeps its leases alive, and is told to drain or to
//! halt.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::post::{Post, Shares};
use engine::process::{Stop, adopt_orphans, sweep};
use engine::shift::{self, Hand, Told};
use flow::policy::Land;
use flow::{Queue, Role};
use serde_json::json;
use store::Agent;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::project::Asked;
use super::shops::Furnisher;
pub use super::shops::Reach;
use super::tasks::{queue_name, queues_of};
use super::{Office, service};
use crate::failure::Failure;

/// More hands than this are another worker's.
pub const REPLICAS_MAX: u16 = 64;

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    pub replicas: u16,
    pub queues: Queues,
    pub labels: BTreeSet<String>,
    /// How many jobs of a provider run at once.
    pub shares: Vec<(String, usize)>,
    pub reach: Reach,
    pub asked: Asked,
}

/// Where a worker takes its work from.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// Of the loop: build, check, review, verify, merge.
    pub of_loop: Vec<Queue>,
    /// Of free tasks, by the name of the agent that they are for.
    pub of_tasks: Vec<Queue>,
}

impl Queues {
    /// All that these words name; the whole loop where there are no words.
    pub fn named(words: &[String]) -> Result<Self, Failure> {
        let known = Queue::OF_LOOP.into_iter();
        let known = known.filter(|queue| *queue != Queue::Tell);
        if words.is_empty() {
            let of_loop = known.collect();
            return Ok(Self {
                of_loop,
                ..Self::default()
            });
        }
        let known: Vec<Queue> = known.collect();
        let mut queues = Self::default();
        for word in words {
            let queue = Queue::from(word);
            if known.contains(&queue) {
                queues.of_loop.push(queue);
            } else {
                queues.of_tasks.push(queue_name(word)?.into());
            }
        }
        Ok(queues)
    }

    pub fn names(&self) -> Vec<&str> {
        let queues = self.of_loop.iter().chain(&self.of_tasks);
        queues.map(Queue::name).collect()
    }

    /// Of tasks, for one replica: `engineer-1` has what is for `engineer`, and what is for itself.
    fn of_replica(&self, name: &str) -> Vec<Queue> {
        let own = queues_of(name);
        let mut queues = self.of_tasks.clone();
        if own.iter().any(|queue| queues.contains(queue)) {
            queues.extend(own);
        }
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}

/// Works until it is told to drain, and is over when nothing is in hand any more.
pub async fn work(
    office: &Office,
    wanted: Wanted,
    told: Told,
    complaints: Sender<String>,
) -> Result<(), Failure> {
    adopt_orphans()
        .map_err(|error| Failure::error(format!("orphans cannot be adopted: {error}")))?;
    sweep(&office.surroundings.data_dir)
        .await
        .map_err(Failure::error)?;
    let shares = Shares::new(wanted.shares.clone());
    let mut hands = JoinSet::new();
    for number in 1..=wanted.replicas {
        let name = format!("{}-{number}", wanted.name);
        let hand = Hand {
            queues: wanted.queues.of_loop.clone(),
            tasks: wanted.queues.of_replica(&name),
            labels: wanted.labels.clone(),
            name,
        };
        let post = Post::of_replica(&hand.name, hand.queues.clone(), shares.clone());
        let asked = Asked {
            roles: Some(roles(&hand)),
            // Nothing of a task lands.
            land: hand.queues.is_empty().then_some(Land::Branch),
            ..wanted.asked.clone()
        };
        let shops = Furnisher::new(office.clone(), asked, post)
            .reaching(wanted.reach.clone(), complaints.clone());
        let (office, told) = (office.clone(), told.clone());
        hands.spawn(async move {
            tokio::select! {
                () = shift::work(&office.desk, &shops, &hand, told) => {}
                () = show_life(&office, &hand) => {}
            }
        });
    }
    while let Some(ended) = hands.join_next().await {
        ended.map_err(|error| Failure::error(format!("a worker broke: {error}")))?;
    }
    Ok(())
}

/// Whom of the crew these queues need.
fn roles(hand: &Hand) -> Vec<Role> {
    let roles = [
        (Queue::Build, Role::Builder),
        (Queue::Review, Role::Reviewer),
        (Queue::Verify, Role::Verifier),
    ];
    let served = roles
        .into_iter()
        .filter(|(queue, _)| hand.queues.contains(queue));
    let mut roles: Vec<Role> = served.map(|(_, role)| role).collect();
    if !hand.tasks.is_empty() && !roles.contains(&Role::Builder) {
        roles.push(Role::Builder);
    }
    roles
}

/// Ends when it is told to stop, or when the server does not let us in any more. One that is away may
/// come back.
pub async fn stay_known(office: &Office, mut stop: Stop) -> Result<(), Failure> {
    loop {
        if let Err(error @ store::Error::Overruled(_)) = office.desk.store.now().await {
            return Err(error.into());
        }
        tokio::select! {
            () = tokio::time::sleep(service::ROUND) => {}
            () = stop.asked() => return Ok(()),
        }
    }
}

/// Signs of life, for those who look who is there. It never ends by itself.
async fn show_life(office: &Office, hand: &Hand) {
    loop {
        let agent = Agent {
            name: hand.name.clone(),
            role: "worker".to_owned(),
            seen_at: (office.desk.clock)(),
            body: json!({"queues": hand.queues, "tasks": hand.tasks, "labels": hand.labels}),
        };
        // A store that is away now is back at another round.
        let _ = office.desk.store.beat(agent).await;
        tokio::time::sleep(service::ROUND).await;
    }
}

/// The house's own hands: checks and merges, and nobody who is paid.
pub async fn keep_house(office: &Office, hands: u16, told: Told) {
    let queues = shift::of_the_house();
    let shops = Furnisher::new(
        office.clone(),
        Asked::of_the_house(),
        Post::of_replica("house", queues.clone(), Shares::default()),
    );
    let shops = Arc::new(shops);
    let mut working = JoinSet::new();
    for number in 1..=hands {
        let hand = Hand {
            name: format!("house-{number}"),
            queues: queues.clone(),
            tasks: Vec::new(),
            labels: BTreeSet::new(),
        };
        let (office, shops, told) = (office.clone(), Arc::clone(&shops), told.clone());
        working.spawn(async move { shift::work(&office.desk, shops.as_ref(), &hand, told).await });
    }
    working.join_all().await;
}
