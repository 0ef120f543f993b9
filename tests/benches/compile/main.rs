//! What the attribute costs a build: the time to check and to build a library of 200 handlers, as
//! ratios to the same library without it, and to the one whose handlers have
//! `#[tracing::instrument]`; and the time to build the macro itself, to other macros.
//!
//! Every round measures every case, one right after the other and in another order, and compares
//! within the round. A case changes a comment in its library and builds that alone, not
//! incrementally, without debug information; nothing but the attribute differs between the
//! libraries. That a library was built, and nothing else, is asserted. What Cargo takes to see what
//! is to be done is part of each time.
//!
//! `cargo bench -p idem-tests --bench compile` first builds the frameworks in a target directory of
//! its own, which it names and leaves for the next time; `ROUNDS=1` measures once.
//!
//! On a busy machine look at the processor time of the compilers, which Linux tells.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

mod cargo;
mod library;
mod report;

use std::{env, path::Path};

use self::{
    cargo::{Cargo, Cost, Step},
    library::{FRAMEWORKS, HANDLERS, Library, MODULES, VARIANTS},
    report::{Group, report},
};

/// The macros to build, ours first.
const MACROS: [&str; 3] = ["idem-macros", "tracing-attributes", "serde_derive"];
/// How a macro is built. By itself it is optimised for a release; as what a library needs it never is.
const PROFILES: [Step; 2] = [Step::Build, Step::Release];

fn main() {
    let rounds = env::var("ROUNDS").map_or(5, |rounds| {
        let rounds: u32 = rounds.parse().unwrap_or_default();
        assert!(rounds > 0, "`ROUNDS` is a number, 1 at least");
        rounds
    });
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile");
    println!("libraries and what is built of them: {}", scratch.display());

    let mut libraries = library::write(&scratch);
    let cargo = Cargo::new(&scratch, "libraries");
    for step in Step::ALL {
        for library in &libraries {
            cargo.build(step, &library.name);
        }
    }
    let groups = measure_libraries(&cargo, &mut libraries, rounds);
    println!(
        "\n{} handlers in {MODULES} modules; medians of {rounds}, ratios of the same round to the \
         handlers without an attribute and to those with `instrument`\n",
        MODULES * HANDLERS
    );
    let handlers = f64::from(u32::try_from(MODULES * HANDLERS).expect("they are few"));
    report(
        &groups,
        [("to plain", 0), ("to instrument", 2)],
        Some(("ms/handler", handlers)),
    );

    // In a directory of their own: with a macro goes all that was built with it.
    let cargo = Cargo::new(&scratch, "macros");
    for step in PROFILES {
        for name in MACROS {
            cargo.build(step, name);
        }
    }
    let groups = measure_macros(&cargo, rounds);
    println!("\nthe macros alone, without what they need; ratios to those of others\n");
    report(&groups, [("to tracing", 1), ("to serde", 2)], None);
}

/// A group for each framework and step.
fn measure_libraries(cargo: &Cargo, libraries: &mut [Library], rounds: u32) -> Vec<Group> {
    let mut groups = Vec::new();
    for framework in &FRAMEWORKS {
        for step in Step::ALL {
            let name = |variant| format!("{} {} {variant}", framework.name, step.name());
            groups.push(Group::new(VARIANTS.map(name)));
        }
    }
    for round in 0..rounds {
        let mut groups = groups.iter_mut();
        for libraries in libraries.chunks_mut(VARIANTS.len()) {
            for (step, group) in Step::ALL.into_iter().zip(&mut groups) {
                group.rounds.push(in_turn(round, |number| {
                    libraries[number].change();
                    cargo.measure(step, &libraries[number].name)
                }));
            }
        }
    }
    groups
}

/// A group for each profile.
fn measure_macros(cargo: &Cargo, rounds: u32) -> Vec<Group> {
    let measured = PROFILES.map(|step| {
        let mut group = Group::new(MACROS.map(|name| format!("{} {name}", step.name())));
        for round in 0..rounds {
            group.rounds.push(in_turn(round, |number| {
                cargo.clean(step, MACROS[number]);
                cargo.measure(step, MACROS[number])
            }));
        }
        group
    });
    measured.into()
}

/// Measures the cases of a group, beginning with another one in each round.
fn in_turn(round: u32, mut measure: impl FnMut(usize) -> Cost) -> [Cost; report::CASES] {
    let first = round as usize % report::CASES;
    let mut costs: [_; report::CASES] =
        std::array::from_fn(|turn| measure((turn + first) % report::CASES));
    costs.rotate_right(first);
    costs
}
