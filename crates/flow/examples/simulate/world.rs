//! Worlds to simulate: defect rates, and the skills of builder, reviewer, verifier and person. All
//! rates are per mille.

/// Rates of one simulated world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub name: &'static str,
    /// Mean number of true must-fix defects in the first submission.
    pub defects: u64,
    /// Mean number of minor flaws in the first submission.
    pub nits: u64,
    pub builder: Builder,
    pub reviewer: Reviewer,
    pub verifier: Verifier,
    pub person: Person,
}

#[derive(Clone, Copy, Debug)]
pub struct Builder {
    /// Rate at which a reported defect is really repaired.
    pub repairs: u64,
    /// Rate at which a repair breaks something else.
    pub breaks: u64,
    /// Rate at which a false alarm is disputed, rather than worked around.
    pub disputes: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Reviewer {
    /// Rate at which an existing defect is found.
    pub recall: u64,
    /// Must-fix findings without a defect, per review.
    pub false_alarms: u64,
    /// Invented minor findings, per review.
    pub fuss: u64,
    /// Rate of approvals that list a must-fix finding. In real reviews: 8 of 40 approvals.
    pub soft: u64,
    /// Rate of refusals that name only minor findings, or none.
    pub stern: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Verifier {
    /// Rate at which an existing defect is called fixed or refuted.
    pub misses: u64,
    /// Rate at which a false alarm is refuted.
    pub refutes: u64,
    /// Rate at which a repaired defect is recognised as fixed.
    pub clears: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Rate at which a person who took over finds and repairs a defect.
    pub recall: u64,
}

/// Cost of the first build, in thousandths of a dollar like those below.
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
