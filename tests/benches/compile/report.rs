//! The tables of figures.

use idem_tests::measure::{median, sorted};

use super::cargo::Cost;

/// How many cases a group has.
pub(crate) const CASES: usize = 3;

/// Cases that are compared with one another, and what they cost in each round.
pub(crate) struct Group {
    names: [String; CASES],
    pub(crate) rounds: Vec<[Cost; CASES]>,
}

impl Group {
    pub(crate) fn new(names: [String; CASES]) -> Self {
        let rounds = Vec::new();
        Self { names, rounds }
    }
}

/// Prints each case with its ratios to two of its group.
pub(crate) fn report(groups: &[Group], to: [(&str, usize); 2], extra: Option<(&str, f64)>) {
    let [(first, _), (second, _)] = to;
    let (unit, pieces) = extra.unwrap_or_default();
    println!(
        "{:<34} {:>7} {first:>13} {second:>13} {unit:>11} {:>7} {first:>13} {second:>13} {unit:>11}",
        "", "s", "work s",
    );
    for group in groups {
        for (number, name) in group.names.iter().enumerate() {
            print!("{name:<34}");
            for figure in [(|cost| cost.elapsed) as fn(&Cost) -> f64, |cost| {
                cost.worked
            }] {
                let all = |compare: &dyn Fn(&[Cost]) -> f64| {
                    median(&sorted(group.rounds.iter().map(|round| compare(round))))
                };
                let ours = |round: &[Cost]| figure(&round[number]);
                print!(" {:>7.2}", all(&ours));
                for (_, base) in to {
                    print!(
                        " {:>13.3}",
                        all(&|round| ours(round) / figure(&round[base]))
                    );
                }
                let each = |round: &[Cost]| (ours(round) - figure(&round[to[0].1])) * 1e3 / pieces;
                if extra.is_some() {
                    print!(" {:>11.2}", all(&each));
                } else {
                    print!(" {:>11}", "");
                }
            }
            println!();
        }
    }
}
