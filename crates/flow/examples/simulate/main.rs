//! Simulates worlds with the real `flow`, and prints the results of each way to run the loop.
//!
//! ```text
//! cargo run --release -p countersign-flow --example simulate -- [TICKETS] [SEED…]
//! ```
//!
//! With several seeds each row is the mean over them, followed by the minimum and the maximum.
//!
//! A world has a builder that repairs a share of the reported defects and breaks a little,
//! reviewers with a recall, a rate of false alarms and a strictness, a verifier that also makes
//! mistakes, and a person who settles escalations. All ways get the same tickets. Ways without
//! verification use the same `advance` with its gates off and a free verifier that calls everything
//! fixed.
#![expect(clippy::print_stdout, reason = "its purpose is to print the table")]

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
