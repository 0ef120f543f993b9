//! The table of figures.

use std::time::Duration;

use idem_tests::measure::{median, quantile, sorted};

use super::{Asked, Case, Over, ROUNDS, SLICE, TASKS};

/// What one case did in one round.
pub(crate) struct Slice {
    pub(crate) per_second: f64,
    /// How long the thread of the tasks worked for an operation, in seconds.
    pub(crate) work: f64,
    /// The same of the processes of Redis or Postgres.
    pub(crate) served: f64,
    pub(crate) asked: Asked,
    pub(crate) latencies: Vec<Duration>,
}

pub(crate) fn report(cases: &[Case], rounds: &[Vec<Slice>]) {
    println!(
        "{TASKS} at once, {ROUNDS} rounds of {} ms; ratios to the line above, of the round: median, \
         worst, best\n",
        SLICE.as_millis()
    );
    println!(
        "{:<25} {:>7}  {:>5} {:>5} {:>5} {:>5}  {:>7} {:>5}  {:>9} {:>5}  {:>6} {:>6}  {:>5} {:>7}",
        "",
        "/s",
        "ratio",
        "worst",
        "best",
        "goal",
        "work µs",
        "ratio",
        "server µs",
        "ratio",
        "p50 µs",
        "p99 µs",
        "calls",
        "WAL B"
    );
    for (number, case) in cases.iter().enumerate() {
        let floor = number & !1;
        let all = |figure: fn(&Slice, &Slice) -> f64| {
            sorted(
                rounds
                    .iter()
                    .map(|round| figure(&round[number], &round[floor])),
            )
        };
        let ratios = all(|ours, bare| ours.per_second / bare.per_second);
        let mut latencies: Vec<Duration> = rounds
            .iter()
            .flat_map(|round| round[number].latencies.iter().copied())
            .collect();
        latencies.sort_unstable();
        let each = |count: fn(&Asked) -> u64| {
            let counts = rounds.iter().map(|round| count(&round[number].asked));
            #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
            let ratio = counts.sum::<u64>() as f64 / latencies.len() as f64;
            ratio
        };
        let name = match case.over {
            Over::Nothing => case.name.to_owned(),
            Over::Http => format!("HTTP: {}", case.name),
        };
        let goal = case
            .goal
            .map_or("–".to_owned(), |goal| format!("{goal:.2}"));
        println!(
            "{name:<25} {:>7.0}  {:>5.3} {:>5.3} {:>5.3} {goal:>5}  {:>7.2} {:>5.3}  {:>9.2} {:>5.3}  {:>6} {:>6}  {:>5.2} {:>7.1}",
            median(&all(|ours, _| ours.per_second)),
            median(&ratios),
            ratios[0],
            ratios[ratios.len() - 1],
            median(&all(|ours, _| ours.work)) * 1e6,
            median(&all(|ours, bare| bare.work / ours.work)),
            median(&all(|ours, _| ours.served)) * 1e6,
            median(&all(|ours, bare| bare.served / ours.served)),
            quantile(&latencies, 50),
            quantile(&latencies, 99),
            each(|asked| asked.times),
            each(|asked| asked.logged),
        );
    }
}
