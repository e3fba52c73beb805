//! Many trainings: every staleness with every number of workers, several seeds each.

use super::delay::Delay;
use super::learner::Model;
use super::optimizer::Optimizer;
use super::run::{Course, Training};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// What is learned.
    pub model: Model,
    /// What gradients become.
    pub optimizer: Optimizer,
    /// How delays are distributed.
    pub delay: Delay,
    /// The longest delays.
    pub staleness: Vec<u32>,
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// Steps that are tried; the one that is fastest on average counts, as in the study. The model's usual one, if there are none.
    pub rates: Vec<f32>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// The quality that counts as learned.
    pub target: Option<f64>,
    /// Batches after which a training is given up.
    pub most_batches: u64,
    /// Whether trainings go on after the target, so that their courses are whole.
    pub to_the_end: bool,
}

/// What came of one staleness with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The longest delay.
    pub staleness: u32,
    /// How many worked.
    pub workers: usize,
    /// The step that counts.
    pub rate: f32,
    /// Batches until the target, by seed; none where it was not reached.
    pub reached: Vec<Option<u64>>,
    /// The courses, by seed.
    pub courses: Vec<Course>,
}

impl Cell {
    /// Mean and deviation of the batches until the target, where all seeds have reached it.
    #[must_use]
    pub fn batches(&self) -> Option<(f64, f64)> {
        let all: Vec<f64> =
            self.reached.iter().map(|reached| reached.map(|batches| batches as f64)).collect::<Option<_>>()?;
        Some(mean_and_deviation(&all))
    }

    /// Mean and deviation of the last quality.
    #[must_use]
    pub fn last(&self) -> (f64, f64) {
        mean_and_deviation(&self.courses.iter().map(Course::last).collect::<Vec<_>>())
    }

    /// Batches, and mean and deviation of quality over all seeds that have come so far.
    #[must_use]
    pub fn course(&self) -> Vec<(u64, f64, f64)> {
        let longest = self.courses.iter().map(|course| course.points.len()).max().unwrap_or(0);
        (0..longest)
            .filter_map(|at| {
                let here: Vec<(u64, f64)> =
                    self.courses.iter().filter_map(|course| course.points.get(at).copied()).collect();
                let (mean, deviation) =
                    mean_and_deviation(&here.iter().map(|(_, quality)| *quality).collect::<Vec<_>>());
                Some((here.first()?.0, mean, deviation))
            })
            .collect()
    }
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, if values.len() > 1 { (spread / (count - 1.0)).sqrt() } else { 0.0 })
}

impl Sweep {
    /// All of them, on all processors; `told` hears of each training that is over, and of how many there are. In the order of workers, then staleness.
    ///
    /// # Panics
    /// If a training does.
    #[must_use]
    pub fn run(&self, told: impl Fn(usize, usize) + Sync) -> Vec<Cell> {
        let usual = [self.model.rate(self.optimizer)];
        let rates = if self.rates.is_empty() { &usual[..] } else { &self.rates };
        let mut trainings = Vec::new();
        for &workers in &self.workers {
            for &staleness in &self.staleness {
                for &rate in rates {
                    for &seed in &self.seeds {
                        let training = Training::new(self.model, self.optimizer, staleness, workers, seed);
                        let target = self.target.or(training.target).filter(|_| !self.to_the_end);
                        let (delay, most_batches) = (self.delay, self.most_batches);
                        trainings.push(Training { rate, delay, target, most_batches, ..training });
                    }
                }
            }
        }
        let next = AtomicUsize::new(0);
        let over = AtomicUsize::new(0);
        let courses: Mutex<Vec<Option<Course>>> = Mutex::new(vec![None; trainings.len()]);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((number, training)) = {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        trainings.get(number).map(|training| (number, training))
                    } {
                        let course = training.run();
                        courses.lock().expect("no thread panics while it holds this")[number] = Some(course);
                        told(over.fetch_add(1, Ordering::Relaxed) + 1, trainings.len());
                    }
                });
            }
        });
        let courses: Vec<Course> =
            courses.into_inner().expect("no thread panics while it holds this").into_iter().flatten().collect();
        self.gather(rates, &trainings, &courses)
    }

    /// Puts the trainings of each staleness and number of workers together, with the step that was fastest.
    fn gather(&self, rates: &[f32], trainings: &[Training], courses: &[Course]) -> Vec<Cell> {
        let target = self.target.unwrap_or_else(|| self.model.target());
        let reached = |course: &Course| {
            let good = |quality: f64| if self.model.falls() { quality <= target } else { quality >= target };
            course.points.iter().find(|(_, quality)| good(*quality)).map(|(batches, _)| *batches)
        };
        let group = rates.len() * self.seeds.len();
        let cell = |(of, courses): (&[Training], &[Course])| {
            let of_rate = of.chunks(self.seeds.len()).zip(courses.chunks(self.seeds.len()));
            let cells = of_rate.map(|(of, courses)| Cell {
                staleness: of[0].staleness,
                workers: of[0].workers,
                rate: of[0].rate,
                reached: courses.iter().map(reached).collect(),
                courses: courses.to_vec(),
            });
            // Who does not reach the target takes longer than whoever does.
            let takes = |cell: &Cell| {
                let late = 10 * self.most_batches;
                cell.reached.iter().map(|reached| reached.unwrap_or(late)).sum::<u64>()
            };
            cells.min_by_key(takes)
        };
        trainings.chunks(group).zip(courses.chunks(group)).filter_map(cell).collect()
    }
}

/// One line for each staleness and number of workers: batches until the target with deviation, over those without staleness, and the last quality.
#[must_use]
pub fn to_csv(sweep: &Sweep, cells: &[Cell]) -> String {
    let mut text = String::from(
        "model,optimizer,delay,workers,staleness,rate,seeds,reached,batches,batches_deviation,slow_down,quality,quality_deviation\n",
    );
    for cell in cells {
        let (quality, deviation) = cell.last();
        let reached = cell.reached.iter().flatten().count();
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
        let delay = match sweep.delay {
            Delay::Uniform => "uniform",
            Delay::Geometric => "geometric",
        };
        let optimizer = if sweep.model.has_gradients() { sweep.optimizer.name() } else { "gibbs" };
        let _ = writeln!(
            text,
            "{},{optimizer},{delay},{},{},{},{},{reached},{},{},{},{quality},{deviation}",
            sweep.model.name(),
            cell.workers,
            cell.staleness,
            cell.rate,
            cell.reached.len(),
            number(cell.batches().map(|(mean, _)| mean)),
            number(cell.batches().map(|(_, deviation)| deviation)),
            number(slow_down(cells, cell)),
        );
    }
    text
}

/// How many times as many batches it takes as with the least staleness and the same workers, if both reach the target.
#[must_use]
pub fn slow_down(cells: &[Cell], cell: &Cell) -> Option<f64> {
    let same = cells.iter().filter(|other| other.workers == cell.workers);
    let least = same.min_by_key(|other| other.staleness)?;
    Some(cell.batches()?.0 / least.batches()?.0)
}
