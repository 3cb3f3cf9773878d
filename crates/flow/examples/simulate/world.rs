//! What is true in a world, and how well those in it see and do. All rates are per mille.

/// How the people and programs of a world are.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub name: &'static str,
    /// True must-fix defects in the first submission, on the average.
    pub defects: u64,
    /// Small things in it.
    pub nits: u64,
    pub builder: Builder,
    pub reviewer: Reviewer,
    pub verifier: Verifier,
    pub person: Person,
}

#[derive(Clone, Copy, Debug)]
pub struct Builder {
    /// A defect that it is told of is really repaired.
    pub repairs: u64,
    /// A repair breaks something else.
    pub breaks: u64,
    /// A false alarm is disputed, rather than worked around.
    pub disputes: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Reviewer {
    /// A defect that is there is seen.
    pub recall: u64,
    /// Must-fix findings without a defect, in each review.
    pub false_alarms: u64,
    /// Small things that are made up, in each review.
    pub fuss: u64,
    /// Approves although it lists what must be fixed. In real reviews: 8 of 40 approvals.
    pub soft: u64,
    /// Asks for changes though it names small things only, or nothing.
    pub stern: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Verifier {
    /// Calls a defect that is there fixed or none.
    pub misses: u64,
    /// Calls a false alarm none.
    pub refutes: u64,
    /// Sees that a repaired defect is gone.
    pub clears: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Sees and repairs a defect, having taken the ticket over.
    pub recall: u64,
}

/// What things cost, in thousandths of a dollar.
pub const BUILD_COST: u64 = 1_000;
pub const REWORK_COST: u64 = 600;
pub const REVIEW_COST: u64 = 300;
pub const VERIFY_COST: u64 = 60;

impl World {
    pub fn all() -> [Self; 3] {
        let ordinary = Self {
            name: "ordinary",
            defects: 1_500,
            nits: 2_500,
            builder: Builder {
                repairs: 800,
                breaks: 80,
                disputes: 500,
            },
            reviewer: Reviewer {
                recall: 650,
                false_alarms: 500,
                fuss: 1_000,
                soft: 200,
                stern: 150,
            },
            verifier: Verifier {
                misses: 50,
                refutes: 800,
                clears: 930,
            },
            person: Person { recall: 900 },
        };
        let sloppy = Self {
            name: "sloppy builder",
            defects: 2_500,
            builder: Builder {
                repairs: 650,
                breaks: 150,
                disputes: 300,
            },
            ..ordinary
        };
        let weak = Self {
            name: "weak reviewer",
            reviewer: Reviewer {
                recall: 450,
                false_alarms: 800,
                fuss: 1_500,
                soft: 300,
                stern: 250,
            },
            ..ordinary
        };
        [ordinary, sloppy, weak]
    }

    pub fn describe(&self) -> String {
        let share = |per_mille: u64| format!("{}.{:02}", per_mille / 1000, per_mille % 1000 / 10);
        let (builder, reviewer, verifier) = (self.builder, self.reviewer, self.verifier);
        format!(
            "World \"{}\": {} defects a ticket; the builder repairs {} and breaks {} of what it is told; \
             a reviewer sees {}, raises {} false alarms, is soft {} and stern {}; \
             the verifier misses {}, refutes {}, clears {}",
            self.name,
            share(self.defects),
            share(builder.repairs),
            share(builder.breaks),
            share(reviewer.recall),
            share(reviewer.false_alarms),
            share(reviewer.soft),
            share(reviewer.stern),
            share(verifier.misses),
            share(verifier.refutes),
            share(verifier.clears),
        )
    }
}
