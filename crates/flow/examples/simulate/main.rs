//! Plays scripted worlds through the real `flow` and prints what each way to run the loop comes to.
//!
//! ```text
//! cargo run --release -p countersign-flow --example simulate -- [TICKETS] [SEED…]
//! ```
//!
//! With several seeds each row is the mean over them, with the least and the most beside it.
//!
//! A world is a builder that repairs a share of what it is told and breaks a little, reviewers
//! with a recall, a rate of false alarms and a mood, a verifier that errs too, and a person who
//! settles what is escalated. All ways meet the same tickets. Ways that trust where ours proves are
//! played by the same `advance` with its gates off and a verifier that costs nothing and nods.
#![expect(clippy::print_stdout, reason = "printing the table is what it is for")]

mod chance;
mod play;
mod way;
mod world;

use play::{Life, Sums, play};
use way::Way;
use world::World;

const TICKETS_DEFAULT: u64 = 10_000;

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let tickets = numbers.first().copied().unwrap_or(TICKETS_DEFAULT);
    let seeds = numbers.get(1..).filter(|seeds| !seeds.is_empty());
    let seeds = seeds.unwrap_or(&[1]);
    for world in World::all() {
        println!(
            "\n{} ({tickets} tickets a row and seed; seeds {seeds:?})\n",
            world.describe()
        );
        println!("{}", Sums::head());
        for way in Way::all() {
            let all: Vec<Sums> = seeds
                .iter()
                .map(|seed| sums(&world, &way, *seed, tickets))
                .collect();
            println!("{}", play::row(way.name, &all));
        }
    }
}

fn sums(world: &World, way: &Way, seed: u64, tickets: u64) -> Sums {
    let mut sums = Sums::default();
    for ticket in 0..tickets {
        let life: Life = play(world, way, seed, ticket);
        sums.add(&life);
    }
    sums
}
