//! What a run costs beside its steps. Times here are processor times or the best of many, so that a busy machine does not
//! fail them; `benches/RESULTS.md` has the wall-clock numbers.

mod scratch;

use lightning_data::Accounting;
use lightning_train::records::clock::WallClock;
use lightning_train::records::expert_matrix::ExpertMatrix;
use lightning_train::records::tensorboard::EventWriter;
use lightning_train::train::metrics::{MetricsFile, StepMetrics};
use scratch::*;
use std::fs;
use std::time::{Duration, Instant};

/// A step of the demo on two cores takes over a second; one percent of a fifth of it.
const RECORDS: Duration = Duration::from_millis(2);

/// Processor time of a process so far, all its threads together.
fn processor_time(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name, which may hold anything, fields 14 and 15 of the whole line are ticks of 10 ms.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |field: usize| fields[field - 3].parse::<u64>().unwrap();
    Duration::from_millis(10 * (ticks(14) + ticks(15)))
}

#[test]
fn the_demo_reaches_its_loop_within_two_seconds_of_a_warm_cache() {
    let s = Scratch::new("start");
    let demo = |extra: &[&str]| -> Vec<String> {
        let fixed = ["train", "--recipe", "demo_pretrain_config", "device.threads=2", "validation.eval_interval=0"];
        fixed.iter().chain(extra).map(|w| w.to_string()).collect()
    };
    // The cache: text and tokenizer, whatever model reads them.
    let small = ["model.hidden_size=32", "model.seq_length=32", "train.train_iters=1", "logger.dir=cold"];
    expect(&run(&s, &demo(&small)), 0, &["done after step 1"]);
    let mut child = start(&s, &demo(&["logger.dir=warm"]));
    wait_until(&mut child, "the loop", || said(&s).contains("run folder"));
    let took = processor_time(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(took < Duration::from_secs(2), "{took:?} of processor time before the first step");
}

#[test]
fn records_of_a_step_take_less_than_a_hundredth_of_it() {
    let s = Scratch::new("record-cost");
    let mut metrics = MetricsFile::open(&s.path("metrics.jsonl"), None, &["a".into()]).unwrap();
    let mut events = EventWriter::create(&s.path("tensorboard"), 0, WallClock::default()).unwrap();
    let (routers, experts) = (5, 128);
    let mut best = Duration::MAX;
    for iteration in 1..=100 {
        let m = StepMetrics {
            iteration,
            consumed_samples: 8 * iteration,
            lm_loss: 4.5,
            mtp_losses: vec![5.0, 5.5],
            mtp_acceptance: vec![12.0, 8.0],
            load_balancing_loss: Some(1.1),
            grad_norm: 1.2,
            learning_rate: 1e-3,
            elapsed_ms: 1400.0,
            tokens_per_s: 1443.0,
            tflops_charged: 0.1,
            tflops_honest: 0.1,
            expert_max_over_mean: Some(3.0),
            expert_dead_share: Some(0.1),
            loss_tokens: 2048,
            mtp_tokens: vec![2040, 2032],
            accounting: Accounting { tokens_by_source: vec![2048], ..Accounting::default() },
            skipped: false,
            skipped_total: 0,
            data_wait_ms: 0.1,
            batch_hash: iteration,
        };
        let begin = Instant::now();
        let record = m.to_json();
        metrics.write(&record).unwrap();
        events.write(iteration, &record, "").unwrap();
        let counts = vec![iteration as f64; routers * experts];
        let matrix =
            ExpertMatrix::from_counts((0..routers).map(|r| r.to_string()).collect(), experts, &counts, counts.clone());
        metrics.write(&matrix.to_json(iteration)).unwrap();
        events.flush().unwrap();
        best = best.min(begin.elapsed());
    }
    assert!(best < RECORDS, "{best:?}");
}
